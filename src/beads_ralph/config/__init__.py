"""beads-ralph.yaml: every setting, how the file is read, and its JSON Schema.

Settings are values; what follows from them is decided by whoever uses them.
"""

from beads_ralph.config.model import (
    CONFIG_NAME,
    SECTIONS,
    SHORTCUTS,
    AgentDefaults,
    Config,
    Logging,
    PlanDefaults,
    Section,
)
from beads_ralph.config.published import json_schema
from beads_ralph.config.read import LoadedConfig, load, parse, plan_defaults, read

__all__ = [
    "CONFIG_NAME",
    "SECTIONS",
    "SHORTCUTS",
    "AgentDefaults",
    "Config",
    "LoadedConfig",
    "Logging",
    "PlanDefaults",
    "Section",
    "json_schema",
    "load",
    "parse",
    "plan_defaults",
    "read",
]

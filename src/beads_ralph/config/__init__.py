"""beads-ralph.yaml: what can be set, how it is read, and the JSON Schema of it."""

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

"""Every agent CLI that has an adapter of its own, and which one plays a program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from beads_ralph.files.plugins import Plugins

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentCLI

AGENTS: Final[Mapping[str, AgentCLI]] = Plugins("agents.adapters", "AGENT")


def select(executable: str) -> AgentCLI:
    """The adapter of a program, by its name; a program without one of its own is played by `command`."""
    name = os.path.basename(executable)  # noqa: PTH119 - a word, not a path
    return AGENTS[name if name in AGENTS else "command"]

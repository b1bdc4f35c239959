"""Every agent CLI that has an adapter of its own, and which one plays a program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from beads_ralph.agents.adapters.claude import Claude
from beads_ralph.agents.adapters.codex import Codex
from beads_ralph.agents.adapters.command import Command
from beads_ralph.agents.adapters.copilot import Copilot
from beads_ralph.agents.adapters.gemini import Gemini
from beads_ralph.agents.adapters.goose import Goose
from beads_ralph.agents.adapters.opencode import OpenCode
from beads_ralph.agents.adapters.scripted import Scripted

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentCLI

AGENTS: Final[dict[str, AgentCLI]] = {
    "claude": Claude(),
    "codex": Codex(),
    "command": Command(),
    "copilot": Copilot(),
    "gemini": Gemini(),
    "goose": Goose(),
    "opencode": OpenCode(),
    "scripted": Scripted(),
}


def select(executable: str) -> AgentCLI:
    """The adapter of a program, by its name; a program without one of its own is played by `command`."""
    return AGENTS.get(os.path.basename(executable), AGENTS["command"])  # noqa: PTH119 - a word, not a path

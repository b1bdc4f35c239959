"""The composition root: builds a run, an execution, a check of gates or a question from the settings.

Here and nowhere else a store, a forge, an executor, the agents, a journal and the signals come together.
Commands call this and print; a script may do the same (`import beads_ralph`). A name is imported when it is
used: a question needs no loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beads_ralph.app.bead_files import ExecRequest, execute_files
    from beads_ralph.app.gate_checks import check_gates
    from beads_ralph.app.parts import forge_of, tools_at
    from beads_ralph.app.planning import plan_run
    from beads_ralph.app.questions import ask, preview
    from beads_ralph.app.request import RunRequest
    from beads_ralph.app.running import PlannedRun

__all__ = [
    "ExecRequest",
    "PlannedRun",
    "RunRequest",
    "ask",
    "check_gates",
    "execute_files",
    "forge_of",
    "plan_run",
    "preview",
    "tools_at",
]

_HOMES = {
    "ExecRequest": "bead_files",
    "PlannedRun": "running",
    "RunRequest": "request",
    "ask": "questions",
    "check_gates": "gate_checks",
    "execute_files": "bead_files",
    "forge_of": "parts",
    "plan_run": "planning",
    "preview": "questions",
    "tools_at": "parts",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

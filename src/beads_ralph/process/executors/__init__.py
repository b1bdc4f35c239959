"""Where jobs run: one module per kind of executor, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.executors.tmux import TmuxExecutor
from beads_ralph.process.sandbox import Sandbox, Sandboxed

if TYPE_CHECKING:
    from beads_ralph.process.protocol import Executor

EXECUTORS: Final[dict[str, Callable[[], Executor]]] = {"local": LocalExecutor, "tmux": TmuxExecutor}


def choose(name: str, sandbox: Sandbox | None = None) -> Executor:
    """The executor of that name; with a sandbox, every job of it is closed in."""
    return EXECUTORS[name]() if sandbox is None else Sandboxed(EXECUTORS[name](), sandbox)

"""Where jobs run: one file a kind of executor, in which `EXECUTOR` makes it. No other line is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from beads_ralph.files.plugins import Plugins
from beads_ralph.process.sandbox import Sandbox, Sandboxed

if TYPE_CHECKING:
    from beads_ralph.process.jobs import Executor

EXECUTORS: Final[Mapping[str, Callable[[], Executor]]] = Plugins("process.executors", "EXECUTOR")


def choose(name: str, sandbox: Sandbox | None = None) -> Executor:
    """The executor of that name; with a sandbox, every job of it is closed in."""
    return EXECUTORS[name]() if sandbox is None else Sandboxed(EXECUTORS[name](), sandbox)

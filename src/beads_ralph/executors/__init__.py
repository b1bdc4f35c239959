"""Where jobs run: one module per kind of executor, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from beads_ralph.executors.local import LocalExecutor
from beads_ralph.executors.tmux import TmuxExecutor

if TYPE_CHECKING:
    from beads_ralph.protocols import Executor

EXECUTORS: Final[dict[str, Callable[[], Executor]]] = {"local": LocalExecutor, "tmux": TmuxExecutor}


def choose(name: str) -> Executor:
    return EXECUTORS[name]()

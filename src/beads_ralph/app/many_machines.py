"""The engine that the settings ask for: sessions here, or on other machines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from beads_ralph.bead.model import Bead
from beads_ralph.engine import fence
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.git.git_files import HEADS
from beads_ralph.journal.journal import Journal
from beads_ralph.session import Order, Outcome, SessionHost, Tools

EXTRA: Final = "pip install 'beads-ralph[temporal]'"


class Engine(Protocol):
    """A `RunSession` that is open while the loop runs."""

    async def __call__(self, order: Order, host: SessionHost) -> Outcome: ...

    def opened(self, journal: Journal) -> AbstractAsyncContextManager[None]:
        """Ready for sessions during the block."""

    async def elsewhere(self, beads: Sequence[Bead]) -> Collection[str]:
        """The beads whose sessions go on from an earlier run."""


def require_temporal() -> None:
    """USAGE where the library is not installed."""
    try:
        import temporalio  # noqa: F401
    except ImportError:
        message = "engine: temporal needs the Temporal library, which is not installed"
        raise RalphError(Code.USAGE, message, suggested_action=f"Install it: {EXTRA}") from None


def engine_of(tools: Tools) -> Engine | None:
    """None for sessions in this process. The others need a remote that has what they start from."""
    if tools.config.engine == "local":
        return None
    require_temporal()
    from beads_ralph.engine.temporal.coordinator import TemporalSessions

    found = commands.remote_addresses("origin", tools.root)
    if not found:
        message = "engine: temporal needs a git remote that other machines can reach, and there is no origin"
        raise RalphError(Code.USAGE, message, suggested_action="Add it: git remote add origin URL")
    _require_source(tools, found[0])
    return TemporalSessions(tools, found[0])


def _require_source(tools: Tools, remote: str) -> None:
    """Other machines start from the source branch as the remote has it."""
    source = tools.config.plan.source_branch
    if source is None:
        return
    ref = f"{HEADS}{source}"
    here, there = commands.commit_of(ref, tools.root), fence.refs_at(tools.root, remote, ref).get(ref)
    if there is None or (here is not None and not commands.contains(tools.root, there, here)):
        state = "is not on the remote" if there is None else "has commits here that the remote lacks"
        message = f"{source} {state}; other machines work from there"
        raise RalphError(Code.GIT_ERROR, message, suggested_action=f"Push it: git push origin {source}")

"""The loop as its sessions see it: journal, store, budget, and limits, for one bead each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.loop.budget import Meter
from beads_ralph.loop.run_store import Pool
from beads_ralph.session.program_limits import LocalHost


@dataclass(frozen=True)
class LoopHost(LocalHost):
    """Serves the session of one bead; all hosts of a run share the same journal, store, budget and limits."""

    pool: Pool
    meter: Meter
    beside: Mapping[str, Sequence[str]]
    """By bead: the branches that were worked on while it was."""
    why_halt: Callable[[], str]
    """Why the run starts nothing more; empty where it does."""

    async def keep(self, state: RunState) -> None:
        await self.pool.keep(self.bead, state)

    async def why_pause(self) -> str:
        return self.why_halt() or self.meter.used_up()

    async def budget_left(self, in_flight: Usage) -> Budget:
        return self.meter.left_for(self.bead.id, in_flight)

    async def branches_beside(self) -> Sequence[str]:
        return tuple(self.beside.get(self.bead.id, ()))

"""The loop as its sessions see it: journal, store, budget, and limits, for one bead each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.words import utc_text
from beads_ralph.journal.events import Event, ProgramUnavailable
from beads_ralph.journal.journal import Journal
from beads_ralph.loop.budget import Meter
from beads_ralph.loop.limits import ProgramLimits
from beads_ralph.loop.run_store import Pool
from beads_ralph.session.host import ProgramLimit, ProgramTrouble


@dataclass(frozen=True)
class LoopHost:
    """Serves the session of one bead; all hosts of a run share the same journal, store, budget and limits."""

    bead: Bead
    journal: Journal
    pool: Pool
    meter: Meter
    programs: ProgramLimits
    beside: Mapping[str, Sequence[str]]
    """By bead: the branches that were worked on while it was."""

    def emit(self, event: Event) -> None:
        self.journal.emit(event)

    async def keep(self, state: RunState) -> None:
        await self.pool.keep(self.bead, state)

    async def why_pause(self) -> str:
        return self.meter.used_up()

    async def branches_beside(self) -> Sequence[str]:
        return tuple(self.beside.get(self.bead.id, ()))

    async def limit_of(self, program: str) -> ProgramLimit | None:
        return self.programs.of(program)

    async def report_trouble(self, trouble: ProgramTrouble) -> ProgramLimit:
        """The journal is told once, however many sessions meet the same."""
        limit, news = self.programs.begin(trouble)
        if news:
            event = ProgramUnavailable(
                bead=self.bead.id,
                team=self.bead.metadata.team_name,
                program=limit.program,
                trouble=limit.trouble,
                until=utc_text(limit.until),
                reason=limit.reason,
            )
            self.journal.emit(event)
        return limit

    async def report_success(self, program: str, seconds: float) -> None:
        self.programs.worked(program, seconds)

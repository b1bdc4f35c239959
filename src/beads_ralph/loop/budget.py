"""What a run has used of its budget, and how many beads it may have at work: read off its own journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.journal.events import AgentEnded, Event, ParallelismChanged, ProgramUnavailable
from beads_ralph.journal.journal import Journal
from beads_ralph.loop.limits import Parallelism
from beads_ralph.session.program_limits import ProgramLimits


@dataclass
class Meter:
    """Listens while a run lasts."""

    journal: Journal
    budget: Budget
    parallelism: Parallelism
    programs: ProgramLimits
    spent: Usage = field(default_factory=Usage)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    widened: bool = False
    """Whether the number of beads at once has changed since somebody asked."""

    @property
    def seconds(self) -> float:
        return (datetime.now(UTC) - self.started).total_seconds()

    def used_up(self) -> str:
        """Which part of the budget is; empty where there is some left of each."""
        used_up = self.budget.used_up(self.spent, self.seconds)
        return f"the {used_up}; run again to go on" if used_up else ""

    def hear(self, event: Event) -> None:
        self._note_usage(event)
        self._note_limits(event)

    def _note_usage(self, event: Event) -> None:
        """As it is spent, not when the bead ends: three attempts later may be too late."""
        if isinstance(event, AgentEnded):
            self.spent = self.spent + event.call.usage

    def _note_limits(self, event: Event) -> None:
        """Fewer at once from the moment a limit is met; more again, one by one, as calls go well."""
        match event:
            case ProgramUnavailable(trouble="limit"):
                changed = self.parallelism.lower()
            case AgentEnded(call=AgentCall(trouble="")):
                changed = not self.programs.limited and self.parallelism.widen()
            case _:
                return
        if changed:
            self.widened = True
            now, most = self.parallelism.now, self.parallelism.most
            self.journal.emit(ParallelismChanged(parallel=now, most=most))

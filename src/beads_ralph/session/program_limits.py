"""Programs that cannot play an agent now, why, and until when; as all beads of a run have met them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from beads_ralph.agents import faults
from beads_ralph.agents.faults import FAULTS
from beads_ralph.bead.model import Bead
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.bead.words import moment_of, utc_text
from beads_ralph.config.model import Config
from beads_ralph.journal.events import Event, ProgramUnavailable
from beads_ralph.journal.journal import EventSink

LIMIT_SECONDS: Final = 60.0
"""The first pause where nobody said when a limit lifts; doubled each time."""
OUTAGE_SECONDS: Final = 15.0
"""The first pause of a program whose server is down; doubled each time."""
KNOWN_SECONDS: Final = 1.0
"""The first pause where somebody said when a limit lifts, but was wrong before."""
LONGEST: Final = timedelta(hours=1)
LONGEST_OUTAGE: Final = timedelta(minutes=5)
"""The longest pause of a program whose server is down: a call that fails costs little, a night a lot."""
FOR_THIS_RUN: Final = timedelta(days=30)
"""So long nobody asks a program that is set up wrongly."""
MOST_DOUBLINGS: Final = 20
JITTER: Final = (0.75, 1.25)
PATIENCE: Final = timedelta(hours=4)
"""So long an outage is waited for where the settings say nothing; then the run ends."""


@dataclass(frozen=True)
class ProgramTrouble:
    """Trouble of a program, as one call of it has met it."""

    program: str
    """Its name, or that of one of its models, or of all that it was set up with."""
    trouble: faults.Kind
    reason: str
    reset_at: str | None = None
    """When the limit lifts, as the program says."""
    seconds: float = 0.0
    """How long the call had lasted: one that was under way when others met the trouble has met the same."""


@dataclass(frozen=True)
class ProgramLimit:
    """Why a program is not called now, and until when; as all sessions of the run have met it."""

    program: str
    trouble: faults.Kind
    began: datetime
    until: datetime
    reason: str
    gives_up_at: datetime | None = None
    """When the patience with its outage ends."""

    @property
    def passes(self) -> bool:
        """Waiting helps; a sign-in, an installation and a setting need a person."""
        return FAULTS[self.trouble].passes

    @property
    def is_worth_waiting_for(self) -> bool:
        """Tell whether there is patience left, where waiting helps."""
        return self.passes and (self.gives_up_at is None or datetime.now(UTC) < self.gives_up_at)


@dataclass
class ProgramLimits:
    """All of them in a run. Nothing here asks anybody, so that waiting costs nothing."""

    limit_seconds: float = LIMIT_SECONDS
    outage_seconds: float = OUTAGE_SECONDS
    patience: timedelta = PATIENCE
    """So long an outage is waited for."""
    resting: dict[str, ProgramLimit] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    """How often in a row, without a call between that worked."""
    down_since: dict[str, datetime] = field(default_factory=dict)
    """When the outage of a program began, until a call of it works again."""

    @classmethod
    def under(cls, config: Config) -> ProgramLimits:
        """None of them yet, with the patience that the settings ask for."""
        return cls(patience=timedelta(seconds=config.outage_patience))

    def of(self, program: str) -> ProgramLimit | None:
        found = self.resting.get(program)
        return None if found is None or found.until <= datetime.now(UTC) else found

    def begin(self, met: ProgramTrouble) -> tuple[ProgramLimit, bool]:
        """Let the program rest, and say whether that is news."""
        now, last = datetime.now(UTC), self.resting.get(met.program)
        news = (
            last is None or last.trouble != met.trouble or now - timedelta(seconds=met.seconds) >= last.began
        )
        if news:
            self.turns[met.program] = self.turns.get(met.program, 0) + 1
        gives_up_at = self._gives_up_at(met)
        said = known_moment(met.reset_at)
        until = self._until(met.trouble, self.turns.get(met.program, 1), said)
        if last is not None and not news:
            until = max(until, last.until) if said else last.until
        if gives_up_at is not None and now < gives_up_at:
            until = min(until, gives_up_at)  # so that it is asked once more before the run ends
        began = now if news or last is None else last.began
        return self._rest(met.program, met.trouble, began, until, met.reason, gives_up_at), news

    def _rest(
        self,
        program: str,
        trouble: faults.Kind,
        began: datetime,
        until: datetime,
        reason: str,
        gives_up_at: datetime | None = None,
    ) -> ProgramLimit:
        limit = self.resting[program] = ProgramLimit(program, trouble, began, until, reason, gives_up_at)
        return limit

    def _gives_up_at(self, met: ProgramTrouble) -> datetime | None:
        """When the patience with this outage ends; None where it is none."""
        if FAULTS[met.trouble].alone != "wait":
            return None
        return self.down_since.setdefault(met.program, datetime.now(UTC)) + self.patience

    def _until(self, trouble: faults.Kind, turn: int, said: datetime | None) -> datetime:
        now = datetime.now(UTC)
        if not FAULTS[trouble].passes:
            return now + (FOR_THIS_RUN if FAULTS[trouble].rests == "setup" else LONGEST)
        if trouble == "limit" and said is not None:
            return max(said, now + _pause(KNOWN_SECONDS, turn - 1) if turn > 1 else now)
        first, longest = (
            (self.limit_seconds, LONGEST) if trouble == "limit" else (self.outage_seconds, LONGEST_OUTAGE)
        )
        return now + _pause(first, turn - 1, longest) * random.uniform(*JITTER)  # noqa: S311

    def remember(self, program: str, until: datetime, reason: str) -> None:
        """What an earlier run has met."""
        now = datetime.now(UTC)
        if until > now and program not in self.resting:
            self._rest(program, "limit", now, until, reason)

    def worked(self, program: str, seconds: float = 0.0) -> None:
        """A call of so many seconds has come back without such trouble; one that was under way when the
        program's rest began proves nothing about what came after."""
        last = self.resting.get(program)
        if last is None or datetime.now(UTC) - timedelta(seconds=seconds) >= last.began:
            for known in (self.turns, self.down_since, self.resting):
                known.pop(program, None)

    def lift(self) -> list[str]:
        """Forget what has passed, and say whose rest is over."""
        now = datetime.now(UTC)
        over = [program for program, limit in self.resting.items() if limit.until <= now]
        for program in over:
            del self.resting[program]
        return over

    def is_first(self, limit: ProgramLimit) -> bool:
        """Tell whether it is met for the first time, without a call between that worked."""
        return self.turns.get(limit.program, 1) == 1

    def is_down(self, program: str) -> bool:
        """Tell whether an outage holds it up, for which there is patience still."""
        found = self.resting.get(program)
        return found is not None and found.gives_up_at is not None and found.is_worth_waiting_for

    @property
    def limited(self) -> bool:
        return any(limit.trouble == "limit" and self.of(name) for name, limit in self.resting.items())


def _pause(first: float, doublings: int, longest: timedelta = LONGEST) -> timedelta:
    return min(timedelta(seconds=first * 2 ** min(doublings, MOST_DOUBLINGS)), longest)


def known_moment(text: str | None) -> datetime | None:
    """A time that somebody else wrote down; None where it is none."""
    try:
        return None if text is None else moment_of(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class LocalHost:
    """The part of a host that is the same for `run` and `exec`: a journal, and what all beads have met of
    programs."""

    bead: Bead
    journal: EventSink
    programs: ProgramLimits

    def emit(self, event: Event) -> None:
        self.journal.emit(event)

    async def budget_left(self, in_flight: Usage) -> Budget:
        return Budget()

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
                todo=faults.remedy(limit.trouble) if self.programs.is_first(limit) else "",
                gives_up_at=utc_text(limit.gives_up_at) if limit.gives_up_at else None,
            )
            self.emit(event)
        return limit

    async def report_success(self, program: str, seconds: float) -> None:
        self.programs.worked(program, seconds)

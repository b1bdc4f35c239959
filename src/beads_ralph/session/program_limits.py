"""Programs that cannot play an agent now, why, and until when; as all beads of a run have met them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import moment_of, utc_text
from beads_ralph.journal.events import Event, ProgramUnavailable
from beads_ralph.journal.journal import EventSink

LIMIT_SECONDS: Final = 60.0
"""The first pause where nobody said when a limit lifts; doubled each time."""
OUTAGE_SECONDS: Final = 15.0
"""The first pause of a program whose server is down; doubled each time."""
KNOWN_SECONDS: Final = 1.0
"""The first pause where somebody said when a limit lifts, but was wrong before."""
LONGEST: Final = timedelta(hours=1)
MOST_DOUBLINGS: Final = 20
JITTER: Final = (0.75, 1.25)
PATIENCE: Final = timedelta(hours=1)
"""So long an outage is waited for; after that it counts against the beads that meet it."""

TroubleKind = Literal["limit", "server", "auth", "missing"]
"""Why a program cannot play an agent: at a limit, its server is down, not signed in, not installed."""


@dataclass(frozen=True)
class ProgramTrouble:
    """Trouble of a program, as one call of it has met it."""

    program: str
    trouble: TroubleKind
    reason: str
    reset_at: str | None = None
    """When the limit lifts, as the program says."""
    seconds: float = 0.0
    """How long the call had lasted: one that was under way when others met the trouble has met the same."""


@dataclass(frozen=True)
class ProgramLimit:
    """Why a program is not called now, and until when; as all sessions of the run have met it."""

    program: str
    trouble: TroubleKind
    began: datetime
    until: datetime
    reason: str
    proven: bool = False
    """It has worked in this run, so what fails now is no mistake in its setup."""
    down_since: datetime | None = None
    """When its outage began."""

    @property
    def passes(self) -> bool:
        """Waiting helps; a sign-in and an installation need a person."""
        return self.trouble in ("limit", "server")

    def is_worth_waiting_for(self, *, unproven: bool = False) -> bool:
        """A limit is. An outage is not for ever; and not at the start of a run, where a wrong address looks
        just the same and somebody is there to fix it, unless those of `unproven` programs are, too."""
        if self.trouble == "limit" or not (unproven or self.proven) or self.down_since is None:
            return self.trouble == "limit"
        return self.passes and datetime.now(UTC) - self.down_since < PATIENCE


@dataclass
class ProgramLimits:
    """All of them in a run. Nothing here asks anybody, so that waiting costs nothing."""

    limit_seconds: float = LIMIT_SECONDS
    outage_seconds: float = OUTAGE_SECONDS
    resting: dict[str, ProgramLimit] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    """How often in a row, without a call between that worked."""
    proven: set[str] = field(default_factory=set)
    """Those that have worked in this run."""
    down_since: dict[str, datetime] = field(default_factory=dict)

    def of(self, program: str) -> ProgramLimit | None:
        found = self.resting.get(program)
        if found is None or found.until <= datetime.now(UTC):
            return None
        return replace(found, proven=program in self.proven, down_since=self.down_since.get(program))

    def begin(self, met: ProgramTrouble) -> tuple[ProgramLimit, bool]:
        """Let the program rest, and say whether that is news."""
        now, last = datetime.now(UTC), self.resting.get(met.program)
        news = (
            last is None or last.trouble != met.trouble or now - timedelta(seconds=met.seconds) >= last.began
        )
        if news:
            self.turns[met.program] = self.turns.get(met.program, 0) + 1
        said = known_moment(met.reset_at)
        until = self._until(met.trouble, self.turns.get(met.program, 1), said)
        if last is not None and not news:
            until = max(until, last.until) if said else last.until
        if met.trouble == "server":
            self.down_since.setdefault(met.program, now)
        began = now if news or last is None else last.began
        return self._rest(met.program, met.trouble, began, until, met.reason), news

    def _rest(
        self, program: str, trouble: TroubleKind, began: datetime, until: datetime, reason: str
    ) -> ProgramLimit:
        known = (program in self.proven, self.down_since.get(program))
        limit = self.resting[program] = ProgramLimit(program, trouble, began, until, reason, *known)
        return limit

    def _until(self, trouble: TroubleKind, turn: int, said: datetime | None) -> datetime:
        now = datetime.now(UTC)
        if trouble in ("auth", "missing"):
            return now + LONGEST
        if trouble == "limit" and said is not None:
            return max(said, now + _pause(KNOWN_SECONDS, turn - 1) if turn > 1 else now)
        first = self.limit_seconds if trouble == "limit" else self.outage_seconds
        return now + _pause(first, turn - 1) * random.uniform(*JITTER)  # noqa: S311

    def remember(self, program: str, until: datetime, reason: str) -> None:
        """What an earlier run has met."""
        now = datetime.now(UTC)
        if until > now and program not in self.resting:
            self._rest(program, "limit", now, until, reason)

    def worked(self, program: str, seconds: float = 0.0) -> None:
        """A call of so many seconds has come back without such trouble; one that was under way when the
        program's rest began proves nothing about what came after."""
        self.proven.add(program)
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

    @property
    def limited(self) -> bool:
        return any(limit.trouble == "limit" and self.of(name) for name, limit in self.resting.items())


def _pause(first: float, doublings: int) -> timedelta:
    return min(timedelta(seconds=first * 2 ** min(doublings, MOST_DOUBLINGS)), LONGEST)


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
            self.emit(event)
        return limit

    async def report_success(self, program: str, seconds: float) -> None:
        self.programs.worked(program, seconds)

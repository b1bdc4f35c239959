"""Limits of programs: which rest until when, which beads wait for them, how many may work at once."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import ParkedUntil
from beads_ralph.session.host import ProgramLimit, ProgramTrouble, TroubleKind, moment_of

LIMIT_SECONDS: Final = 60.0
"""The first pause where nobody said when a limit lifts; doubled each time."""
OUTAGE_SECONDS: Final = 15.0
"""The first pause of a program whose server is down; doubled each time."""
KNOWN_SECONDS: Final = 1.0
"""The first pause where somebody said when a limit lifts, but was wrong before."""
LONGEST: Final = timedelta(hours=1)
MOST_DOUBLINGS: Final = 20
JITTER: Final = (0.75, 1.25)
MOST_PARKED: Final = 20
"""So often a bead is parked in one run; then a person should look."""


# --- programs -----------------------------------------------------------------------------------------


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
        said = moment_of(met.reset_at)
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


# --- beads --------------------------------------------------------------------------------------------


@dataclass
class ParkedBeads:
    """Who waits until when. Nothing in it asks the store, so that waiting costs nothing."""

    programs: ProgramLimits = field(default_factory=ProgramLimits)
    """The programs that cannot play, as all beads have met them."""
    beads: dict[str, datetime] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, datetime] = field(default_factory=dict)
    """Ready beads that were not started at the last look, and what they wait for."""

    def park(self, bead_id: str, retry_at: str | None) -> datetime | None:
        """Until when it waits; None where it has been parked too often to go on like this. A time that is
        always past already must not make the bead spin."""
        turn = self.turns[bead_id] = self.turns.get(bead_id, 0) + 1
        if turn > MOST_PARKED:
            return None
        now = datetime.now(UTC)
        pause = timedelta(seconds=KNOWN_SECONDS * 2 ** (turn - 1)) if turn > 1 else timedelta()
        until = self.beads[bead_id] = max(moment_of(retry_at) or now, now + min(pause, LONGEST))
        return until

    def remember(self, bead: Bead) -> None:
        """Parked by an earlier run: what holds it up are its programs, and perhaps it has others now."""
        if bead.id in self.turns:
            return
        parked = bead.metadata.parked or ParkedUntil()
        until = moment_of(parked.until)
        if until is None or until <= datetime.now(UTC):
            return
        self.turns[bead.id] = 1
        for name, moment in (parked.programs or {}).items():
            self.programs.remember(name, moment_of(moment) or until, parked.reason or "")
        if not parked.programs:
            self.beads[bead.id] = until

    def lift(self) -> bool:
        """Forget what has passed; whether a bead's time has come."""
        now, before = datetime.now(UTC), len(self.beads)
        self.beads = {name: until for name, until in self.beads.items() if until > now}
        return len(self.beads) < before

    def holds(self, bead_id: str, agents: Iterable[Sequence[str]]) -> bool:
        """Whether to start it would be in vain, now. `agents`: for each of its agents, who can play it."""
        ends = [self.beads[bead_id]] if bead_id in self.beads else []
        for able in agents:
            rests = [self.programs.of(name) for name in able]
            if all(rests):  # where waiting helps nobody, it is started, and says so
                ends += sorted(rest.until for rest in rests if rest is not None and rest.passes)[:1]
        if ends:
            self.waiting[bead_id] = max(ends)
        return bool(ends)

    def __bool__(self) -> bool:
        return bool(self.beads or self.waiting)

    def __str__(self) -> str:
        rows = sorted((until, name) for name, until in {**self.waiting, **self.beads}.items())
        return "; ".join(f"{name} waits until {until:%Y-%m-%dT%H:%M:%SZ}" for until, name in rows[:3])


# --- parallelism --------------------------------------------------------------------------------------


@dataclass
class Parallelism:
    """How many beads may be at work at once: halved at each new limit, and given back one by one when calls
    work again."""

    most: int
    now: int

    @classmethod
    def of(cls, most: int) -> Parallelism:
        return cls(most, most)

    def lower(self) -> bool:
        """Whether that changed anything."""
        before, self.now = self.now, max(self.now // 2, 1)
        return self.now != before

    def widen(self) -> bool:
        before, self.now = self.now, min(self.now + 1, self.most)
        return self.now != before

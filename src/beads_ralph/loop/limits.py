"""Beads that wait for the limits of programs, and how many may work at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import ParkedUntil
from beads_ralph.session.program_limits import KNOWN_SECONDS, LONGEST, ProgramLimits, known_moment

MOST_PARKED: Final = 20
"""So often a bead is parked for a limit in one run; then a person should look."""


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

    def park(self, bead_id: str, retry_at: str | None, *, lasts: bool = False) -> datetime | None:
        """Until when it waits; None where it has been parked too often to go on like this. A time that is
        always past already must not make the bead spin. An outage that `lasts` ends by patience, not by a
        count."""
        if lasts:
            self.beads[bead_id] = known_moment(retry_at) or datetime.now(UTC)
            return self.beads[bead_id]
        turn = self.turns[bead_id] = self.turns.get(bead_id, 0) + 1
        if turn > MOST_PARKED:
            return None
        now = datetime.now(UTC)
        pause = timedelta(seconds=KNOWN_SECONDS * 2 ** (turn - 1)) if turn > 1 else timedelta()
        until = self.beads[bead_id] = max(known_moment(retry_at) or now, now + min(pause, LONGEST))
        return until

    def remember(self, bead: Bead) -> None:
        """Parked by an earlier run: what holds it up are its programs, and perhaps it has others now."""
        if bead.id in self.turns:
            return
        parked = bead.metadata.parked or ParkedUntil()
        until = known_moment(parked.until)
        if until is None or until <= datetime.now(UTC):
            return
        self.turns[bead.id] = 1
        for name, moment in (parked.programs or {}).items():
            self.programs.remember(name, known_moment(moment) or until, parked.reason or "")
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

"""Programs that cannot play for a while: at a limit, with a server that is down, not signed in, not there."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from beads_ralph.bead import field_types

Why = Literal["limit", "server", "auth", "missing"]

LIMIT_SECONDS: Final = 60.0
"""The first pause where nobody said when a limit lifts; doubled each time."""
OUTAGE_SECONDS: Final = 15.0
"""The first pause of a program whose server is down; doubled each time."""
KNOWN_SECONDS: Final = 1.0
"""The first pause where somebody said when a limit lifts, but was wrong before."""
LONGEST: Final = timedelta(hours=1)
PATIENCE: Final = timedelta(hours=1)
"""So long an outage is waited for; after that it counts against the beads that meet it."""
MOST_DOUBLINGS: Final = 20
JITTER: Final = (0.75, 1.25)


@dataclass(frozen=True)
class Rest:
    """Why a program does not play now, and until when."""

    why: Why
    began: datetime
    until: datetime
    reason: str

    @property
    def passes(self) -> bool:
        """Whether waiting helps; a sign-in and an installation need a person."""
        return self.why in ("limit", "server")


@dataclass
class Rests:
    """All of them in a run. Nothing here asks anybody, so that waiting costs nothing."""

    limit_seconds: float = LIMIT_SECONDS
    outage_seconds: float = OUTAGE_SECONDS
    resting: dict[str, Rest] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    """How often in a row, without a call between that worked."""
    proven: set[str] = field(default_factory=set)
    """Those that have worked in this run: so what fails now is no mistake in their setup."""
    down_since: dict[str, datetime] = field(default_factory=dict)

    def of(self, program: str) -> Rest | None:
        found = self.resting.get(program)
        return found if found is not None and found.until > datetime.now(UTC) else None

    def begin(
        self, program: str, why: Why, reason: str, reset_at: str | None = None, seconds: float = 0.0
    ) -> tuple[Rest, bool]:
        """Let it rest, and say whether that is news. `seconds` is how long the call had lasted that met
        the trouble: one that was under way when the rest began has met the same again."""
        now, last = datetime.now(UTC), self.resting.get(program)
        news = last is None or last.why != why or now - timedelta(seconds=seconds) >= last.began
        if news:
            self.turns[program] = self.turns.get(program, 0) + 1
        until = self._until(why, self.turns.get(program, 1), moment_of(reset_at))
        if last is not None and not news:
            until = max(until, last.until) if moment_of(reset_at) else last.until
        if why == "server":
            self.down_since.setdefault(program, now)
        began = now if news or last is None else last.began
        rest = self.resting[program] = Rest(why, began, until, reason)
        return rest, news

    def _until(self, why: Why, turn: int, said: datetime | None) -> datetime:
        now = datetime.now(UTC)
        if why in ("auth", "missing"):
            return now + LONGEST
        if why == "limit" and said is not None:
            return max(said, now + _pause(KNOWN_SECONDS, turn - 1) if turn > 1 else now)
        first = self.limit_seconds if why == "limit" else self.outage_seconds
        return now + _pause(first, turn - 1) * random.uniform(*JITTER)  # noqa: S311

    def remember(self, program: str, until: datetime, reason: str) -> None:
        """What an earlier run has met."""
        now = datetime.now(UTC)
        if until > now and program not in self.resting:
            self.resting[program] = Rest("limit", now, until, reason)

    def worked(self, program: str, seconds: float = 0.0) -> None:
        """A call of so many seconds has come back without such trouble; one that was under way when the
        program's rest began proves nothing about what came after."""
        self.proven.add(program)
        last = self.resting.get(program)
        if last is None or datetime.now(UTC) - timedelta(seconds=seconds) >= last.began:
            for known in (self.turns, self.down_since, self.resting):
                known.pop(program, None)

    def bears(self, program: str, *, unproven: bool = False) -> bool:
        """Whether its outage is one to wait for: not for ever; and not at the start of a run, where a wrong
        address looks just the same and somebody is there to mend it, unless `unproven` ones are, too."""
        since = self.down_since.get(program)
        known = unproven or program in self.proven
        return known and since is not None and datetime.now(UTC) - since < PATIENCE

    def lift(self) -> list[str]:
        """Forget what has passed, and say whose rest is over."""
        now = datetime.now(UTC)
        over = [program for program, rest in self.resting.items() if rest.until <= now]
        for program in over:
            del self.resting[program]
        return over

    @property
    def limited(self) -> bool:
        return any(rest.why == "limit" and self.of(name) for name, rest in self.resting.items())


def _pause(first: float, doublings: int) -> timedelta:
    return min(timedelta(seconds=first * 2 ** min(doublings, MOST_DOUBLINGS)), LONGEST)


def moment_of(text: str | None) -> datetime | None:
    """A time that somebody else wrote down; None where it is none."""
    if text is None:
        return None
    try:
        return field_types.moment_of(text)
    except ValueError:
        return None

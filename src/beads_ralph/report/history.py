"""Attempts of the past, to draw those of a forecast from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from beads_ralph.journal.records import Attempt
from beads_ralph.journal.records.reasons import UNJUDGED
from beads_ralph.report.tally import amount

ENOUGH: Final = 5
"""Fewer attempts than this are no history: the next wider circle is asked."""
DEFAULT_MEDIAN: Final = 600.0
DEFAULT_SIGMA: Final = 0.6
DEFAULT_PASS: Final = 0.75


class Past(NamedTuple):
    """One attempt that was judged."""

    seconds: float
    passed: bool
    cost: float | None


class Likeness(NamedTuple):
    """What attempts have in common; None stands for anything."""

    kind: str | None = None
    agent: str | None = None
    model: str | None = None

    def wider(self) -> tuple[Likeness, ...]:
        """From most to least alike."""
        kind, agent, model = self
        return (
            self,
            Likeness(kind, agent, None),
            Likeness(kind, None, None),
            Likeness(None, agent, model),
            Likeness(None, agent, None),
            Likeness(),
        )

    def __str__(self) -> str:
        said = [f"{name} {value}" for name, value in self._asdict().items() if value is not None]
        return ", ".join(said) or "all attempts"


@dataclass(frozen=True)
class AttemptPool:
    """What attempts at one sprint are drawn from: first ones, and ones after feedback."""

    first: tuple[Past, ...] = ()
    later: tuple[Past, ...] = ()
    likeness: Likeness | None = None
    """None where nothing is known, so that the stated defaults are drawn from."""
    attempts: int = 0

    @classmethod
    def of(cls, first: Sequence[Past], later: Sequence[Past], likeness: Likeness) -> AttemptPool:
        """Where too few are known of one kind, all of them stand in for it."""
        both = (*first, *later)
        few_first, few_later = len(first) < ENOUGH, len(later) < ENOUGH
        return cls(
            both if few_first else tuple(first), both if few_later else tuple(later), likeness, len(both)
        )

    @property
    def mean_seconds(self) -> float:
        if self.likeness is None:
            return DEFAULT_MEDIAN * math.exp(DEFAULT_SIGMA**2 / 2)
        return math.fsum(past.seconds for past in self.first) / len(self.first)

    def draw(self, attempt: int, chance: Random) -> Past:
        if self.likeness is None:
            seconds = DEFAULT_MEDIAN * math.exp(DEFAULT_SIGMA * chance.gauss(0.0, 1.0))
            return Past(seconds, chance.random() < DEFAULT_PASS, None)
        rows = self.first if attempt == 1 else self.later
        return rows[chance.randrange(len(rows))]


@dataclass
class History:
    """All attempts that were judged, by every likeness."""

    attempts: int = 0
    costs: int = 0
    _first: dict[Likeness, list[Past]] = field(default_factory=lambda: defaultdict(list))
    _later: dict[Likeness, list[Past]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> History:
        history = cls()
        for attempt in attempts:
            history.add(attempt)
        return history

    def add(self, attempt: Attempt) -> None:
        """What still runs, or was ended by something else than its work, says nothing of how work goes."""
        if attempt.status == "running" or attempt.seconds is None or attempt.failure_reason in UNJUDGED:
            return
        usage = attempt.extra.get("usage")
        cost = amount(usage.get("cost_usd")) if isinstance(usage, dict) else None
        kind = attempt.extra.get("kind")
        past = Past(attempt.seconds, attempt.status == "done", cost)
        self.attempts += 1
        self.costs += cost is not None
        place = self._first if attempt.attempt == 1 else self._later
        likeness = Likeness(kind if isinstance(kind, str) else None, attempt.agent, attempt.model)
        for circle in dict.fromkeys(likeness.wider()):
            place[circle].append(past)

    def pool(self, likeness: Likeness) -> AttemptPool:
        """The most alike of which there are enough; nothing at all where there is too little."""
        for circle in likeness.wider():
            first, later = self._first.get(circle, ()), self._later.get(circle, ())
            if len(first) + len(later) >= ENOUGH:
                return AttemptPool.of(first, later, circle)
        return AttemptPool()

"""Attempts of the past, by how much they are like those to come, and what can be drawn from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from beads_ralph.journal.records import Attempt
from beads_ralph.report.figures import amount, is_judged
from beads_ralph.report.posterior import AmountModel, Amounts, PassModel

ENOUGH: Final = 5
"""Fewer attempts than this are no history: the next wider circle is asked."""
DEFAULT_MEDIAN: Final = 600.0
DEFAULT_SIGMA: Final = 0.6
DEFAULT_PASS: Final = 0.75
FIRST_WEIGHT: Final = 3.0
"""Of how many attempts the rate that is expected before any has the weight."""
LATER_PASS: Final = 0.65
LATER_WEIGHT: Final = 4.0


class Past(NamedTuple):
    """One attempt that was judged."""

    seconds: float
    passed: bool
    cost: float | None
    bead: str = ""
    run: str = ""


class Likeness(NamedTuple):
    """Traits that attempts share; None stands for anything."""

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


class RunDraw(NamedTuple):
    """One possible truth about one run: what its attempts are drawn from."""

    times: Amounts
    costs: Amounts | None
    priced: float
    """Of the attempts, the share whose cost is known."""
    first: float
    later: float

    def work(self, begun: int, most: int, chance: Random) -> list[Past]:
        """Attempts at one bead until one passes, or there may be no more."""
        level = self.times.bead(chance)
        price = self.costs.bead(chance) if self.costs else 0.0
        drawn: list[Past] = []
        for attempt in range(begun + 1, most + 1):
            passed = chance.random() < (self.first if attempt == 1 else self.later)
            known = self.costs is not None and chance.random() < self.priced
            cost = self.costs.attempt(price, chance) if known and self.costs else None
            drawn.append(Past(self.times.attempt(level, chance), passed, cost))
            if passed:
                break
        return drawn


class AttemptPool:
    """The past attempts that a sprint's are like: first ones, and ones after feedback."""

    def __init__(
        self, first: Sequence[Past] = (), later: Sequence[Past] = (), likeness: Likeness | None = None
    ) -> None:
        both = (*first, *later)
        self.likeness = likeness
        """None where nothing is known, so that the stated defaults are drawn from."""
        self.attempts = len(both)
        if likeness is None:
            return
        costs = [past for past in both if past.cost is not None]
        self._times = AmountModel.of([(past.run, past.bead, past.seconds) for past in both])
        self._costs = (
            AmountModel.of([(past.run, past.bead, past.cost or 0.0) for past in costs]) if costs else None
        )
        self._priced = len(costs) / len(both)
        self._first = PassModel.of(_by_run(first), DEFAULT_PASS, FIRST_WEIGHT)
        self._later = PassModel.of(_by_run(later), LATER_PASS, LATER_WEIGHT)

    @property
    def middle_seconds(self) -> float:
        return DEFAULT_MEDIAN if self.likeness is None else self._times.median

    def draw(self, run: float, chance: Random) -> RunDraw:
        """One possible truth; `run` says how slow this run is, for all pools alike."""
        if self.likeness is None:
            times = Amounts(math.log(DEFAULT_MEDIAN), 0.0, DEFAULT_SIGMA)
            return RunDraw(times, None, 0.0, DEFAULT_PASS, DEFAULT_PASS)
        costs = self._costs.draw(run, chance) if self._costs else None
        rates = (self._first.draw(chance), self._later.draw(chance))
        return RunDraw(self._times.draw(run, chance), costs, self._priced, *rates)


def _by_run(rows: Sequence[Past]) -> list[tuple[int, int]]:
    runs: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for past in rows:
        runs[past.run][0] += past.passed
        runs[past.run][1] += 1
    return [(hits, of) for hits, of in runs.values()]


@dataclass
class History:
    """All attempts that were judged, by every likeness."""

    attempts: int = 0
    costs: int = 0
    _first: dict[Likeness, list[Past]] = field(default_factory=lambda: defaultdict(list))
    _later: dict[Likeness, list[Past]] = field(default_factory=lambda: defaultdict(list))
    _pools: dict[Likeness, AttemptPool] = field(default_factory=dict)

    @classmethod
    def of(cls, attempts: Iterable[Attempt]) -> History:
        history = cls()
        for attempt in attempts:
            history.add(attempt)
        return history

    def add(self, attempt: Attempt) -> None:
        """Skip what still runs or was ended by something other than its work."""
        if attempt.seconds is None or not is_judged(attempt):
            return
        usage, kind, run = (attempt.extra.get(key) for key in ("usage", "kind", "run_id"))
        cost = amount(usage.get("cost_usd")) if isinstance(usage, dict) else None
        past = Past(attempt.seconds, attempt.status == "done", cost, attempt.bead, str(run))
        likeness = Likeness(kind if isinstance(kind, str) else None, attempt.agent, attempt.model)
        self.put(past, likeness, first=attempt.attempt == 1)

    def put(self, past: Past, likeness: Likeness, *, first: bool) -> None:
        self.attempts += 1
        self.costs += past.cost is not None
        place = self._first if first else self._later
        for circle in dict.fromkeys(likeness.wider()):
            place[circle].append(past)

    def pool(self, likeness: Likeness) -> AttemptPool:
        """The most alike of which there are enough; nothing at all where there is too little."""
        for circle in likeness.wider():
            first, later = self._first.get(circle, ()), self._later.get(circle, ())
            if len(first) + len(later) >= ENOUGH:
                if circle not in self._pools:
                    self._pools[circle] = AttemptPool(first, later, circle)
                return self._pools[circle]
        return AttemptPool()

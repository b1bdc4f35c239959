"""Which model to begin with, by kind of bead: all beads that a model was the first to work on.

A bead counts for the model of its first attempt, with whatever it cost until it was closed or given up, also
where others made it good. So no model is credited with the easy beads that another left to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any, Final, Literal, NamedTuple

from beads_ralph.report.comparing import (
    LEVEL,
    Spent,
    correction,
    fisher,
    fisher_least,
    per_closed,
    permuted,
    permuted_least,
    runs_needed,
)
from beads_ralph.report.figures import FINISHED, Rate, shortened
from beads_ralph.report.tally import UNKNOWN, Tally

FEWEST: Final = 4
"""Fewer beads than this are no pattern."""
NO_NAMES: Final = frozenset({UNKNOWN, "none"})
WORTH_PASSING: Final = 0.05
"""A difference in first-pass rates that matters, and one in costs."""
WORTH_SAVING: Final = 0.1
WORTH_ASKING: Final = 0.1
SEED: Final = 20260207
MOST_ASKED: Final = 1000

Measure = Literal["first pass", "cost"]


@dataclass
class Begun:
    """The beads of one kind that one model was the first to work on."""

    names: list[str] = field(default_factory=list)
    passed: int = 0
    spent: list[Spent] = field(default_factory=list)

    @property
    def rate(self) -> Rate:
        return Rate(self.passed, len(self.names))

    @property
    def cost(self) -> float | None:
        return per_closed(self.spent)

    def to_json(self) -> dict[str, Any]:
        rate = self.rate
        return {
            "beads": rate.of,
            "first_passed": rate.hits,
            "first_pass_rate": rate.percent,
            "interval": rate.interval,
            "cost_per_closed_usd": shortened(self.cost, 6),
            "costs_known": len(self.spent),
        }


class Apart(NamedTuple):
    """One comparison of two models at a kind of bead."""

    kind: str
    measure: Measure
    better: str
    worse: str
    chance: float
    """How often equals would be as far apart."""
    least: float
    matters: bool


class Preference(NamedTuple):
    """The answer for one kind of bead."""

    kind: str
    models: Mapping[str, Begun]
    best: str | None
    """None where nothing can be said yet, or one is better and another one cheaper."""
    won: Sequence[Apart]
    """Those that show a difference."""
    chance: float
    """Corrected, that any of it is chance."""
    more_runs: int | None
    """With each model, until a difference such as there is now would show."""

    @property
    def beads(self) -> list[str]:
        return sorted(name for begun in self.models.values() for name in begun.names)


def preferences(tally: Tally) -> list[Preference]:
    """For every kind of bead that several models have begun."""
    kinds = {kind: models for kind, models in _begun(tally).items() if len(models) > 1}
    tests = [test for kind, models in kinds.items() for test in _tests(kind, models)]
    times = correction([test.least for test in tests])
    shown = [test for test in tests if test.chance * times <= LEVEL and test.matters]
    return [_preference(kind, models, shown, times) for kind, models in kinds.items()]


def _begun(tally: Tally) -> dict[str, dict[str, Begun]]:
    kinds: dict[str, dict[str, Begun]] = defaultdict(lambda: defaultdict(Begun))
    for name, whole in tally.beads.items():
        if whole.first is None or whole.first.model in NO_NAMES:
            continue
        begun = kinds[whole.first.kind][whole.first.model]
        begun.names.append(name)
        begun.passed += whole.first_passed
        if whole.outcome in FINISHED and not whole.unpriced:
            begun.spent.append((whole.cost, whole.outcome == "success"))
    return {
        kind: {name: models[name] for name in sorted(models) if len(models[name].names) >= FEWEST}
        for kind, models in sorted(kinds.items())
    }


def _tests(kind: str, models: Mapping[str, Begun]) -> Iterator[Apart]:
    for one, other in combinations(models, 2):
        yield _by_passes(kind, one, other, models)
        if min(len(models[name].spent) for name in (one, other)) >= FEWEST:
            yield _by_costs(kind, one, other, models)


def _by_passes(kind: str, one: str, other: str, models: Mapping[str, Begun]) -> Apart:
    a, b = models[one].rate, models[other].rate
    shares = {one: a.hits / a.of, other: b.hits / b.of}
    better, worse = sorted(shares, key=lambda name: -shares[name])
    least = fisher_least(a.of, b.of, a.hits + b.hits)
    matters = shares[better] - shares[worse] >= WORTH_PASSING
    return Apart(kind, "first pass", better, worse, fisher(a.hits, a.of, b.hits, b.of), least, matters)


def _by_costs(kind: str, one: str, other: str, models: Mapping[str, Begun]) -> Apart:
    a, b = models[one].spent, models[other].spent
    costs = {name: _or_endless(models[name].cost) for name in (one, other)}
    better, worse = sorted(costs, key=lambda name: costs[name])
    matters = costs[better] <= (1 - WORTH_SAVING) * costs[worse]
    chance = permuted(a, b, Random(SEED))  # noqa: S311 - dice, no secret
    return Apart(kind, "cost", better, worse, chance, permuted_least(len(a), len(b)), matters)


def _or_endless(cost: float | None) -> float:
    """Where nothing was closed, no money was enough."""
    return float("inf") if cost is None else cost


def _preference(kind: str, models: Mapping[str, Begun], shown: Sequence[Apart], times: int) -> Preference:
    won = [test for test in shown if test.kind == kind]
    beaten = {test.worse for test in won}
    best = [name for name in {test.better for test in won} if name not in beaten]
    best.sort(
        key=lambda name: (
            -sum(test.better == name for test in won),
            -(models[name].rate.percent or 0.0),
            name,
        )
    )
    chosen = best[0] if best else None
    used = [test for test in won if test.better == chosen] if chosen else won
    chance = min(1.0, times * max((test.chance for test in used), default=1.0))
    more = None if won else _more_runs(models, LEVEL / times)
    return Preference(kind, models, chosen, used, chance, more)


def _more_runs(models: Mapping[str, Begun], level: float) -> int | None:
    """None where they are so much alike that more runs would tell nothing worth knowing. Few runs say little
    of a rate, so it is drawn towards the middle."""
    shares = {name: (begun.passed + 1) / (len(begun.names) + 2) for name, begun in models.items()}
    if max(shares.values()) - min(shares.values()) < WORTH_ASKING:
        return None
    needed = runs_needed(max(shares.values()), min(shares.values()), level)
    more = needed - min(len(begun.names) for begun in models.values())
    return max(more, 1) if more < MOST_ASKED else None

"""What few attempts leave open: rates, times and costs with priors, and with differences between runs.

Each model is fitted once. For every rehearsal it is asked for one possible truth, and for how this run
differs from others; where little is known, the possible truths lie far apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from random import Random
from typing import Final, NamedTuple

from beads_ralph.report.figures import quantile

# --- times and costs --------------------------------------------------------------------------------

PRIOR_MIDDLE: Final = math.log(600.0)
PRIOR_WEIGHT: Final = 0.05
PRIOR_SHAPE: Final = 1.5
PRIOR_SPREAD: Final = 0.6
BETWEEN_RUNS: Final = {0.0: 0.45, 0.1: 0.2, 0.25: 0.2, 0.5: 0.1, 1.0: 0.05}
"""The variance between runs, in shares of that within them, and how probable each is before."""
SAME_BEAD: Final = 0.3
SAME_BEAD_WEIGHT: Final = 10.0
FAR_OUT: Final = 5.0
"""What is further from the middle, in spreads, is taken for a clock that was wrong."""
LEAST_SPREAD: Final = 0.2


class Amounts(NamedTuple):
    """One possible truth about one run: logarithms of amounts."""

    middle: float
    of_bead: float
    of_attempt: float

    def bead(self, chance: Random) -> float:
        """How far a bead lies off the middle, at each of its attempts."""
        return self.middle + self.of_bead * chance.gauss(0.0, 1.0)

    def attempt(self, bead: float, chance: Random) -> float:
        return math.exp(bead + self.of_attempt * chance.gauss(0.0, 1.0))


class _Fit(NamedTuple):
    """The posterior for one share of variance between runs."""

    between: float
    middle: float
    weight: float
    shape: float
    scale: float


@dataclass(frozen=True)
class AmountModel:
    """Lognormal amounts with a level of their own in every run, and beads that take longer than others."""

    fits: Sequence[_Fit]
    chances: Sequence[float]
    same_bead: float

    @classmethod
    def of(cls, rows: Sequence[tuple[str, str, float]]) -> AmountModel:
        """Of run, bead and amount; at least one."""
        logs = _without_outliers([math.log(max(amount, 1e-6)) for _, _, amount in rows])
        runs: dict[str, list[float]] = defaultdict(list)
        for (run, _, _), value in zip(rows, logs, strict=True):
            runs[run].append(value)
        found = [_fitted(list(runs.values()), between) for between in BETWEEN_RUNS]
        most = max(log for _, log in found)
        weights = [
            math.exp(log - most) * prior for (_, log), prior in zip(found, BETWEEN_RUNS.values(), strict=True)
        ]
        return cls([fit for fit, _ in found], list(accumulate(weights)), _alike(rows, logs, runs))

    def draw(self, run: float, chance: Random) -> Amounts:
        """One possible truth; `run` says how slow this run is, as a standard normal number for all models."""
        fit = self.fits[_chosen(self.chances, chance)]
        variance = fit.scale / chance.gammavariate(fit.shape, 1.0)
        middle = chance.gauss(fit.middle, math.sqrt(variance / fit.weight))
        middle += run * math.sqrt(fit.between * variance)
        return Amounts(
            middle, math.sqrt(variance * self.same_bead), math.sqrt(variance * (1 - self.same_bead))
        )

    @property
    def median(self) -> float:
        best = max(
            range(len(self.fits)), key=lambda at: self.chances[at] - (self.chances[at - 1] if at else 0.0)
        )
        return math.exp(self.fits[best].middle)


def _without_outliers(logs: list[float]) -> list[float]:
    ordered = sorted(logs)
    middle = quantile(ordered, 0.5)
    apart = quantile(sorted(abs(one - middle) for one in logs), 0.5)
    reach = FAR_OUT * max(1.4826 * apart, LEAST_SPREAD)
    return [min(max(one, middle - reach), middle + reach) for one in logs]


def _fitted(runs: Sequence[Sequence[float]], between: float) -> tuple[_Fit, float]:
    """The posterior, and the logarithm of how probable the data are with it."""
    means = [math.fsum(run) / len(run) for run in runs]
    weights = [1 / (1 / len(run) + between) for run in runs]
    weight = PRIOR_WEIGHT + math.fsum(weights)
    said = math.fsum(w * mean for w, mean in zip(weights, means, strict=True))
    middle = (PRIOR_WEIGHT * PRIOR_MIDDLE + said) / weight
    squares = math.fsum((one - mean) ** 2 for run, mean in zip(runs, means, strict=True) for one in run)
    squares += math.fsum(w * (mean - middle) ** 2 for w, mean in zip(weights, means, strict=True))
    squares += PRIOR_WEIGHT * (PRIOR_MIDDLE - middle) ** 2
    shape = PRIOR_SHAPE + sum(map(len, runs)) / 2
    scale = PRIOR_SHAPE * PRIOR_SPREAD**2 + squares / 2
    log = -0.5 * math.log(weight) - shape * math.log(scale)
    log += 0.5 * math.fsum(math.log(w / len(run)) for w, run in zip(weights, runs, strict=True))
    return _Fit(between, middle, weight, shape, scale), log


def _alike(
    rows: Sequence[tuple[str, str, float]], logs: Sequence[float], runs: dict[str, list[float]]
) -> float:
    """Of the variance within runs, the share that attempts at the same bead have in common."""
    means = {run: math.fsum(values) / len(values) for run, values in runs.items()}
    beads: dict[str, list[float]] = defaultdict(list)
    for (run, bead, _), value in zip(rows, logs, strict=True):
        beads[bead].append(value - means[run])
    variance = max(math.fsum(one * one for all_ in beads.values() for one in all_) / len(rows), 1e-3)
    pairs = [one * other for all_ in beads.values() for one, other in combinations(all_[:4], 2)]
    known = math.fsum(pairs) + SAME_BEAD * SAME_BEAD_WEIGHT * variance
    return min(max(known / ((len(pairs) + SAME_BEAD_WEIGHT) * variance), 0.0), 0.9)


# --- rates ------------------------------------------------------------------------------------------

STEPS: Final = 40
ALIKE_RUNS: Final = {1e6: 0.4, 40.0: 0.2, 15.0: 0.25, 6.0: 0.15}
"""How much alike runs are: as the weight of a Beta distribution, and how probable each is before."""


@dataclass(frozen=True)
class PassModel:
    """How often attempts pass: a rate of every run, around one for all."""

    rows: Sequence[tuple[float, float]]
    chances: Sequence[float]

    @classmethod
    def of(cls, runs: Iterable[tuple[int, int]], rate: float, weight: float) -> PassModel:
        """Of passed and judged attempts by run; before them a rate is expected with the weight of so many."""
        seen: dict[tuple[int, int], int] = defaultdict(int)
        for run in runs:
            seen[run] += 1
        rows, logs = [], []
        for step in range(STEPS):
            middle = (step + 0.5) / STEPS
            before = (rate * weight - 1) * math.log(middle) + ((1 - rate) * weight - 1) * math.log1p(-middle)
            for alike, prior in ALIKE_RUNS.items():
                said = sum(
                    times * _beta_binomial(hits, of, middle, alike) for (hits, of), times in seen.items()
                )
                rows.append((middle, alike))
                logs.append(before + math.log(prior) + said)
        most = max(logs)
        return cls(rows, list(accumulate(math.exp(log - most) for log in logs)))

    def draw(self, chance: Random) -> float:
        """The rate of one run."""
        middle, alike = self.rows[_chosen(self.chances, chance)]
        middle += (chance.random() - 0.5) / STEPS
        return chance.betavariate(max(middle * alike, 1e-3), max((1 - middle) * alike, 1e-3))


def _beta_binomial(hits: int, of: int, middle: float, alike: float) -> float:
    """The logarithm of how probable so many hits of so many are; without what is the same for all."""
    if alike > 1e5:  # noqa: PLR2004 - then runs do not differ
        return hits * math.log(middle) + (of - hits) * math.log1p(-middle)
    a, b = middle * alike, (1 - middle) * alike
    gain = math.lgamma(a + hits) - math.lgamma(a) + math.lgamma(b + of - hits) - math.lgamma(b)
    return gain + math.lgamma(alike) - math.lgamma(alike + of)


def _chosen(chances: Sequence[float], chance: Random) -> int:
    """A place, each as probable as its step in the running sum."""
    wanted = chance.random() * chances[-1]
    low, high = 0, len(chances) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if chances[middle] <= wanted else (low, middle)
    return low

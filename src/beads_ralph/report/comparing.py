"""Are two groups apart, or is it chance? Exact tests, corrected for how many of them were made.

`docs/reference/analysis.md` says how sure they are and how many runs they need; a simulation in the
tests holds it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import NormalDist
from typing import Final

LEVEL: Final = 0.05
"""At most so often is anything at all called better in an analysis of equals."""
POWER: Final = 0.8
SLACK: Final = 1e-7
"""Sums of logarithms differ by less where they should be the same."""
MOST_DRAWS: Final = 5000
ENOUGH_BEYOND: Final = 20
"""After so many draws that are as far apart, the chance of it is known well enough."""
MANY: Final = 400
"""From so many values on, sums of them are normal."""
MANY_TRIALS: Final = 1000
CLEARLY_CHANCE: Final = 0.2
"""Above this the exact figure would change nothing."""


# --- rates ------------------------------------------------------------------------------------------


def fisher(hits: int, of: int, other_hits: int, other_of: int) -> float:
    """Fisher's exact test, two-sided: how often equal rates are at least as far apart as these."""
    chances = _shares(of, other_of, hits + other_hits)
    seen = chances[hits - max(hits + other_hits - other_of, 0)]
    return min(1.0, math.fsum(one for one in chances if one <= seen * (1 + SLACK)))


def fisher_least(of: int, other_of: int, hits: int) -> float:
    """The least that the test could say with so many hits in both together."""
    chances = _shares(of, other_of, hits)
    least = min(chances[0], chances[-1])
    return min(1.0, math.fsum(one for one in chances if one <= least * (1 + SLACK)))


def _shares(of: int, other_of: int, hits: int) -> list[float]:
    """The chance of each number of hits in the first group, from the least on that there can be."""
    low, high = max(hits - other_of, 0), min(hits, of)
    whole = _log_choose(of + other_of, hits)
    return [
        math.exp(_log_choose(of, at) + _log_choose(other_of, hits - at) - whole)
        for at in range(low, high + 1)
    ]


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def chance_below(hits: int, of: int, share: float) -> float:
    """How probable it is that a rate of so many of so many is truly below `share`, all rates being as
    probable before."""
    n, least = of + 1, hits + 1
    if n > MANY_TRIALS:
        middle, width = n * share, math.sqrt(n * share * (1 - share))
        return 1 - NormalDist().cdf((least - 0.5 - middle) / width)
    logs = (math.log(share), math.log1p(-share))
    rows = (_log_choose(n, at) + at * logs[0] + (n - at) * logs[1] for at in range(least, n + 1))
    return min(1.0, math.fsum(map(math.exp, rows)))


def runs_needed(rate: float, other: float, level: float) -> int:
    """How many runs of each show this difference in eight of ten cases, at that level."""
    normal, middle, apart = NormalDist(), (rate + other) / 2, abs(rate - other)
    sure = normal.inv_cdf(1 - level / 2) * math.sqrt(2 * middle * (1 - middle))
    seen = normal.inv_cdf(POWER) * math.sqrt(rate * (1 - rate) + other * (1 - other))
    rough = ((sure + seen) / apart) ** 2
    return math.ceil(rough / 4 * (1 + math.sqrt(1 + 4 / (rough * apart))) ** 2)


# --- amounts ----------------------------------------------------------------------------------------

Spent = tuple[float, bool]
"""What a bead cost in all, and whether it was closed."""


def per_closed(rows: Sequence[Spent]) -> float | None:
    """The cost for each closed bead; that of the others is part of it."""
    closed = sum(done for _, done in rows)
    return math.fsum(cost for cost, _ in rows) / closed if closed else None


def permuted(rows: Sequence[Spent], others: Sequence[Spent], chance: Random) -> float:
    """How often beads dealt out anew at random are as far apart in their cost for each closed one."""
    price = per_closed([*rows, *others])
    if price is None:
        return 1.0
    surplus = [cost - price * done for cost, done in (*rows, *others)]
    seen = abs(math.fsum(surplus[: len(rows)]))
    rough = _normal(surplus, len(rows), seen)
    if len(surplus) >= MANY or rough > CLEARLY_CHANCE:
        return rough
    few = min(len(rows), len(others))
    edge = seen * (1 - SLACK)
    beyond = 0
    for draw in range(1, MOST_DRAWS + 1):
        beyond += abs(sum(chance.sample(surplus, few))) >= edge
        if beyond == ENOUGH_BEYOND:
            return beyond / draw
    return (beyond + 1) / (MOST_DRAWS + 1)


def _normal(surplus: Sequence[float], count: int, seen: float) -> float:
    n = len(surplus)
    spread = math.sqrt(math.fsum(one * one for one in surplus) * count * (n - count) / (n * (n - 1)))
    return 2 * (1 - NormalDist().cdf(seen / spread)) if spread else 1.0


def permuted_least(count: int, other: int) -> float:
    return max(2 * math.exp(-_log_choose(count + other, count)), 1 / (MOST_DRAWS + 1))


# --- several of them --------------------------------------------------------------------------------


def correction(least: Sequence[float]) -> int:
    """Tarone's number: by so much is each of these tests to be stricter, so that all of them together are
    wrong at most at `LEVEL`. A test that could not have said anything even then is not counted."""
    return next(
        (k for k in range(1, len(least) + 1) if sum(one <= LEVEL / k for one in least) <= k),
        max(len(least), 1),
    )

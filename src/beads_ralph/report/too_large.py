"""Beads that stand out: more failures, more limits or more time than chance gives any of so many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import Final, NamedTuple

from beads_ralph.report.comparing import LEVEL
from beads_ralph.report.figures import FINISHED, quantile, time_text
from beads_ralph.report.tally import Whole

FEWEST: Final = 4
MUCH_LONGER: Final = 3.0
LEAST_SPREAD: Final = 0.2
"""Of logarithms of times: work that always takes exactly as long is not to be had."""
NORMAL_MAD: Final = 1.4826


class TooLarge(NamedTuple):
    """A bead that stands out, why, and how often that would be chance among so many."""

    bead: str
    why: str
    attempts: int
    chance: float


def found(beads: Mapping[str, Whole]) -> list[TooLarge]:
    """The most certain first."""
    over = {name: whole for name, whole in beads.items() if whole.outcome in FINISHED and whole.ended}
    if len(over) < FEWEST:
        return []
    failures, limits = (
        sum(getattr(whole, name) for whole in over.values()) for name in ("failures", "too_large")
    )
    ended = sum(whole.ended for whole in over.values())
    times = _Times(over)
    rows = []
    for name, whole in over.items():
        others = ended - whole.ended
        limited = _by_chance(whole.too_large, limits - whole.too_large, others)
        failed = _by_chance(whole.failures, failures - whole.failures, others)
        chance, why = min((limited, 0), (failed, 1), (times.chance(whole), 2))
        chance = min(1.0, 3 * len(over) * chance)
        if chance <= LEVEL:
            rows.append(TooLarge(name, _said(whole)[why], whole.attempts, chance))
    return sorted(rows, key=lambda row: (row.chance, row.bead))


def _said(whole: Whole) -> tuple[str, str, str]:
    return (
        f"ended {whole.too_large} times by a limit, after {time_text(whole.seconds)}",
        f"{whole.failures} attempts failed",
        f"{time_text(whole.seconds / whole.ended)} an attempt",
    )


def _by_chance(times: int, others: int, of: int) -> float:
    """How probable so many in a row are, at the rate of all other beads."""
    return ((others + 0.5) / (of + 1)) ** times if times else 1.0


class _Times:
    """How long an attempt takes, as logarithms: middle and spread that no outlier moves."""

    def __init__(self, beads: Mapping[str, Whole]) -> None:
        logs = sorted(math.log(each) for whole in beads.values() if (each := whole.seconds / whole.ended) > 0)
        self.middle = quantile(logs, 0.5) if logs else 0.0
        apart = sorted(abs(one - self.middle) for one in logs)
        wide = NORMAL_MAD * quantile(apart, 0.5) * (1 + 2 / math.sqrt(len(logs))) if logs else 0.0
        self.spread = max(wide, LEAST_SPREAD)  # a spread of few is not known well, so it is taken wider

    def chance(self, whole: Whole) -> float:
        each = whole.seconds / whole.ended
        above = math.log(each) - self.middle if each > 0 else 0.0
        return 1.0 if above < math.log(MUCH_LONGER) else 1 - NormalDist().cdf(above / self.spread)

"""Is the advice right? Histories made by dice, with models that are known to be the same or not."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from beads_ralph.report.better_model import preferences
from bench import simulated
from bench.places import Scratch
from bench.report import Judge, Row

TRIALS = 1500
QUICK_TRIALS = 20
BEADS = (10, 20, 40, 45)
POWER_TRIALS = 200


def advice(judge: Judge, _scratch: Scratch) -> Iterator[Row]:
    """How often equals are called better, and how often the better one of two is seen."""
    chance, trials = Random(1), QUICK_TRIALS if judge.quick else TRIALS
    wrong = sum(any(found.won for found in preferences(simulated.equals(chance))) for _ in range(trials))
    share = 100 * wrong / trials
    yield judge.share("advice, analyses of equal models with a false use X", share, 0, 5)
    for beads in BEADS:
        chance, trials = Random(2), QUICK_TRIALS if judge.quick else POWER_TRIALS
        seen = [preferences(simulated.two(0.9, 0.6, beads, chance))[0].best for _ in range(trials)]
        yield Row(
            f"advice, 90 % told from 60 %, {beads} beads each", f"{100 * seen.count('good') / trials:.0f} %"
        )

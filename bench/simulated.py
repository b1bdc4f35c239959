"""Histories made by dice: models that do their work with given rates and costs, bead by bead."""

from __future__ import annotations

import math
from random import Random

from beads_ralph.report.tally import Cell, Tally, Whole

MOST_ATTEMPTS = 3


def begun(tally: Tally, kind: str, model: str, beads: int, rate: float, price: float, chance: Random) -> None:
    """Beads that this model was the first to work on; it tries again up to three times."""
    cell = Cell("claude", model, "custom", kind, "other", None, "dev")
    for number in range(beads):
        costs: list[float] = []
        passed = False
        while len(costs) < MOST_ATTEMPTS and not passed:
            costs.append(price * math.exp(chance.gauss(0.0, 0.8)))
            passed = chance.random() < rate
        tally.beads[f"{kind}-{model}-{number}"] = Whole(
            attempts=len(costs),
            outcome="success" if passed else "failed",
            cost=sum(costs),
            first=cell,
            first_passed=passed and len(costs) == 1,
        )


def equals(chance: Random) -> Tally:
    """One to four kinds of beads, each with two to five models that are all the same."""
    tally = Tally()
    for kind in range(chance.randint(1, 4)):
        rate, price = chance.uniform(0.2, 0.98), chance.uniform(0.1, 2.0)
        for model in range(chance.randint(2, 5)):
            begun(tally, f"kind{kind}", f"model{model}", chance.randint(4, 50), rate, price, chance)
    return tally


def two(good: float, bad: float, beads: int, chance: Random) -> Tally:
    """One kind of bead, a better and a worse model."""
    tally = Tally()
    begun(tally, "work", "good", beads, good, 1.0, chance)
    begun(tally, "work", "bad", beads, bad, 1.0, chance)
    return tally

"""Do forecasts hold what they say? Plans whose truth is known, each forecast from what was seen before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from beads_ralph.report.forecast import ForecastSprint, forecast
from beads_ralph.report.past import History, Likeness, Past
from bench.places import Scratch
from bench.report import Judge, Row

SIZES = (5, 8, 15, 30, 100, 400)
TRIALS = 150
QUICK_TRIALS = 5
REHEARSALS = 250
LIKE = Likeness("work", "claude", "sonnet")
MOST = 3
EDGES: dict[str, Sequence[str]] = {
    "1": [], "2": ["1"], "3": ["1"], "4": ["2"], "5": ["3"], "6": ["4", "5"], "7": [], "8": ["7"],
}  # fmt: skip
A_RUN = 4
"""Beads of a run."""


class Truth(NamedTuple):
    """How work really goes, with what differs from run to run and from bead to bead."""

    median: float
    spread: float
    of_bead: float
    rate: float
    between: float
    """Of runs, in the logarithm of times and in that of the odds to pass."""

    @classmethod
    def made(cls, chance: Random, *, differs: bool) -> Truth:
        median, spread = 60 * math.exp(chance.gauss(2.0, 0.8)), chance.uniform(0.35, 0.8)
        return cls(median, spread, 0.5 * spread, chance.uniform(0.5, 0.92), 0.25 if differs else 0.0)


class Night(NamedTuple):
    """One run of it."""

    slow: float
    odds: float

    @classmethod
    def made(cls, truth: Truth, chance: Random) -> Night:
        odds = math.log(truth.rate / (1 - truth.rate)) + truth.between * chance.gauss(0, 1)
        return cls(truth.between * chance.gauss(0, 1), odds)


def worked(truth: Truth, night: Night, chance: Random) -> list[Past]:
    """The attempts at one bead."""
    bead = truth.of_bead * chance.gauss(0, 1)
    rest = math.sqrt(truth.spread**2 - truth.of_bead**2)
    rows: list[Past] = []
    while len(rows) < MOST and not (rows and rows[-1].passed):
        seconds = truth.median * math.exp(night.slow + bead + rest * chance.gauss(0, 1))
        rows.append(Past(seconds, chance.random() < 1 / (1 + math.exp(-night.odds)), 0.001 * seconds))
    return rows


def history(truth: Truth, attempts: int, chance: Random) -> History:
    found = History()
    beads = 0
    night = Night.made(truth, chance)
    while found.attempts < attempts:
        if beads % A_RUN == 0:
            night = Night.made(truth, chance)
        rows = worked(truth, night, chance)[: attempts - found.attempts]
        for number, row in enumerate(rows):
            past = row._replace(bead=f"bd-{beads}", run=f"run-{beads // A_RUN}")
            found.put(past, LIKE, first=number == 0)
        beads += 1
    return found


def took(truth: Truth, chance: Random) -> float:
    """How long the plan really takes, with hands enough."""
    night = Night.made(truth, chance)
    ends: dict[str, float] = {}
    for name, before in EDGES.items():
        seconds = sum(row.seconds for row in worked(truth, night, chance))
        ends[name] = seconds + max((ends[other] for other in before), default=0.0)
    return max(ends.values())


def coverage(attempts: int, trials: int, chance: Random, *, differs: bool) -> float:
    """The share of plans that end within their "8 of 10 times"."""
    sprints = [ForecastSprint(name, name, LIKE, MOST) for name in EDGES]
    inside = 0
    for _ in range(trials):
        truth = Truth.made(chance, differs=differs)
        expected = forecast(sprints, EDGES, history(truth, attempts, chance), len(EDGES), REHEARSALS).seconds
        inside += expected.p10 <= took(truth, chance) <= expected.p90
    return 100 * inside / trials


def forecasts(judge: Judge, _scratch: Scratch) -> Iterator[Row]:
    """For few attempts and for many, with runs that are alike and with runs that are not."""
    trials = QUICK_TRIALS if judge.quick else TRIALS
    for differs, said in ((False, "runs alike"), (True, "runs differ")):
        for size in SIZES:
            share = coverage(size, trials, Random(size + 7), differs=differs)
            yield judge.share(f"forecast, 8 of 10 hold, {size} attempts, {said}", share, 75, 88)

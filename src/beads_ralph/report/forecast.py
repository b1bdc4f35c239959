"""Forecast a plan's time and cost, with a range: rehearse the loop with what the past leaves possible."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from beads_ralph.bead import graph
from beads_ralph.report.figures import quantile, shortened
from beads_ralph.report.past import (
    DEFAULT_MEDIAN,
    DEFAULT_PASS,
    DEFAULT_SIGMA,
    ENOUGH,
    AttemptPool,
    History,
    Likeness,
    Past,
    RunDraw,
)

# --- the forecast -----------------------------------------------------------------------------------


SEED: Final = 20260207
"""Always the same, so that the same plan and history give the same answer."""
MOST_REHEARSALS: Final = 2000
FEWEST_REHEARSALS: Final = 200
SPRINTS_IN_ALL: Final = 200_000
REDRAWS: Final = 10


class ForecastSprint(NamedTuple):
    """A sprint as the forecast sees it."""

    name: str
    branch: str
    likeness: Likeness
    max_attempts: int
    priority: int = 1
    begun: int = 0
    """Attempts that are over, of the most that there may be."""
    team: str = ""
    elapsed: float = 0.0
    """Seconds that the present attempt has been at work already."""

    @property
    def lanes(self) -> frozenset[tuple[str, str]]:
        """Where beads follow one another: on one branch, and in one team."""
        return frozenset({("branch", self.branch), ("team", self.team or self.name)})


class Range(NamedTuple):
    """Eight of ten rehearsals end between p10 and p90."""

    p10: float
    p50: float
    p90: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        ordered = sorted(values)
        return cls(*(quantile(ordered, share) for share in (0.1, 0.5, 0.9)))

    def to_json(self, digits: int) -> dict[str, float | None]:
        return {name: shortened(value, digits) for name, value in self._asdict().items()}


class Rehearsal(NamedTuple):
    """One rehearsal, of the plan or of a sprint."""

    seconds: float
    cost: float
    priced: int
    attempts: int
    gave_up: int
    worked: float = 0.0
    """Seconds of all attempts together; with `seconds`, how many were at work at once."""


@dataclass(frozen=True)
class Forecast:
    """The expected time and cost, and what they rest on."""

    sprints: Sequence[ForecastSprint]
    max_parallel: int
    history: History
    pools: Mapping[str, AttemptPool]
    path: Sequence[str]
    path_seconds: float
    ends: Sequence[Rehearsal]
    closed: int = 0
    """Sprints of the plan that are done already; everything else here is about those that are left."""

    @property
    def seconds(self) -> Range:
        return Range.of([end.seconds for end in self.ends])

    @property
    def attempts(self) -> Range:
        return Range.of([float(end.attempts) for end in self.ends])

    @property
    def priced_share(self) -> float:
        """Of the attempts drawn, those whose cost is known."""
        return sum(end.priced for end in self.ends) / max(sum(end.attempts for end in self.ends), 1)

    @property
    def cost(self) -> Range | None:
        known = self.priced_share or not self.sprints
        return Range.of([end.cost for end in self.ends]) if known else None

    @property
    def parallelism(self) -> float:
        """How many beads are at work at once, on average: what the plan allows, of what was asked for."""
        return sum(end.worked for end in self.ends) / max(sum(end.seconds for end in self.ends), 1e-9)

    @property
    def all_closed_percent(self) -> float:
        return round(100 * sum(end.gave_up == 0 for end in self.ends) / len(self.ends), 1)

    @property
    def unknown(self) -> list[str]:
        """The sprints for which nothing is known."""
        return [name for name, pool in self.pools.items() if pool.likeness is None]

    def to_json(self) -> dict[str, Any]:
        cost = self.cost
        return {
            "sprints": len(self.sprints) + self.closed,
            "closed": self.closed,
            "max_parallel": self.max_parallel,
            "seconds": self.seconds.to_json(1),
            "cost_usd": cost.to_json(4) if cost else None,
            "cost_known_percent": round(100 * self.priced_share, 1),
            "attempts": self.attempts.to_json(1),
            "parallelism": round(self.parallelism, 2),
            "all_closed_percent": self.all_closed_percent,
            "critical_path": list(self.path),
            "critical_path_seconds": shortened(self.path_seconds, 1),
            "history": {"attempts": self.history.attempts, "costs_known": self.history.costs},
            "defaults_used": self.unknown,
            "defaults": DEFAULTS,
            "basis": {
                name: {"from": str(pool.likeness or "defaults"), "attempts": pool.attempts}
                for name, pool in self.pools.items()
            },
            "rehearsals": len(self.ends),
        }


DEFAULTS: Final = {
    "attempt_seconds_median": DEFAULT_MEDIAN,
    "attempt_seconds_sigma": DEFAULT_SIGMA,
    "attempt_passes_percent": 100 * DEFAULT_PASS,
    "history_needs_attempts": ENOUGH,
}


def forecast(
    sprints: Sequence[ForecastSprint],
    edges: Mapping[str, Sequence[str]],
    history: History,
    max_parallel: int,
    rehearsals: int | None = None,
    closed: int = 0,
) -> Forecast:
    """`edges` says what each sprint waits for; what is not among the sprints counts as done, and `closed`
    is how many of the plan that are."""
    pools = {sprint.name: history.pool(sprint.likeness) for sprint in sprints}
    known = {sprint.name: [other for other in edges[sprint.name] if other in pools] for sprint in sprints}
    path, seconds = _longest(known, {name: pool.middle_seconds for name, pool in pools.items()})
    stage = _Stage(sprints, known, pools, max_parallel)
    count = min(max(SPRINTS_IN_ALL // max(len(sprints), 1), FEWEST_REHEARSALS), MOST_REHEARSALS)
    chance = Random(SEED)  # noqa: S311 - dice, no secret
    ends = [stage.rehearse(chance) for _ in range(rehearsals or count)]
    return Forecast(sprints, max_parallel, history, pools, path, seconds, ends, closed)


def _longest(edges: Mapping[str, Sequence[str]], seconds: Mapping[str, float]) -> tuple[list[str], float]:
    """The chain that takes longest if each of its sprints needs one attempt of the median length."""
    end: dict[str, float] = {}
    before: dict[str, str | None] = {}
    for node in (node for wave in graph.waves(edges) for node in wave):
        before[node] = last = max(edges[node], key=end.__getitem__, default=None)
        end[node] = seconds[node] + (end[last] if last is not None else 0.0)
    at = max(end, key=end.__getitem__, default=None)
    length = end[at] if at is not None else 0.0
    path: list[str] = []
    while at is not None:
        path.append(at)
        at = before[at]
    return path[::-1], length


class _Stage:
    """Start all that may start, let the first one end, repeat: the loop's rules and nothing else."""

    def __init__(
        self,
        sprints: Sequence[ForecastSprint],
        edges: Mapping[str, Sequence[str]],
        pools: Mapping[str, AttemptPool],
        max_parallel: int,
    ) -> None:
        self.sprints = {sprint.name: sprint for sprint in sprints}
        self.pools = pools
        self.distinct = list({id(pool): pool for pool in pools.values()}.values())
        self.max_parallel = max_parallel
        self.waiting = {name: len(others) for name, others in edges.items()}
        self.dependents: dict[str, list[str]] = {name: [] for name in edges}
        for name, others in edges.items():
            for other in others:
                self.dependents[other].append(name)
        depth = graph.remaining_depth(edges)
        ordered = sorted(
            enumerate(sprints),
            key=lambda row: (not row[1].elapsed, row[1].priority, -depth.get(row[1].name, 0), row[0]),
        )
        self.rank = {sprint.name: place for place, (_, sprint) in enumerate(ordered)}
        roots = (name for name, count in self.waiting.items() if count == 0)
        self.roots = sorted((self.rank[name], name) for name in roots)

    def rehearse(self, chance: Random) -> Rehearsal:
        """A sprint that uses up its attempts holds nobody up: time and cost are those of the whole plan."""
        run = chance.gauss(0.0, 1.0)
        draws = {id(pool): pool.draw(run, chance) for pool in self.distinct}
        waiting = dict(self.waiting)
        ready = list(self.roots)
        working: list[tuple[float, str]] = []
        taken: set[tuple[str, str]] = set()
        now = cost = worked = 0.0
        priced = attempts = gave_up = 0
        while ready or working:
            held: list[tuple[int, str]] = []
            while ready and len(working) < self.max_parallel:
                place, name = heapq.heappop(ready)
                lanes = self.sprints[name].lanes
                if lanes & taken:
                    held.append((place, name))
                    continue
                taken |= lanes
                work = self._work(name, draws[id(self.pools[name])], chance)
                worked += work.seconds
                cost, priced = cost + work.cost, priced + work.priced
                attempts, gave_up = attempts + work.attempts, gave_up + work.gave_up
                heapq.heappush(working, (now + work.seconds, name))
            for row in held:
                heapq.heappush(ready, row)
            now, done = heapq.heappop(working)
            taken -= self.sprints[done].lanes
            for other in self.dependents[done]:
                waiting[other] -= 1
                if waiting[other] == 0:
                    heapq.heappush(ready, (self.rank[other], other))
        return Rehearsal(now, cost, priced, attempts, gave_up, worked)

    def _work(self, name: str, truth: RunDraw, chance: Random) -> Rehearsal:
        """Attempts at one sprint until one passes."""
        sprint = self.sprints[name]
        drawn = truth.work(sprint.begun, sprint.max_attempts, chance)
        if sprint.elapsed:
            drawn = _under_way(drawn, sprint, truth, chance)
        costs = [past.cost for past in drawn if past.cost is not None]
        gave_up = not any(past.passed for past in drawn)
        return Rehearsal(sum(past.seconds for past in drawn), sum(costs), len(costs), len(drawn), gave_up)


def _under_way(drawn: list[Past], sprint: ForecastSprint, truth: RunDraw, chance: Random) -> list[Past]:
    """The same with what is left of the first attempt: that it lasts rules short ones out. One that outlasts
    all that could be drawn may end any moment."""
    tries = 0
    while drawn and drawn[0].seconds <= sprint.elapsed and tries < REDRAWS:
        drawn = truth.work(sprint.begun, sprint.max_attempts, chance)
        tries += 1
    first = drawn[:1]
    return [one._replace(seconds=max(one.seconds - sprint.elapsed, 0.0)) for one in first] + drawn[1:]

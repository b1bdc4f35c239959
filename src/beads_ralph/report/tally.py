"""Attempts into figures, in one pass; nothing here reads a file or a clock."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple

from beads_ralph.journal.records import Attempt
from beads_ralph.report.figures import (
    FINISHED,
    AttemptCosts,
    Outcome,
    Rate,
    RunGroup,
    Spread,
    is_judged,
    outcome_of,
    shortened,
)
from beads_ralph.report.verifiers import Verifiers

TASK_WORDS: Final = frozenset({"build", "fix", "update", "review", "design", "implement"})
OTHER: Final = "other"
UNKNOWN: Final = "unknown"
CUSTOM: Final = "custom"
MOST_DAYS: Final = 31
"""A trend over more of them is told in weeks."""
AT_ONCE: Final = 2000
LONGEST_DAYS: Final = 2 * 366
NAMED: Final = ("agent", "model", "template", "kind", "role")
TOO_LARGE: Final = frozenset({"agent-timeout", "budget-used-up", "deadline-passed", "agent-output-limit"})


class Stretch(NamedTuple):
    """When somebody worked on a bead."""

    start: datetime
    end: datetime | None
    bead: str
    attempt: int
    outcome: Outcome
    run_id: str | None

    def lasts_until(self, now: datetime) -> datetime:
        """Its end; what still runs lasts until now."""
        return max(self.end or (now if self.outcome == "running" else self.start), self.start)


class Cell(NamedTuple):
    """The traits that runs are grouped by: counted once here, put together by each trait later."""

    agent: str
    model: str
    template: str
    kind: str
    task_type: str
    parallel: int | None
    role: str


@dataclass(slots=True)
class Whole:
    """A bead with all of its attempts."""

    attempts: int = 0
    seconds: float = 0.0
    outcome: Outcome = "running"
    reason: str | None = None
    ended: int = 0
    failures: int = 0
    """Attempts that were judged and did not pass."""
    too_large: int = 0
    """Those of them that ran into a limit of time, money or output."""
    cost: float = 0.0
    unpriced: int = 0
    cells: tuple[Cell, ...] = ()
    first: Cell | None = None
    """Who made its first attempt that was judged, and whether that passed."""
    first_passed: bool = False


@dataclass
class Tally:
    """Everything that is counted."""

    attempts: int = 0
    cells: dict[Cell, RunGroup] = field(default_factory=lambda: defaultdict(RunGroup))
    failures: Counter[str] = field(default_factory=Counter)
    """Why runs failed in the end."""
    setbacks: Counter[str] = field(default_factory=Counter)
    """Why attempts failed, also those that a later one made good."""
    days: dict[date, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    numbers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """By the number of an attempt: how many passed, and how many were judged."""
    money: dict[date, float] = field(default_factory=lambda: defaultdict(float))
    """What was spent on each day, as far as attempts tell it and their time."""
    passed_seconds: list[float] = field(default_factory=list)
    undated: int = 0
    """Finished runs that no day can be given."""
    bad_timestamps: int = 0
    left_out: int = 0
    verifiers: Verifiers = field(default_factory=Verifiers)
    beads: dict[str, Whole] = field(default_factory=lambda: defaultdict(Whole))
    failed: list[tuple[str, str, int, str]] = field(default_factory=list)
    """Beads that failed in the end, with reason, attempts and the file of the record; as `stretches`."""
    stretches: list[Stretch] | None = None
    """When everybody worked; None where nobody asks."""
    _by: dict[tuple[str, ...], dict[Any, RunGroup]] = field(default_factory=dict)

    # --- counting -----------------------------------------------------------------------------------

    def add(self, attempt: Attempt) -> None:
        outcome = outcome_of(attempt)
        self.attempts += 1
        if attempt.started_at is None or (attempt.finished_at is None and attempt.status != "running"):
            self.bad_timestamps += 1
        extra = attempt.extra
        self.verifiers.add(attempt.bead, extra.get("checks"), in_place=extra.get("source") == "exec")
        reason = None
        if attempt.status in ("failed", "timeout"):
            reason = attempt.failure_reason or attempt.reason or UNKNOWN
            self.setbacks[reason] += 1
        cell = cell_of(attempt)
        group = self.cells[cell]
        cost = group.charge(attempt)
        moment = attempt.finished_at or attempt.started_at
        if cost is not None and moment is not None:
            self.money[day_of(moment)] += cost
        self._add_whole(attempt, outcome, reason, cell, cost)
        if attempt.latest:
            group.add(outcome, attempt.attempt, attempt.seconds)
            self._add_run(attempt, outcome, reason)

    def _add_whole(
        self, attempt: Attempt, outcome: Outcome, reason: str | None, cell: Cell, cost: float | None
    ) -> None:
        whole = self.beads[attempt.bead]
        whole.attempts = max(whole.attempts, attempt.attempt)
        if cell not in whole.cells:
            whole.cells += (cell,)
        if cost is None:
            whole.unpriced += 1
        else:
            whole.cost += cost
        if outcome != "running":
            whole.ended += 1
            whole.seconds += attempt.seconds or 0.0
        if is_judged(attempt):
            passed = attempt.status == "done"
            whole.failures += not passed
            number = self.numbers[attempt.attempt]
            number[0] += passed
            number[1] += 1
            if passed and attempt.seconds is not None:
                self.passed_seconds.append(attempt.seconds)
            whole.too_large += attempt.status == "timeout" or reason in TOO_LARGE
            if attempt.attempt == 1:
                whole.first, whole.first_passed = cell, passed
        if attempt.latest:
            whole.outcome, whole.reason = outcome, reason
            if self.stretches is not None and outcome in ("failed", "timeout"):
                self.failed.append((attempt.bead, reason or UNKNOWN, attempt.attempt, attempt.file))
        if self.stretches is not None and attempt.started_at is not None:
            run_id = attempt.extra.get("run_id")
            known = run_id if isinstance(run_id, str) else None
            row = (attempt.started_at, attempt.finished_at, attempt.bead, attempt.attempt, outcome, known)
            self.stretches.append(Stretch(*row))

    def _add_run(self, attempt: Attempt, outcome: Outcome, reason: str | None) -> None:
        if outcome in ("failed", "timeout"):
            self.failures[reason or UNKNOWN] += 1
        if outcome in FINISHED:
            moment = attempt.finished_at or attempt.started_at
            if moment is None:
                self.undated += 1
            else:
                self.days[day_of(moment)][outcome] += 1

    # --- telling: only when all is counted, since what is put together once is kept -----------------

    @cached_property
    def runs(self) -> RunGroup:
        return self.by().get((), RunGroup())

    @property
    def by_number(self) -> dict[int, Rate]:
        return {number: Rate(hits, of) for number, (hits, of) in self.numbers.items()}

    @property
    def spending(self) -> AttemptCosts:
        return self.runs.spent

    @cached_property
    def shared(self) -> Counter[tuple[Cell, ...]]:
        """How many beads have attempts of these cells, and of no others."""
        return Counter(whole.cells for whole in self.beads.values())

    def by(self, *traits: str) -> dict[Any, RunGroup]:
        """The runs put together by traits of their cells; those that lack one are left out."""
        if traits not in self._by:
            found: dict[Any, RunGroup] = defaultdict(RunGroup)
            for cell, group in self.cells.items():
                said = _said(cell, traits)
                if said is not None:
                    found[said].take(group)
            for cells, count in self.shared.items():
                for name in {_said(cell, traits) for cell in cells}:
                    if name in found:
                        found[name].beads += count
            self._by[traits] = dict(sorted(found.items()))
        return self._by[traits]

    def to_json(self) -> dict[str, Any]:
        runs = self.runs
        times = Spread.of(runs.seconds)
        return {
            "total_runs": runs.count,
            **runs.counts(),
            "retry_interval": runs.retry_rate.interval,
            "avg_duration_seconds": shortened(times.mean),
            "durations": times.to_json(),
            "attempts": {"total": self.attempts, "durations": Spread.of(runs.attempt_seconds).to_json()},
            "account": runs.account(),
            **{f"by_{trait}": self._listed(trait) for trait in NAMED},
            "by_parallel": [
                {"parallel": level, **group.to_json(), "beads_per_hour": shortened(per_hour(level, group))}
                for level, group in self.by("parallel").items()
            ],
            "failure_reasons": ranked(self.failures),
            "attempt_failure_reasons": ranked(self.setbacks),
            "task_types": self._listed("task_type"),
            "template_scores": {name: group.score() for name, group in self.by("template").items()},
            "verifiers": [seen.to_json() for _, seen in sorted(self.verifiers.seen.items())],
            "trend": self.trend(),
            **self.spending.to_json(),
            "bad_timestamps": self.bad_timestamps,
            "left_out": self.left_out,
        }

    def _listed(self, trait: str) -> list[dict[str, Any]]:
        return [{trait: name, **group.to_json()} for name, group in self.by(trait).items()]

    def trend(self) -> dict[str, Any]:
        """Finished runs and money per day, or per week where there are many days; days without any are told,
        too."""
        days = span({**self.days, **self.money})
        by = "week" if days and (days[-1] - days[0]).days >= MOST_DAYS else "day"
        counts: dict[date, Counter[str]] = defaultdict(Counter)
        spent: dict[date, list[float]] = defaultdict(list)
        for day in days:
            start = day - timedelta(days=day.weekday()) if by == "week" else day
            counts[start].update(self.days.get(day, {}))
            spent[start] += [self.money[day]] if day in self.money else []
        rows = [_bucket(start, found, spent[start]) for start, found in counts.items()]
        return {"by": by, "rows": rows, "undated": self.undated}


def tallied(
    attempts: Iterable[Attempt],
    since: datetime | None = None,
    also: Callable[[Attempt], None] | None = None,
    *,
    stretches: bool = False,
) -> Tally:
    """Every attempt that started or finished at `since` or later; `also` is told of each of them."""
    tally = Tally(stretches=[] if stretches else None)
    for attempt in _by_many(attempts):
        moments = (attempt.started_at, attempt.finished_at)
        if since is not None and not any(moment is not None and moment >= since for moment in moments):
            tally.left_out += 1
            tally.bad_timestamps += moments == (None, None)
            continue
        tally.add(attempt)
        if also is not None:
            also(attempt)
    return tally


def _by_many(attempts: Iterable[Attempt]) -> Iterator[Attempt]:
    """The same, read many at a time: to read and to count by turns takes an eighth longer."""
    source = iter(attempts)
    while read := list(islice(source, AT_ONCE)):
        yield from read


# --- what an attempt is about -------------------------------------------------------------------------


def cell_of(attempt: Attempt) -> Cell:
    extra = attempt.extra
    parallel, role = extra.get("parallel"), extra.get("role")
    return Cell(
        attempt.agent,
        attempt.model or UNKNOWN,
        attempt.template or CUSTOM,
        kind_of(attempt),
        task_type(attempt),
        parallel if type(parallel) is int and parallel > 0 else None,
        role if isinstance(role, str) and role else UNKNOWN,
    )


def _said(cell: Cell, traits: tuple[str, ...]) -> Any:
    """The value of one trait, or of several together; None where it lacks one."""
    said = tuple(getattr(cell, trait) for trait in traits)
    if None in said:
        return None
    return said[0] if len(said) == 1 else said


def kind_of(attempt: Attempt) -> str:
    """The kind of its bead: what its template is for, else work, merge, gate or dod."""
    kind = attempt.extra.get("kind")
    if attempt.template and attempt.template != CUSTOM:
        return attempt.template
    return kind if isinstance(kind, str) and kind else UNKNOWN


def task_type(attempt: Attempt) -> str:
    """The first word of what was asked; a prompt that begins like all others says less than the title."""
    word = _first_word(attempt.prompt)
    word = word if word in TASK_WORDS else _first_word(attempt.extra.get("title"))
    return word if word in TASK_WORDS else OTHER


def _first_word(text: Any) -> str:
    words = text.split(None, 1) if isinstance(text, str) else ()
    return words[0].rstrip(":,.").lower() if words else ""


# --- rows -------------------------------------------------------------------------------------------


def ranked(reasons: Counter[str]) -> list[dict[str, Any]]:
    """The most common first; among equals by name, so that the answer is always the same."""
    rows = sorted(reasons.items(), key=lambda row: (-row[1], row[0]))
    return [{"reason": reason, "count": count} for reason, count in rows]


def per_hour(parallel: int, group: RunGroup) -> float | None:
    """Beads closed in an hour with so many at work, if all went as these did."""
    mean = Spread.of(group.seconds).mean
    return parallel * group.success / group.finished * 3600 / mean if group.finished and mean else None


def day_of(moment: datetime) -> date:
    """In UTC, as far as the calendar goes."""
    if moment.tzinfo is UTC:
        return moment.date()
    try:
        return moment.astimezone(UTC).date()
    except OverflowError:
        return moment.date()


def span(days: Mapping[date, Any]) -> list[date]:
    """Every day from the first to the last; over years, as one wrong clock makes them, only those known."""
    if not days:
        return []
    first, length = min(days), (max(days) - min(days)).days
    return sorted(days) if length > LONGEST_DAYS else [first + timedelta(days=at) for at in range(length + 1)]


def _bucket(start: date, found: Counter[str], spent: Sequence[float]) -> dict[str, Any]:
    counts = {name: found.get(name, 0) for name in FINISHED}
    rate = Rate(counts["success"], sum(counts.values()))
    cost = math.fsum(spent) if spent else None
    return {
        "start": start.isoformat(),
        "runs": rate.of,
        **counts,
        "success_rate": rate.percent,
        "cost_usd": shortened(cost, 6),
        "cost_per_closed_usd": shortened(cost / rate.hits, 6) if cost is not None and rate.hits else None,
    }

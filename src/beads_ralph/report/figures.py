"""Rates with what they rest on, spreads of times and costs, and the runs that share something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from beads_ralph.journal.records import Attempt

CONFIDENCE_Z: Final = 1.959964
"""Of a 95 % interval."""
MINUTE: Final = 60
HOUR: Final = 3600


@dataclass(frozen=True)
class Rate:
    """So many of so many."""

    hits: int
    of: int

    @property
    def percent(self) -> float | None:
        """None where there is nothing to take a share of."""
        return round(100 * self.hits / self.of, 2) if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's: where the true rate lies, in 95 of 100 cases. Honest for few runs, too."""
        if not self.of:
            return None
        n, p, z = self.of, self.hits / self.of, CONFIDENCE_Z
        middle = p + z * z / (2 * n)
        reach = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        low, high = ((middle + side * reach) / (1 + z * z / n) for side in (-1, 1))
        # Rounding would otherwise leave 0 of n a hair above 0, and n of n below 100.
        return round(100 * max(low, 0.0), 2), round(100 * min(high, 1.0), 2)

    def __str__(self) -> str:
        if self.interval is None:
            return "-"
        low, high = self.interval
        return f"{100 * self.hits / self.of:.0f} % ({self.hits} of {self.of}; {low:.0f} to {high:.0f} %)"


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of ascending values, at least one; between two of them in proportion."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True)
class Spread:
    """Mean and quantiles of values; all None where there are none."""

    n: int
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values:
            return cls(0)
        ordered = sorted(values)
        mean = math.fsum(ordered) / len(ordered)
        return cls(len(ordered), mean, quantile(ordered, 0.5), quantile(ordered, 0.95))

    def to_json(self, digits: int = 3) -> dict[str, Any]:
        rounded = {name: shortened(getattr(self, name), digits) for name in ("mean", "p50", "p95")}
        return {"n": self.n, **rounded}


def shortened(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def time_text(seconds: float | None) -> str:
    """For people: 0.4 s, 42 s, 3 min, 3 min 05 s, 2 h 10 min."""
    if seconds is None:
        return "-"
    if seconds < 10:  # noqa: PLR2004 - where tenths begin to matter
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02d} s".removesuffix(" 00 s")
    minutes = round(seconds / MINUTE)
    return f"{minutes // MINUTE} h {minutes % MINUTE:02d} min".removesuffix(" 00 min")


def money_text(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:,.2f}"


# --- runs that share something, such as their agent, counted together -------------------------------

Outcome = Literal["success", "failed", "timeout", "running", "waiting"]
FINISHED: Final = ("success", "failed", "timeout")
COUNTED: Final = (*get_args(Outcome), "retried", "retries")
OUTCOMES: Final[dict[str, Outcome]] = {"done": "success", **{name: name for name in get_args(Outcome)}}
CONFIDENT_USES: Final = 5
HIGH_PERCENT: Final = 70
MEDIUM_PERCENT: Final = 50

Confidence = Literal["high", "medium", "low"]


def outcome_of(attempt: Attempt) -> Outcome:
    """The outcome of an attempt; `waiting` where it will be tried again, so nothing is known yet."""
    if attempt.status in ("failed", "timeout") and attempt.begins_again:
        return "waiting"
    return OUTCOMES[attempt.status]


@dataclass
class RunGroup:
    """Runs counted by how they ended. A run is the last attempt at a bead."""

    success: int = 0
    failed: int = 0
    timeout: int = 0
    running: int = 0
    waiting: int = 0
    retried: int = 0
    retries: int = 0
    seconds: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    """Of finished runs, where known."""

    def add(self, outcome: Outcome, attempt: int, seconds: float | None, cost: float | None) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)
        if outcome not in FINISHED:
            return
        if attempt > 1:
            self.retried += 1
            self.retries += attempt - 1
        if seconds is not None:
            self.seconds.append(seconds)
        if cost is not None:
            self.costs.append(cost)

    def take(self, other: RunGroup) -> None:
        """Count the other's runs, too."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.seconds.extend(other.seconds)
        self.costs.extend(other.costs)

    @property
    def finished(self) -> int:
        return self.success + self.failed + self.timeout

    @property
    def count(self) -> int:
        return self.finished + self.running + self.waiting

    @property
    def success_rate(self) -> Rate:
        return Rate(self.success, self.finished)

    @property
    def retry_rate(self) -> Rate:
        return Rate(self.retried, self.finished)

    @property
    def confidence(self) -> Confidence:
        """The confidence in a template's success rate."""
        percent = self.success_rate.percent or 0.0
        if self.finished >= CONFIDENT_USES and percent > HIGH_PERCENT:
            return "high"
        return "medium" if self.finished >= CONFIDENT_USES and percent > MEDIUM_PERCENT else "low"

    def counts(self) -> dict[str, Any]:
        return {
            "finished": self.finished,
            **{outcome: getattr(self, outcome) for outcome in get_args(Outcome)},
            "success_rate": self.success_rate.percent,
            "success_interval": self.success_rate.interval,
            "retry_count": self.retried,
            "retry_rate": self.retry_rate.percent,
        }

    def to_json(self) -> dict[str, Any]:
        times = Spread.of(self.seconds)
        return {
            "count": self.count,
            **self.counts(),
            "avg_duration": shortened(times.mean),
            "p50_duration": shortened(times.p50),
            "p95_duration": shortened(times.p95),
            "durations_known": times.n,
            "avg_cost_usd": shortened(Spread.of(self.costs).mean, 6),
            "costs_known": len(self.costs),
        }

    def score(self) -> dict[str, Any]:
        """A template's score, from finished runs alone."""
        return {
            "uses": self.finished,
            "success_rate": self.success_rate.percent,
            "avg_duration_s": shortened(Spread.of(self.seconds).mean),
            "avg_retries": shortened(self.retries / self.finished) if self.finished else None,
            "confidence": self.confidence,
        }


# --- verifiers that say red and green of one commit -------------------------------------------------


RED: Final = 1
GREEN: Final = 2
BOTH: Final = RED | GREEN
AGAIN: Final = 4
BITS: Final = 3
MASK: Final = BOTH | AGAIN
RULINGS: Final = {"pass": GREEN, "fail": RED, "stop": RED}


@dataclass
class Seen:
    """The record of one verifier."""

    name: str
    place: int
    """Where its bits begin in what was said of a commit."""
    runs: int = 0
    red: int = 0
    flips: int = 0
    """Commits of which it said both."""
    repeated: int = 0
    """Commits on which it ran more than once: only there it could be caught."""
    beads: set[str] = field(default_factory=set)
    """In which it was caught."""

    def to_json(self) -> dict[str, Any]:
        return {
            "verifier": self.name,
            "runs": self.runs,
            "red": self.red,
            "commits_repeated": self.repeated,
            "commits_flaky": self.flips,
            "beads": sorted(self.beads),
        }


class Verifiers:
    """Every verifier, by its name and its command."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], Seen] = {}
        self.said: dict[str, int] = {}
        """By commit three bits a verifier: RED, GREEN, and AGAIN where it was asked more than once. There may
        be a hundred thousand commits, each judged by the same few verifiers."""

    def add(self, bead: str, checks: Any) -> None:
        """The checks of one attempt."""
        for check in checks if isinstance(checks, list) else ():
            if not isinstance(check, dict) or check.get("kind") != "verifier":
                continue
            said = check.get("ruling")
            ruling = RULINGS.get(said) if type(said) is str else None
            seen = self._named(check.get("name"), check.get("command") or "")
            if ruling is not None and seen is not None:
                seen.runs += 1
                seen.red += ruling == RED
                commit = check.get("commit")
                if type(commit) is str and commit:  # else something may have been changed between
                    self._judge(bead, seen, ruling, commit)

    def _named(self, name: Any, command: Any) -> Seen | None:
        if type(name) is not str or type(command) is not str or not name:
            return None
        seen = self.seen.get((name, command))
        if seen is None:
            seen = self.seen[name, command] = Seen(name, BITS * len(self.seen))
        return seen

    def _judge(self, bead: str, seen: Seen, ruling: int, commit: str) -> None:
        said = self.said.get(commit, 0)
        before = said >> seen.place & MASK
        if before:
            seen.repeated += not before & AGAIN
            if (before | ruling) & BOTH == BOTH:
                seen.flips += before & BOTH != BOTH
                seen.beads.add(bead)
            ruling |= AGAIN
        self.said[commit] = said | ruling << seen.place

    @property
    def flaky(self) -> list[Seen]:
        """Those that were caught, the worst first."""
        caught = (seen for seen in self.seen.values() if seen.flips)
        return sorted(caught, key=lambda seen: (-seen.flips, seen.name))

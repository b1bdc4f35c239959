"""Rates with what they rest on, spreads of times and costs, and runs and attempts that share something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from beads_ralph.journal.records import Attempt
from beads_ralph.journal.records.model import UNJUDGED

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

    @property
    def short(self) -> str:
        return f"{100 * self.hits / self.of:.0f} % ({self.hits} of {self.of})" if self.of else "-"

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
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p95: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not values:
            return cls(0)
        ordered = sorted(values)
        mean = math.fsum(ordered) / len(ordered)
        return cls(len(ordered), mean, *(quantile(ordered, share) for share in (0.25, 0.5, 0.75, 0.95)))

    def to_json(self, digits: int = 3) -> dict[str, Any]:
        names = ("mean", "p25", "p50", "p75", "p95")
        return {"n": self.n, **{name: shortened(getattr(self, name), digits) for name in names}}


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


# --- what attempts cost -------------------------------------------------------------------------------

NUMBERS: Final = (int, float)
MORE: Final = float("inf")
TOKENS: Final = ("input_tokens", "output_tokens", "cache_tokens")


def amount(value: Any) -> float | None:
    """A number of at least 0, whatever a foreign record has there instead."""
    if type(value) not in NUMBERS or not 0 <= value < MORE:  # True is not a number here
        return None
    return float(value)


@dataclass
class AttemptCosts:
    """The cost of attempts, as far as their agents said. Retries cost too, so every attempt counts."""

    costs: list[float] = field(default_factory=list)
    without_cost: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    without_tokens: int = 0

    def add(self, usage: Any) -> float | None:
        """Add one attempt; return its cost where it is known."""
        said = usage if isinstance(usage, dict) else {}
        cost = amount(said.get("cost_usd"))
        if cost is None:
            self.without_cost += 1
        else:
            self.costs.append(cost)
        known = False
        for key in TOKENS if said else ():
            if (count := amount(said.get(key))) is not None:
                known = True
                self.tokens[key] = self.tokens.get(key, 0) + int(count)
        self.without_tokens += not known
        return cost

    def take(self, other: AttemptCosts) -> None:
        """Count the other's attempts, too."""
        self.costs.extend(other.costs)
        self.without_cost += other.without_cost
        for key, count in other.tokens.items():
            self.tokens[key] = self.tokens.get(key, 0) + count
        self.without_tokens += other.without_tokens

    @property
    def mean_cost(self) -> float | None:
        return math.fsum(self.costs) / len(self.costs) if self.costs else None

    def mean_tokens(self, attempts: int) -> float | None:
        """Of so many attempts, of those that tell any."""
        known = attempts - self.without_tokens
        return sum(self.tokens.values()) / known if known > 0 else None

    def to_json(self) -> dict[str, Any]:
        spread = Spread.of(self.costs)
        total = round(math.fsum(self.costs), 6) if self.costs else None
        return {
            "cost_usd": {"total": total, **spread.to_json(6), "attempts_without": self.without_cost},
            "tokens": {
                **{key.removesuffix("_tokens"): self.tokens.get(key) for key in TOKENS},
                "attempts_without": self.without_tokens,
            },
        }


# --- runs that share something, such as their agent, counted together -------------------------------

Outcome = Literal["success", "failed", "timeout", "running", "waiting"]
FINISHED: Final = ("success", "failed", "timeout")
CHARGED: Final = ("attempts", "ended", "first", "first_passed", "closed")
COUNTED: Final = (*get_args(Outcome), "retried", "retries", *CHARGED)
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
    """Runs counted by how they ended, and every attempt charged to whoever made it. A run is the last attempt
    at a bead; what another model tried before is in the attempts of that one."""

    success: int = 0
    failed: int = 0
    timeout: int = 0
    running: int = 0
    waiting: int = 0
    retried: int = 0
    retries: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of finished runs, where known."""
    beads: int = 0
    """At which an attempt was made."""
    attempts: int = 0
    ended: int = 0
    first: int = 0
    """First attempts at a bead that were judged."""
    first_passed: int = 0
    closed: int = 0
    attempt_seconds: list[float] = field(default_factory=list)
    spent: AttemptCosts = field(default_factory=AttemptCosts)

    def charge(self, attempt: Attempt) -> float | None:
        """Count an attempt, whatever came of it; return its cost where it is known."""
        self.attempts += 1
        cost = self.spent.add(attempt.extra.get("usage"))
        if attempt.status == "running":
            return cost
        passed = attempt.status == "done"
        self.ended += 1
        self.closed += passed
        if attempt.attempt == 1 and is_judged(attempt):
            self.first += 1
            self.first_passed += passed
        if attempt.seconds is not None:
            self.attempt_seconds.append(attempt.seconds)
        return cost

    def add(self, outcome: Outcome, attempt: int, seconds: float | None) -> None:
        """Count a run."""
        setattr(self, outcome, getattr(self, outcome) + 1)
        if outcome not in FINISHED:
            return
        if attempt > 1:
            self.retried += 1
            self.retries += attempt - 1
        if seconds is not None:
            self.seconds.append(seconds)

    def take(self, other: RunGroup) -> None:
        """Count the other's runs and attempts, too."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.seconds.extend(other.seconds)
        self.attempt_seconds.extend(other.attempt_seconds)
        self.spent.take(other.spent)

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
    def first_pass(self) -> Rate:
        """First attempts that closed their bead."""
        return Rate(self.first_passed, self.first)

    # --- for each bead that it closed, with what failed before or elsewhere -------------------------

    @property
    def attempts_per_closed(self) -> float | None:
        return self.ended / self.closed if self.closed else None

    @property
    def cost_per_closed(self) -> float | None:
        """By the mean price of an attempt, where some do not tell theirs."""
        return _times(self.spent.mean_cost, self.attempts_per_closed)

    @property
    def tokens_per_closed(self) -> float | None:
        return _times(self.spent.mean_tokens(self.attempts), self.attempts_per_closed)

    @property
    def seconds_per_closed(self) -> float | None:
        """By the median attempt, which one absurd duration does not move."""
        return _times(Spread.of(self.attempt_seconds).p50, self.attempts_per_closed)

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
            "avg_cost_usd": shortened(self.spent.mean_cost, 6),
            "costs_known": len(self.spent.costs),
            "account": self.account(),
        }

    def account(self) -> dict[str, Any]:
        """All attempts of the group; those of all groups add up to the total."""
        rate = self.first_pass
        times = Spread.of(self.attempt_seconds)
        return {
            "beads": self.beads,
            "attempts": self.attempts,
            "ended": self.ended,
            "first_attempts": rate.of,
            "first_passed": rate.hits,
            "first_pass_rate": rate.percent,
            "first_pass_interval": rate.interval,
            "closed": self.closed,
            "attempts_per_closed": shortened(self.attempts_per_closed),
            "cost_per_closed_usd": shortened(self.cost_per_closed, 6),
            "tokens_per_closed": shortened(self.tokens_per_closed, 1),
            "seconds_per_closed": shortened(self.seconds_per_closed),
            **self.spent.to_json(),
            "seconds": {"total": round(math.fsum(self.attempt_seconds), 3), **times.to_json()},
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


def is_judged(attempt: Attempt) -> bool:
    """Whether it says something of the work: it is over, and was not ended by something else."""
    return attempt.status == "done" or (
        attempt.status != "running" and attempt.failure_reason not in UNJUDGED
    )


def _times(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other

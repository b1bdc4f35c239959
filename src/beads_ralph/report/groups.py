"""Runs that share something, such as their agent, counted together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from beads_ralph.journal.records import Attempt
from beads_ralph.journal.records.reasons import UNJUDGED
from beads_ralph.report.numbers import Rate, Spread, shortened

Outcome = Literal["success", "failed", "timeout", "running", "waiting"]
FINISHED: Final = ("success", "failed", "timeout")
OUTCOMES: Final[dict[str, Outcome]] = {
    "done": "success",
    "failed": "failed",
    "timeout": "timeout",
    "running": "running",
}
CONFIDENT_USES: Final = 5
HIGH_PERCENT: Final = 70
MEDIUM_PERCENT: Final = 50

Confidence = Literal["high", "medium", "low"]


def outcome_of(attempt: Attempt) -> Outcome:
    """How it ended; `waiting` is what will be tried again, so that nothing is known of it yet."""
    if attempt.status in ("failed", "timeout") and _begins_again(attempt):
        return "waiting"
    return OUTCOMES[attempt.status]


def _begins_again(attempt: Attempt) -> bool:
    """As its result says; without one it may only have broken off."""
    if attempt.will_retry is None:
        return attempt.failure_reason in UNJUDGED
    return attempt.will_retry


@dataclass
class Group:
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
        if outcome == "running":
            self.running += 1
            return
        if outcome == "waiting":
            self.waiting += 1
            return
        if outcome == "success":
            self.success += 1
        elif outcome == "failed":
            self.failed += 1
        else:
            self.timeout += 1
        if attempt > 1:
            self.retried += 1
            self.retries += attempt - 1
        if seconds is not None:
            self.seconds.append(seconds)
        if cost is not None:
            self.costs.append(cost)

    def take(self, other: Group) -> None:
        """Count the other's runs, too."""
        self.success += other.success
        self.failed += other.failed
        self.timeout += other.timeout
        self.running += other.running
        self.waiting += other.waiting
        self.retried += other.retried
        self.retries += other.retries
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
        """How far a template's success can be trusted."""
        percent = self.success_rate.percent or 0.0
        if self.finished >= CONFIDENT_USES and percent > HIGH_PERCENT:
            return "high"
        return "medium" if self.finished >= CONFIDENT_USES and percent > MEDIUM_PERCENT else "low"

    def to_json(self) -> dict[str, Any]:
        times = Spread.of(self.seconds)
        return {
            "count": self.count,
            "finished": self.finished,
            "success": self.success,
            "failed": self.failed,
            "timeout": self.timeout,
            "running": self.running,
            "waiting": self.waiting,
            "success_rate": self.success_rate.percent,
            "success_interval": self.success_rate.interval,
            "retry_count": self.retried,
            "retry_rate": self.retry_rate.percent,
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

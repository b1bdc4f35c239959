"""The one attempt engine: try, judge, keep, and try again with what was found wrong.

`run` works so on a bead of a store, in a worktree, towards a pull request (`session/session.py`); `exec` on
a bead file, in place (`dod/execute.py`). What an attempt is made of is theirs, and so is where its verdict is
kept; when another one begins, and what ends them all, is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from beads_ralph.bead.evidence import Verdict
from beads_ralph.journal.events import VerdictGiven
from beads_ralph.journal.records.model import Reason


@dataclass(frozen=True)
class Exhausted:
    """Why no further attempt may begin."""

    text: str
    failure: Reason | None = None
    """The records' word for it, where it is not that of the last attempt."""
    paused: bool = False
    """Only for now: whoever sent the work wants no more of it."""


class Work(Protocol):
    """A source of work: what is tried until it is proven."""

    @property
    def attempts(self) -> int:
        """Those that are over, in whichever run."""

    async def before_next(self) -> Exhausted | None:
        """Wait where the work has to; why no further attempt may begin."""

    async def attempt(self, number: int, feedback: str | None) -> Verdict:
        """One attempt: agents, then the checks of what they did."""

    async def judged(self, number: int, verdict: Verdict) -> None:
        """Keep the verdict, and tell of it; it is on disk before the next attempt begins."""


async def until_proven(work: Work, feedback: str | None) -> Verdict | Exhausted:
    """The verdict that ends the work, pass or stop; or what there is no more of."""
    while (exhausted := await work.before_next()) is None:
        number = work.attempts + 1
        verdict = await work.attempt(number, feedback)
        await work.judged(number, verdict)
        if verdict.ruling != "fail":
            return verdict
        feedback = verdict.feedback
    return exhausted


def verdict_event(number: int, verdict: Verdict, *, will_retry: bool) -> VerdictGiven:
    """What the journal is told of an attempt."""
    return VerdictGiven(
        attempt=number,
        ruling=verdict.ruling,
        message=verdict.message,
        flags=tuple(verdict.flags),
        will_retry=will_retry,
        checks=tuple(verdict.evidence),
    )


@dataclass(frozen=True)
class TimeLeft:
    """The seconds until the deadline of some work, and those of its own time; None for no such limit."""

    to_deadline: float | None
    of_budget: float | None

    @classmethod
    def of(cls, deadline: datetime | None, budget: float | None, spent: float) -> TimeLeft:
        to_deadline = None if deadline is None else (deadline - datetime.now(UTC)).total_seconds()
        return cls(to_deadline, None if budget is None else budget - spent)

    @property
    def seconds(self) -> float | None:
        return min((left for left in (self.to_deadline, self.of_budget) if left is not None), default=None)

    @property
    def deadline_is_first(self) -> bool:
        return self.to_deadline is not None and self.to_deadline == self.seconds

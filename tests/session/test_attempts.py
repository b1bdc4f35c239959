"""The one attempt engine, on work that is nothing but verdicts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.evidence import Evidence, Ruling, Verdict
from beads_ralph.session.state import Exhausted, TimeLeft, Work, until_proven

RULINGS: list[Ruling] = ["pass", "fail", "stop"]
LEFT = st.one_of(st.none(), st.floats(-1e6, 1e6))


@dataclass
class Scripted:
    """Verdicts in order, so many attempts of them; what was done, in order."""

    rulings: list[Ruling]
    most: int
    attempts: int = 0
    done: list[str] = field(default_factory=list)
    told: list[str | None] = field(default_factory=list)

    async def before_next(self) -> Exhausted | None:
        self.done.append("asked")
        return Exhausted("no more") if self.attempts >= self.most else None

    async def attempt(self, number: int, feedback: str | None) -> Verdict:
        self.done.append(f"tried {number}")
        self.told.append(feedback)
        row = Evidence("check", "git", "", "", self.rulings[number - 1], f"{number} was wrong")
        return Verdict(row.ruling, row.message, [row])

    async def judged(self, number: int, verdict: Verdict) -> str:
        self.done.append(f"judged {number}")
        self.attempts = number
        return verdict.feedback


@given(st.lists(st.sampled_from(RULINGS), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_it_tries_until_a_verdict_is_final_or_something_is_used_up(
    rulings: list[Ruling], most: int, before: int
) -> None:
    most = min(most, len(rulings))
    work = Scripted(rulings, most, attempts=before)
    ended = asyncio.run(until_proven(work, "from before"))
    tried = rulings[before:most]
    final = next((number for number, ruling in enumerate(tried, 1) if ruling != "fail"), None)
    count = len(tried) if final is None else final
    numbers = range(before + 1, before + count + 1)
    steps = [step for number in numbers for step in ("asked", f"tried {number}", f"judged {number}")]
    if final is None:
        assert ended == Exhausted("no more")
        assert work.done == [*steps, "asked"]
    else:
        assert isinstance(ended, Verdict)
        assert ended.ruling == tried[final - 1]
        assert work.done == steps


def test_each_attempt_is_told_what_was_wrong_with_the_one_before() -> None:
    work: Work = (scripted := Scripted(["fail", "fail", "pass"], 3))
    asyncio.run(until_proven(work, "from an earlier run"))
    assert scripted.told[0] == "from an earlier run"
    for number, told in enumerate(scripted.told[1:], 1):
        assert f"{number} was wrong" in (told or "")


@given(LEFT, LEFT)
def test_the_time_left_is_that_of_the_first_limit(to_deadline: float | None, of_budget: float | None) -> None:
    left = TimeLeft(to_deadline, of_budget)
    known = [limit for limit in (to_deadline, of_budget) if limit is not None]
    assert left.seconds == (min(known) if known else None)
    assert left.deadline_is_first == (to_deadline is not None and to_deadline == min(known))


def test_what_was_spent_counts_against_the_budget_and_not_against_the_deadline() -> None:
    deadline = datetime.now(UTC) + timedelta(hours=1)
    assert TimeLeft.of(deadline, None, spent=1e9).seconds == pytest.approx(3600, abs=60)
    assert TimeLeft.of(None, 100, spent=40) == TimeLeft(None, 60)
    assert TimeLeft.of(None, None, spent=40).seconds is None

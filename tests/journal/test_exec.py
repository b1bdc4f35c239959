"""The records of `beads-ralph exec`: the same as those of a run, for every attempt of its agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from beads_ralph.journal.records import Attempt, read_all, repair
from tests.dod.beads import agent, bead, check, execute, put


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def attempts(place: Path) -> list[Attempt]:
    state = place / "state"
    reports = [repair.check(path, kind) for path, kind in repair.find(state, ["run", "result"])]
    assert [report for report in reports if report.faults or report.warnings] == []
    return list(read_all(state))


def test_s4_b2_s4_a1_every_attempt_of_an_execution_is_recorded(place: Path) -> None:
    path = put(place / "a.json", bead(check("test -f one.txt", "One is there")))
    agent(place, "[ $n -ge 2 ] || exit 3\n[ $n -ge 3 ] && touch one.txt\nexit 0")
    assert execute(place, path, "--agent", "./agent.sh").code == 0
    first, second, third = attempts(place)
    assert [one.attempt for one in (first, second, third)] == [1, 2, 3]
    assert [one.status for one in (first, second, third)] == ["failed", "failed", "done"]
    assert [one.failure_reason for one in (first, second)] == ["agent-crash", "verifier-failed"]
    assert (third.bead, third.agent, third.will_retry, third.final) == ("gt-one", "agent.sh", False, True)
    assert (third.extra["kind"], third.extra["source"]) == ("dod", "exec")
    assert (third.model, third.extra["calls"][0].get("model", "")) == ("none", ""), "no model played"
    said = [row["message"] for row in first.extra["checks"] if row["kind"] == "git"]
    assert [text.partition(":")[0] for text in said] == ["agent.sh"], "whoever it was that failed"
    assert [row["name"] for row in third.extra["checks"]] == ["One is there"]


def test_the_last_attempt_is_not_tried_again_and_missing_evidence_has_its_reason(place: Path) -> None:
    raw = bead("true", evidence=True, constraints={"max_iterations": 2})
    agent(place, "exit 0")
    assert execute(place, put(place / "a.json", raw), "--agent", "./agent.sh").code == 1
    first, second = attempts(place)
    assert (first.failure_reason, second.failure_reason) == ("evidence-missing", "evidence-missing")
    assert (second.will_retry, second.max_retries, second.final) == (False, 2, True)


def test_what_is_green_already_leaves_no_record(place: Path) -> None:
    assert execute(place, put(place / "a.json", bead("true"))).code == 0
    assert attempts(place) == []


def when_the_deadline_ends_it(place: Path, most: int) -> Attempt:
    """The only attempt of an agent that never ends by itself. A busy machine may take until the deadline to
    start it; then it gets more time."""
    agent(place, "sleep 600")
    for seconds in (3, 15, 60, 200):
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        raw = bead("false", constraints={"deadline": until, "max_iterations": most})
        assert execute(place, put(place / "a.json", raw), "--agent", "./agent.sh").code == 1
        if found := attempts(place):
            (attempt,) = found
            return attempt
    pytest.fail("the agent was never started")


@pytest.mark.parametrize("most", [1, 3])
def test_an_attempt_that_the_deadline_ends_says_so(place: Path, most: int) -> None:
    attempt = when_the_deadline_ends_it(place, most)
    assert (attempt.status, attempt.failure_reason, attempt.exit_code) == ("timeout", "deadline-passed", 124)
    assert (attempt.extra["failure_detail"], attempt.will_retry) == ("agent-timeout", False)


def test_a_bead_that_has_no_time_for_another_attempt_says_so(place: Path) -> None:
    raw = bead("false", constraints={"time_budget_minutes": 1})
    agent(place, "exit 0")
    assert execute(place, put(place / "a.json", raw), "--agent", "./agent.sh", backoff="3600").code == 1
    (attempt,) = attempts(place)
    assert (attempt.failure_reason, attempt.extra["failure_detail"]) == ("budget-used-up", "verifier-failed")
    assert attempt.will_retry is False
    assert "time budget of 1 minutes is used up" in str(attempt.reason)

"""The records that real runs leave: in the order of what happened, with everything that the seed asks for."""

from __future__ import annotations

import hashlib
import json
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.journal.events import BeadClosed, VerdictGiven
from beads_ralph.journal.journal import Journal, read
from beads_ralph.journal.records import Attempt, read_all, repair
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.keeper import Keeper
from beads_ralph.journal.records.model import Extra, ResultRecord, RunRecord
from beads_ralph.journal.runs import RunFolder
from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, fails, git, passes, soon, sprint, work

ONE = sprint("1.1", "One")
BEAD = "bd-1-1-one"


def run_record(project: Project, name: str = BEAD) -> RunRecord:
    raw = json.loads((project.root / "state" / "runs" / f"{name}.json").read_text())
    return RunRecord.model_validate(raw)


def result_record(project: Project, name: str = BEAD) -> ResultRecord:
    raw = json.loads((project.root / "state" / "results" / f"{name}.json").read_text())
    return ResultRecord.model_validate(raw)


def has_result(project: Project, name: str = BEAD) -> bool:
    return (project.root / "state" / "results" / f"{name}.json").exists()


def attempts(project: Project) -> list[Attempt]:
    state = project.root / "state"
    reports = [repair.check(path, kind) for path, kind in repair.find(state, ["run", "result"])]
    assert [report for report in reports if report.faults or report.warnings] == []
    return list(read_all(state))


# --- what they say ----------------------------------------------------------------------------------


def test_s4_a1_a_bead_that_is_closed_leaves_a_run_and_a_result(repo: Path) -> None:
    script = {"*": {"dev": [*work(), {"say": "x" * 600 + "the end"}]}}
    project = Project.make(repo, ONE, script=script)
    assert project.run().code == 0
    run, result = run_record(project), result_record(project)
    assert (run.bead, run.status, run.agent, run.attempt, run.max_retries) == (BEAD, "done", "scripted", 1, 3)
    assert run.model == "none", "a script is no model of Claude's"
    assert (run.repo, run.exit_code, run.failure_reason) == (str(repo), 0, None)
    assert run.prompt == run.prompt_full[:200]
    assert "bd-1-1-one" in run.prompt_full
    assert run.prompt_hash == hashlib.sha256(run.prompt_full.encode()).hexdigest()
    assert run.output_summary is not None
    assert run.output_summary.endswith("the end")
    assert len(run.output_summary) <= 500
    assert run.finished_at is not None
    assert run.duration_seconds is not None
    assert run.extra is not None
    assert [call.role for call in run.extra.calls] == ["dev", "qa"]
    assert (run.extra.run_id, run.extra.team) == (
        project.run_ids()[-1],
        project.bead(BEAD).metadata.team_name,
    )
    assert (run.extra.kind, run.extra.parallel, run.extra.ruling) == ("work", 1, "pass")
    shared = ("status", "attempt", "started_at", "finished_at", "duration_seconds", "exit_code", "agent")
    assert [getattr(result, name) for name in shared] == [getattr(run, name) for name in shared]
    assert not result.will_retry
    assert result.reason.startswith("reviewed on ")
    assert git(repo, "status", "--porcelain", "--", "state") == ""


def test_s4_b2_s4_b3_every_attempt_has_one_run_record_and_the_bead_one_result(repo: Path) -> None:
    script = {"*": {"dev": work(), "qa": [fails(), passes()]}}
    project = Project.make(repo, ONE, script=script)
    assert project.run().code == 0
    first, second = attempts(project)
    assert (first.attempt, first.status, first.failure_reason) == (1, "failed", "qa-failed")
    assert (second.attempt, second.status, second.final) == (2, "done", True)
    assert result_record(project).attempt == 2


def test_s4_s7_the_last_of_the_failed_attempts_is_not_tried_again(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": work(), "qa": fails()}}, max_retry_attempts=2)
    assert project.run().code == 1
    assert [one.status for one in attempts(project)] == ["failed", "failed"]
    result = result_record(project)
    assert (result.attempt, result.max_retries, result.will_retry) == (2, 2, False)
    assert "failed" in result.reason


REASONS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "crash": ({"dev": [{"exit": 3}]}, {}, "failed", "agent-crash"),
    "timeout": ({"dev": [{"run": "sleep 600"}]}, {"dev_agent_timeout": "1s"}, "timeout", "agent-timeout"),
    "nothing": ({"dev": [{"say": "done"}]}, {}, "failed", "nothing-changed"),
    "stop": ({"dev": work(), "qa": fails("no", "stop")}, {}, "failed", "qa-stop"),
    "branch": (
        {"dev": [*work(), {"run": "git switch --quiet --create elsewhere"}]},
        {},
        "failed",
        "branch-changed",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", REASONS)
def test_s4_r16_why_an_attempt_failed_is_one_of_the_known_reasons(repo: Path, name: str) -> None:
    script, settings, status, reason = REASONS[name]
    project = Project.make(repo, ONE, script={"*": script}, max_retry_attempts=1, **settings)
    assert project.run().code == 1
    [one] = attempts(project)
    assert (one.status, one.failure_reason, one.will_retry) == (status, reason, False)


def test_s4_r16_a_verifier_that_fails_is_named_with_what_it_said_before(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One", verify="`false`"), max_retry_attempts=1)
    assert project.run().code == 1
    [one] = attempts(project)
    assert one.failure_reason == "verifier-failed"
    [check] = one.extra["checks"]
    assert (check["name"], check["ruling"], check["red_before"]) == ("false", "fail", True)
    assert one.extra["ruling"] == "fail"


def in_seconds(seconds: float) -> str:
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("most", [1, 3])
def test_s4_r16_a_bead_whose_time_ends_an_agent_says_so(repo: Path, most: int) -> None:
    script = {"*": {"dev": [{"hang": True}]}}
    project = Project.make(repo, ONE, script=script, bead_budget_minutes=0.05, max_retry_attempts=most)
    ran = project.run()
    assert "time budget (minutes) of 0.05 is used up" in ran.data["blocked"][0]["reason"]
    run, result = run_record(project), result_record(project)
    assert (run.status, run.failure_reason, run.exit_code) == ("timeout", "budget-used-up", 124)
    assert (run.extra or Extra()).failure_detail == "agent-timeout"
    assert (result.attempt, result.will_retry) == (1, False)
    assert "0.05 is used up" in result.reason


def test_s4_r16_a_deadline_that_passes_between_attempts_is_why_there_is_no_other(repo: Path) -> None:
    spend: dict[str, Any] = {"usage": {"cost_usd": 1.5}}
    script = {"*": {"dev": [spend, *work()], "qa": fails()}}
    project = Project.make(repo, ONE, script=script, budget_usd=1.0)
    assert project.run().data["attempts"] == 1
    assert result_record(project).will_retry is True
    project.store.update(BEAD, Changes(metadata={"deadline": in_seconds(-60)}))
    assert "has passed" in project.run().data["blocked"][0]["reason"]
    run, result = run_record(project), result_record(project)
    assert (run.attempt, run.failure_reason, result.will_retry) == (1, "deadline-passed", False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("said", [{"bead_budget_usd": 2.0}, {"bead_budget_tokens": 150}])
def test_s4_r16_a_bead_without_money_for_another_attempt_says_so(repo: Path, said: dict[str, Any]) -> None:
    """And what was wrong with the attempt itself stays beside it; the attempts before keep their reasons."""
    spend = {"usage": {"input_tokens": 80, "output_tokens": 20, "cost_usd": 1.5}}
    script = {"*": {"dev": [spend, *work()], "qa": fails("not nice")}}
    project = Project.make(repo, ONE, script=script, **said)
    assert project.run().data["attempts"] == 2
    first, last = attempts(project)
    assert (first.failure_reason, last.failure_reason) == ("qa-failed", "budget-used-up")
    assert last.extra["failure_detail"] == "qa-failed"
    result = result_record(project)
    assert (result.will_retry, result.attempt) == (False, 2)
    assert "is used up" in result.reason
    assert "1 check failed" in result.reason
    (blocked,) = project.events("bead_blocked")
    assert blocked["failure_reason"] == "budget-used-up"
    project.ralph("retry", BEAD)
    project.store.update(BEAD, Changes(metadata={"deadline": in_seconds(-60)}))
    before = run_record(project)
    assert "has passed" in project.run().data["blocked"][0]["reason"]
    assert run_record(project) == before, "nothing was tried since"


# --- while it runs, and when it does not ------------------------------------------------------------


def test_s4_r9_s4_b1_a_run_record_is_there_as_soon_as_the_agent_is(repo: Path) -> None:
    dev = [{"run": "while [ ! -e go ]; do sleep 0.05; done; rm go"}, *work()]
    project = Project.make(repo, ONE, script={"*": {"dev": dev}})
    with project.running() as process:
        soon((repo / "state" / "runs" / f"{BEAD}.json").exists)
        run = run_record(project)
        assert (run.status, run.finished_at, run.duration_seconds, run.exit_code) == (
            "running",
            None,
            None,
            None,
        )
        assert not has_result(project)
        soon(lambda: project.worktree("feature/1-1-one").exists())
        (project.worktree("feature/1-1-one") / "go").touch()
        assert project.finished(process).code == 0
    assert run_record(project).status == "done"


def test_a_killed_run_is_marked_by_the_next_one_and_the_attempt_goes_on_in_its_record(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [{"run": "sleep 600"}]}})
    with project.running() as process:
        soon((repo / "state" / "runs" / f"{BEAD}.json").exists)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert run_record(project).status == "running"
    project.write_script({"*": {"dev": work()}})
    assert project.run().code == 0
    [one] = attempts(project)
    assert (one.attempt, one.status, one.final) == (1, "done", True)
    [before] = one.extra["broken_off"]
    assert before["failure_reason"] == "interrupted"
    assert before["run_id"] != one.extra["run_id"]


def test_a_cancelled_run_leaves_an_interrupted_attempt_and_no_result(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [{"run": "sleep 600"}]}})
    with project.running() as process:
        soon((repo / "state" / "runs" / f"{BEAD}.json").exists)
        process.send_signal(signal.SIGINT)
        soon(lambda: bool(project.events("run_draining")))
        process.send_signal(signal.SIGINT)
        project.finished(process)
    run = run_record(project)
    assert (run.status, run.failure_reason, run.exit_code) == ("failed", "interrupted", 130)
    assert not has_result(project)
    [one] = attempts(project)
    assert not one.final


def test_records_go_where_the_settings_say(repo: Path) -> None:
    project = Project.make(repo, ONE, state_dir="../records")
    assert project.run().code == 0
    assert (repo.parent / "records" / "runs" / f"{BEAD}.json").exists()
    assert not (repo / "state").exists()


def test_a_state_folder_that_cannot_be_written_is_said_before_anything_starts(repo: Path) -> None:
    project = Project.make(repo, ONE)
    (repo / "state").write_text("a file\n")
    ran = project.run()
    assert ran.code == 1
    assert "state" in ran.error["message"]
    assert project.statuses() == {BEAD: "open"}


def test_a_close_that_was_half_noted_down_by_a_second_killed_run_is_noted_by_the_third(repo: Path) -> None:
    """The first run proved the bead, the second closed it and was killed between its two records."""
    project = Project.make(repo, ONE)
    assert project.run().code == 0
    told = list(read(RunFolder(repo / ".ralph", project.run_ids()[0]).journal))
    while not isinstance(told[-1], BeadClosed):
        told.pop()
    record = repo / "state" / "runs" / f"{BEAD}.json"
    raw = json.loads(record.read_text())
    raw["extra"]["run_id"] = "20260101T000000000Z-aaaa"
    record.write_text(json.dumps(raw))
    (repo / "state" / "results" / f"{BEAD}.json").unlink()
    third = Keeper(StateFolder(repo / "state"), repo, "20260103T000000000Z-cccc")
    journal = Journal(repo.parent / "third.jsonl", third.run_id)
    with third.listening(journal, killed=[told]):
        pass
    journal.close()
    assert (run_record(project).status, result_record(project).status) == ("done", "done")


def test_a_verdict_of_a_run_that_resumed_behind_its_agents_is_noted_by_the_next_one(repo: Path) -> None:
    """The first run's agents answered, the second judged and closed; neither could tell of its last step."""
    project = Project.make(repo, ONE)
    assert project.run().code == 0
    told = list(read(RunFolder(repo / ".ralph", project.run_ids()[0]).journal))
    record = repo / "state" / "runs" / f"{BEAD}.json"
    raw = json.loads(record.read_text())
    raw["extra"] |= {"run_id": "20260101T000000000Z-aaaa", "ruling": None, "commit": None, "checks": []}
    raw |= {"status": "failed", "failure_reason": "interrupted", "verification": None}
    record.write_text(json.dumps(raw))
    (repo / "state" / "results" / f"{BEAD}.json").unlink()
    third = Keeper(StateFolder(repo / "state"), repo, "20260103T000000000Z-cccc")
    ends = [event for event in told if isinstance(event, VerdictGiven | BeadClosed) and event.attempt != 0]
    for event in ends:
        third.hear(replace(event, derived="20260102T000000000Z-bbbb"))
    after = run_record(project)
    assert (after.status, after.ours.ruling, result_record(project).status) == ("done", "pass", "done")
    assert after.ours.commit

"""The smaller parts of a run, each by itself."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.agents import faults
from beads_ralph.bead.model import Bead, Expectation
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import runs
from beads_ralph.journal.events import BeadClosed, RunStarted
from beads_ralph.journal.journal import Journal, follow, read
from beads_ralph.loop import Scope
from beads_ralph.loop.limits import MOST_PARKED, Parallelism, ParkedBeads
from beads_ralph.process.calls import in_thread
from beads_ralph.process.jobs import Exit, Transcript
from beads_ralph.session import verify
from beads_ralph.session.history import BeadHistory, subject_of
from beads_ralph.session.program_limits import (
    LONGEST_OUTAGE,
    ProgramLimit,
    ProgramLimits,
    ProgramTrouble,
)
from beads_ralph.store.query import UnreadableBead
from tests.beads import make_bead

# --- verifiers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expect", "code", "finding"),
    [
        (Expectation(), 0, ""),
        (Expectation(), 1, "exit code 1 (expected 0)"),
        (Expectation(exit_code=2), 2, ""),
        (Expectation(stdout_contains="12 passed"), 0, ""),
        (Expectation(stdout_contains="[12] passed"), 0, "stdout does not contain '[12] passed'"),
        (Expectation(stderr_contains="careful"), 0, ""),
        (Expectation(stderr_contains="12 passed"), 0, "stderr does not contain '12 passed'"),
        (Expectation(stdout_contains="nope"), 3, "exit code 3 (expected 0)"),
    ],
)
def test_what_a_verifier_expects(tmp_path: Path, expect: Expectation, code: int, finding: str) -> None:
    said = Transcript(tmp_path / "out", tmp_path / "err")
    said.out.write_bytes(b"x" * (verify.CHUNK - 4) + b" 12 passed\n")  # across the pieces it is read in
    said.err.write_bytes(b"be careful\n")
    assert verify.failure(expect, Exit(code), said, 5) == finding


def test_what_ends_a_verifier_goes_first(tmp_path: Path) -> None:
    gone = Transcript(tmp_path / "out", tmp_path / "err")
    assert verify.failure(Expectation(), Exit(0, timed_out=True), gone, 5) == "timed out after 5 s"
    assert verify.failure(Expectation(), Exit(0, flooded=True), gone, 5) == "printed more than is kept"
    wanted = Expectation(stdout_contains="x")
    assert verify.failure(wanted, Exit(0), gone, 5) == "stdout does not contain 'x'"
    assert verify.hash_of(gone) == verify.hash_of(None) == ""


# --- parking ----------------------------------------------------------------------------------------


def begin(
    rests: ProgramLimits, program: str, trouble: faults.Kind, reason: str, *more: Any, **named: Any
) -> tuple[ProgramLimit, bool]:
    return rests.begin(ProgramTrouble(program, trouble, reason, *more, **named))


def is_waited_for(rests: ProgramLimits, program: str) -> bool:
    limit = rests.of(program)
    return limit is not None and limit.is_worth_waiting_for


def soon_(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def seconds_to(moment: datetime | None) -> float:
    assert moment is not None
    return (moment - datetime.now(UTC)).total_seconds()


def test_a_bead_waits_for_the_time_that_was_named() -> None:
    parking = ParkedBeads()
    assert parking.park("a", soon_(3600)) == parking.beads["a"]
    assert parking.holds("a", [])
    assert not parking.lift()
    assert "a waits until" in str(parking)


def test_a_reset_time_that_is_always_past_does_not_spin() -> None:
    parking = ParkedBeads()
    pauses = [seconds_to(parking.park("a", soon_(-10))) for _ in range(MOST_PARKED)]
    assert pauses[0] <= 0.0
    assert pauses[1] > 1.5
    assert pauses == sorted(pauses) or max(pauses) <= 3600.0
    assert parking.park("a", soon_(-10)) is None, "some time a person should look"


def test_what_has_passed_is_forgotten() -> None:
    parking = ParkedBeads()
    parking.park("a", soon_(-1))
    assert parking.lift()
    assert not parking
    assert not parking.lift()


def test_a_bead_waits_only_where_all_programs_of_an_agent_rest() -> None:
    rests = ProgramLimits()
    begin(rests, "claude", "limit", "limit", soon_(3600))
    parking = ParkedBeads(rests)
    assert parking.holds("b", [["claude"]])
    assert parking.holds("b", [["codex"], ["claude"]]), "its reviewer would only meet the limit"
    assert not parking.holds("b", [["codex"]])
    assert not parking.holds("b", [["claude", "codex"]])
    begin(rests, "codex", "limit", "limit", soon_(60))
    assert parking.holds("c", [["claude", "codex"]])
    assert 0 < seconds_to(parking.waiting["c"]) <= 60, "until the first of them can again"


@pytest.mark.parametrize("why", ["auth", "credit", "configuration", "missing"])
def test_nobody_waits_for_what_only_a_person_can_mend(why: faults.Kind) -> None:
    rests = ProgramLimits()
    begin(rests, "claude", why, "not there")
    assert not ParkedBeads(rests).holds("a", [["claude"]])
    begin(rests, "codex", "limit", "limit", soon_(60))
    assert ParkedBeads(rests).holds("a", [["claude", "codex"]])


def parked(**said: Any) -> Bead:
    return make_bead("bd-1-1-one", metadata={"parked": said})


def test_an_earlier_run_parked_a_bead_for_the_sake_of_its_programs() -> None:
    """So a program that the user has added since may begin at once."""
    parking = ParkedBeads()
    bead = parked(until=soon_(3600), reason="limit", programs={"claude": soon_(3600)})
    parking.remember(bead)
    assert parking.holds(bead.id, [["claude"]])
    assert not parking.holds(bead.id, [["claude", "codex"]])


def test_a_bead_that_an_older_version_parked_waits_by_itself() -> None:
    parking = ParkedBeads()
    bead = parked(until=soon_(3600), reason="limit")
    parking.remember(bead)
    assert parking.holds(bead.id, [["codex"]])


# --- programs that rest -----------------------------------------------------------------------------


def rest_seconds(rests: ProgramLimits, why: faults.Kind, reset_at: str | None = None) -> float:
    return seconds_to(begin(rests, "p", why, "because", reset_at)[0].until)


def test_a_limit_without_a_time_is_waited_for_longer_each_time_and_never_just_so_long() -> None:
    for why, first, longest in (("limit", 60.0, 3600.0), ("server", 15.0, LONGEST_OUTAGE.total_seconds())):
        rests = ProgramLimits(patience=timedelta(days=1))
        for turn in range(30):
            pause = min(first * 2**turn, longest)
            found = rest_seconds(rests, cast("faults.Kind", why), None if turn % 2 else "no time at all")
            assert 0.74 * pause < found <= 1.25 * pause
    assert len({round(rest_seconds(ProgramLimits(), "limit"), 3) for _ in range(20)}) > 1


def test_a_time_that_was_named_is_never_undercut() -> None:
    rests = ProgramLimits()
    for _ in range(5):
        assert 3599 < rest_seconds(rests, "limit", soon_(3600)) <= 3600
    past = [round(rest_seconds(rests, "limit", soon_(-10))) for _ in range(10)]
    assert all(one > 1.0 for one in past), "who was wrong before is not believed again"
    assert past == sorted(past)


def test_a_call_that_was_under_way_meets_the_same_limit_not_a_new_one() -> None:
    rests = ProgramLimits()
    assert begin(rests, "p", "limit", "because", soon_(60))[1]
    rest, news = begin(rests, "p", "limit", "because", soon_(90), seconds=5.0)
    assert not news
    assert 60 < seconds_to(rest.until) <= 90
    assert begin(rests, "p", "limit", "because", soon_(60), seconds=0.0)[1]


def test_a_call_that_was_under_way_proves_nothing_about_a_later_limit() -> None:
    rests = ProgramLimits()
    begin(rests, "p", "limit", "because", soon_(60))
    rests.worked("p", seconds=5.0)
    assert rests.of("p")
    rests.worked("p")
    assert rests.of("p") is None
    assert rests.turns == {}


@pytest.mark.parametrize("why", ["server", "stalled"])
def test_an_outage_is_borne_from_the_first_call_on_and_not_for_ever(why: faults.Kind) -> None:
    rests = ProgramLimits()
    begin(rests, "p", why, "down")
    assert is_waited_for(rests, "p")
    rests.down_since["p"] -= rests.patience
    begin(rests, "p", why, "down")
    assert not is_waited_for(rests, "p")
    rests.worked("p")
    begin(rests, "p", why, "down")
    assert is_waited_for(rests, "p"), "each outage has a patience of its own"


def test_a_program_that_is_down_is_asked_once_more_when_patience_ends() -> None:
    rests = ProgramLimits(patience=timedelta(seconds=20))
    for _ in range(10):
        limit, _ = begin(rests, "p", "server", "down")
    assert limit.until == limit.gives_up_at == rests.down_since["p"] + rests.patience


def test_an_outage_is_parked_for_however_often() -> None:
    rests = ProgramLimits()
    parking = ParkedBeads(rests)
    for _ in range(3 * MOST_PARKED):
        begin(rests, "p", "server", "down")
        assert rests.is_down("p")
        assert parking.park("a", soon_(1), lasts=True) is not None
    assert parking.park("a", soon_(1)) is not None, "none of that counts as a limit"


def test_rests_are_over_by_themselves_and_are_named_once() -> None:
    rests = ProgramLimits()
    begin(rests, "p", "limit", "because", soon_(-1))
    begin(rests, "q", "limit", "because", soon_(60))
    assert rests.of("p") is None
    assert rests.limited
    assert rests.lift() == ["p"]
    assert rests.lift() == []


# --- how many at once -------------------------------------------------------------------------------


@given(st.integers(1, 64), st.lists(st.booleans()))
def test_places_are_halved_and_given_back_one_by_one(most: int, limits: list[bool]) -> None:
    width = Parallelism.of(most)
    for limit in limits:
        before = width.now
        changed = width.lower() if limit else width.widen()
        assert width.now == (max(before // 2, 1) if limit else min(before + 1, most))
        assert changed == (width.now != before)
    for _ in range(most):
        width.widen()
    assert width.now == most


# --- scope, budget, record --------------------------------------------------------------------------


def test_a_bead_that_cannot_be_read_is_in_scope_as_far_as_one_can_tell() -> None:
    broken = UnreadableBead("bd-x", {"metadata": {"team_name": "red"}}, ())
    assert Scope().may_hold(broken)
    assert Scope(teams=frozenset({"red"}), plan_file="p.md").may_hold(broken)
    assert not Scope(teams=frozenset({"blue"})).may_hold(broken)
    assert not Scope(beads=frozenset({"bd-y"})).may_hold(broken)
    assert not Scope(teams=frozenset({"red"})).may_hold(UnreadableBead("bd-x", {"metadata": "?"}, ()))


def test_budgets_are_named_when_used_up() -> None:
    assert Budget().used_up(Usage(10**9, 10**9, 0, 10.0**6), 10.0**9) == ""
    assert Budget(minutes=1.5).used_up(Usage(), 90) == "time budget (minutes) of 1.5 is used up"
    assert Budget(minutes=1.5).used_up(Usage(), 89) == ""
    assert "cost budget (USD) of 2" in Budget(cost_usd=2.0).used_up(Usage(cost_usd=2.0), 0)
    # What was read from a cache is no work.
    assert Budget(tokens=100).used_up(Usage(50, 49, 10**6), 0) == ""


def test_a_proof_is_of_what_the_bead_asks_for() -> None:
    bead = make_bead("bd-a")
    other = make_bead("bd-a", metadata={"dev_prompts": ["Something else"]})
    assert subject_of(bead) != subject_of(other)
    later = make_bead("bd-a", metadata={"attempt_count": 2, "pr_number": 7})
    assert subject_of(bead) == subject_of(later)
    agents = bead.metadata.to_json()["qa_agents"]
    in_session = make_bead("bd-a", metadata={"qa_agents": [{**row, "agent_id": "s-1"} for row in agents]})
    assert subject_of(bead) == subject_of(in_session)


def test_the_last_verdict_is_read_back_with_the_output() -> None:
    row = {"name": "tests", "kind": "verifier", "command": "x", "commit": "c", "ruling": "fail"}
    said = {
        "ruling": "fail",
        "message": "1 failed",
        "evidence": [{**row, "message": "exit", "output_tail": "E 1"}],
    }
    told = feedback_of(last_verdict=said, attempt_count=2)
    assert told is not None
    assert told.startswith("1 failed\n\ntests (attempt 2"), "an older version kept no findings of their own"
    assert told.endswith("): exit\nE 1")
    assert feedback_of(last_verdict={**said, "ruling": "pass"}) is None
    assert feedback_of() is None


def feedback_of(**state: object) -> str | None:
    bead = make_bead("bd-1-1-one")
    metadata = bead.metadata.changed(RunState.model_validate(state))
    return BeadHistory.of(bead.model_copy(update={"metadata": metadata}), "s").feedback


# --- journal and run folder -------------------------------------------------------------------------


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs" / "events.jsonl", "r1")
    journal.emit(BeadClosed(bead="bd-a", team="team", attempt=1, reason="ä\ud800"))
    journal.close()
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('not json\n{"kind": "bead_closed", "at": "')
    (event,) = read(journal.path)
    assert isinstance(event, BeadClosed)
    assert (event.bead, event.team, event.attempt, event.run_id) == ("bd-a", "team", 1, "r1")
    assert event.reason[0] == "ä"
    assert list(follow(journal.path, lambda: True)) == [event]
    assert list(read(tmp_path / "none")) == []


def test_a_full_disk_is_no_bug() -> None:
    journal = Journal(Path("/dev/full"), "r1")
    with pytest.raises(RalphError) as caught:
        journal.emit(RunStarted(max_parallel=1, actor="me"))
    assert caught.value.code == Code.WRITE_FAILED
    journal.close()


def test_every_job_has_a_transcript_of_its_own(tmp_path: Path) -> None:
    folder = runs.RunFolder(tmp_path, "r1")
    first = folder.transcript("bd-a", "a1-dev-1")
    first.out.touch()
    assert folder.transcript("bd-a", "a1-dev-1").out.name == "a1-dev-1-2.out"
    (tmp_path / "runs" / "r1" / "jobs" / "bd-b").touch()
    with pytest.raises(RalphError, match="cannot make"):
        folder.transcript("bd-b", "a1-dev-1")


def test_run_ids_sort_by_time(tmp_path: Path) -> None:
    ids = [runs.new_run_id() for _ in range(3)]
    assert [name[:18] for name in ids] == sorted(name[:18] for name in ids)
    for name in ids:
        (tmp_path / "runs" / name).mkdir(parents=True)
    latest = runs.latest(tmp_path)
    assert latest is not None
    assert latest.run_id == max(ids)


def test_looking_whether_a_loop_runs_never_keeps_one_from_starting(tmp_path: Path) -> None:
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            runs.is_running(tmp_path)

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for number in range(30):
            with runs.exclusive(tmp_path, f"r{number}"):
                assert json.loads((tmp_path / "run.lock").read_text("utf-8"))["run_id"] == f"r{number}"
    finally:
        done.set()
        for watcher in watchers:
            watcher.join()


def test_the_last_child_of_a_killed_run_is_waited_for_until_it_lets_go_of_the_lock(tmp_path: Path) -> None:
    """As one that was being started: it has its parent's files until it is a program of its own."""
    code = (
        "import os, signal, sys, time\nfrom pathlib import Path\nfrom beads_ralph.journal import runs\n"
        "with runs.exclusive(Path(sys.argv[1]), 'killed'):\n"
        "    if os.fork() == 0:\n        time.sleep(2 * runs.LOCK_SECONDS)\n        os._exit(0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with runs.exclusive(tmp_path, "next") as last:
        assert last is not None
        assert last.run_id == "killed"


def test_a_holder_that_lives_is_refused_at_once(tmp_path: Path) -> None:
    with (
        runs.exclusive(tmp_path, "first"),
        pytest.raises(RalphError, match="is running on this repository already"),
        runs.exclusive(tmp_path, "second", patience=0),
    ):
        pass


# --- threads ----------------------------------------------------------------------------------------


def test_a_cancellation_waits_for_what_a_thread_has_begun() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def change() -> None:
        begun.set()
        go.wait(30)
        ended.set()
        raise OSError("nobody hears this")

    async def story() -> None:
        task = asyncio.create_task(in_thread(change))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(story())

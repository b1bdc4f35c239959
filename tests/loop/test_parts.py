"""The smaller parts of a run, each by itself."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from beads_ralph import events, runs, verify
from beads_ralph.errors import Code, RalphError
from beads_ralph.events import Journal
from beads_ralph.jobs import Exit, Transcript
from beads_ralph.loop import Scope
from beads_ralph.loop.parking import MOST, Parking
from beads_ralph.models import Expectation, Verifier
from beads_ralph.protocols import UnreadableBead
from beads_ralph.team.record import last_feedback, subject_of
from beads_ralph.team.threads import in_thread
from beads_ralph.work import Budget, Usage
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


def test_gates_are_known_by_the_words_of_the_verifiers() -> None:
    verifiers = [
        Verifier(name="one", command="pytest ./tests/unit tests/test_a.py::test_x -q  # all"),
        Verifier(name="two", command="echo 'unbalanced"),
    ]
    changed = ["tests/unit/deep/x.py", "tests/test_a.py", "src/app.py", ".github/workflows/ci.yml", "q"]
    assert verify.gate_flags(changed, verifiers) == [
        "tests/unit/deep/x.py is named by a verifier, and was changed",
        "tests/test_a.py is named by a verifier, and was changed",
        ".github/workflows/ci.yml decides what passes, and was changed",
    ]
    assert verify.gate_flags(["tests/test_a.py"], verifiers, added=["tests/test_a.py"]) == []


# --- parking ----------------------------------------------------------------------------------------


def soon_(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_bead_waits_for_the_time_that_was_named() -> None:
    parking = Parking()
    assert parking.park("a", "claude", soon_(3600)) == parking.beads["a"]
    assert parking.holds("a", [])
    assert parking.holds("b", ["claude"])
    assert not parking.holds("b", ["codex"])
    assert not parking.lift()


def test_a_reset_time_that_is_always_past_does_not_spin() -> None:
    parking = Parking()
    pauses = []
    for _ in range(MOST):
        until = parking.park("a", "p", soon_(-10))
        assert until is not None
        pauses.append((until - datetime.now(UTC)).total_seconds())
    assert pauses[0] <= 0.0
    assert pauses[1] > 1.5
    assert pauses == sorted(pauses) or max(pauses) <= 3600.0
    assert parking.park("a", "p", soon_(-10)) is None, "some time a person should look"


def test_a_limit_without_a_time_is_waited_for_longer_each_time() -> None:
    parking = Parking()
    first, second = (parking.park("a", "p", word) for word in (None, "no time at all"))
    assert first is not None
    assert second is not None
    assert 50 < (first - datetime.now(UTC)).total_seconds() <= 60
    assert 100 < (second - datetime.now(UTC)).total_seconds() <= 120


def test_what_has_passed_is_forgotten() -> None:
    parking = Parking()
    parking.park("a", "p", soon_(-1))
    assert parking.lift()
    assert not parking
    assert not parking.lift()


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
    assert subject_of(bead.metadata.to_json()) != subject_of(other.metadata.to_json())
    later = make_bead("bd-a", metadata={"attempt_count": 2, "pr_number": 7})
    assert subject_of(bead.metadata.to_json()) == subject_of(later.metadata.to_json())


def test_the_last_verdict_is_read_back_with_the_output() -> None:
    row = {"name": "tests", "kind": "verifier", "command": "x", "commit": "c", "ruling": "fail"}
    said = {
        "ruling": "fail",
        "message": "1 failed",
        "evidence": [{**row, "message": "exit", "output_tail": "E 1"}],
    }
    assert last_feedback({"last_verdict": said}) == "1 failed\n\ntests: exit\n\nE 1"
    assert last_feedback({"last_verdict": {**said, "ruling": "pass"}}) is None
    assert last_feedback({}) is None


# --- journal and run folder -------------------------------------------------------------------------


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs" / "events.jsonl", "r1")
    journal.tell("bead_claimed", "bd-a", "team", 1, title="ä\ud800")
    journal.close()
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('not json\n{"kind": "bead_closed", "at": "')
    (event,) = events.read(journal.path)
    assert (event.kind, event.bead, event.attempt, event.data["title"][0]) == ("bead_claimed", "bd-a", 1, "ä")
    assert [one.kind for one in events.follow(journal.path, lambda: True)] == ["bead_claimed"]
    assert list(events.read(tmp_path / "none")) == []


def test_a_full_disk_is_no_bug() -> None:
    journal = Journal(Path("/dev/full"), "r1")
    with pytest.raises(RalphError) as caught:
        journal.tell("run_started")
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

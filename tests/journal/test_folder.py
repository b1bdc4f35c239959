"""The state folder: what is written when, and what a dead run leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from beads_ralph.journal.records import read_all
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.model import ResultRecord, RunRecord, json_schema
from tests.git.repos import git
from tests.journal import samples
from tests.loop.plans import soon

CHILD = """
import sys, time
from pathlib import Path
from beads_ralph.journal.records.folder import StateFolder
with StateFolder(Path(sys.argv[1])).live(sys.argv[2]):
    print("alive", flush=True)
    time.sleep(600)
"""


def run(**changes: Any) -> RunRecord:
    return RunRecord.model_validate(samples.run(**changes))


def running(**changes: Any) -> RunRecord:
    said = {"status": "running", "finished_at": None, "duration_seconds": None, "exit_code": None}
    return run(**{**said, **changes})


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.prepare()
    return folder


def files(state: StateFolder, name: str = "runs") -> list[str]:
    return sorted(path.name for path in (state.path / name).iterdir() if not path.name.startswith("."))


def test_s4_d1_the_schemas_lie_beside_the_records_and_are_kept_up_to_date(state: StateFolder) -> None:
    path = state.path / "schemas" / "run.schema.json"
    assert files(state, "schemas") == ["result.schema.json", "run.schema.json"]
    assert json.loads(path.read_text()) == json_schema("run")
    path.write_text("{}")
    state.prepare()
    Draft202012Validator(json.loads(path.read_text())).validate(samples.run())


def test_s4_d2_s4_b2_an_earlier_attempt_is_kept_beside_the_latest(state: StateFolder) -> None:
    for number in (1, 2, 3):
        state.begin(running(attempt=number))
        state.write(run(attempt=number))
        state.write(ResultRecord.model_validate(samples.result(attempt=number)))
    assert files(state) == ["bd-abc.attempt-1.json", "bd-abc.attempt-2.json", "bd-abc.json"]
    assert [one.attempt for one in read_all(state.path)] == [1, 2, 3]


def test_s4_d3_s4_b3_there_is_one_result_of_a_bead(state: StateFolder) -> None:
    for number in (1, 2):
        state.write(ResultRecord.model_validate(samples.result(attempt=number)))
    assert files(state, "results") == ["bd-abc.json"]
    last = state.last_result("bd-abc")
    assert last is not None
    assert last.attempt == 2


def test_s4_b2_an_attempt_that_was_not_judged_goes_on_in_its_record(state: StateFolder) -> None:
    extra = {"run_id": "r1", "role": "dev", "calls": [{"role": "dev", "agent": "claude"}]}
    state.begin(running(extra=extra))
    state.write(run(status="failed", failure_reason="agent-limit", extra=extra))
    later = {"started_at": "2026-02-11T15:00:00Z", "agent": "judge", "extra": {"role": "qa"}}
    state.begin(running(**later))
    [path] = files(state)
    raw = json.loads((state.path / "runs" / path).read_text())
    assert (raw["agent"], raw["extra"]["role"], raw["started_at"]) == ("claude", "dev", later["started_at"])
    [before] = raw["extra"]["broken_off"]
    assert (before["failure_reason"], before["run_id"], len(before["calls"])) == ("agent-limit", "r1", 1)


def test_a_bead_that_was_made_anew_loses_no_record(state: StateFolder) -> None:
    for day in (11, 12, 13):
        moment = {"started_at": f"2026-02-{day}T10:00:00Z"}
        state.begin(running(**moment))
        state.write(run(**moment))
        state.write(ResultRecord.model_validate(samples.result(**moment)))
    assert files(state) == ["bd-abc.attempt-1-2.json", "bd-abc.attempt-1.json", "bd-abc.json"]
    assert [one.latest for one in read_all(state.path)].count(True) == 1


def test_what_cannot_be_read_is_set_aside_and_not_overwritten(state: StateFolder) -> None:
    path = state.run_file("bd-abc")
    path.write_text("{half")
    state.begin(running())
    assert state.last_run("bd-abc") is not None
    assert path.with_name("bd-abc.json.bak").read_text() == "{half"


def test_a_bead_with_the_name_of_an_attempt_has_a_file_of_its_own(state: StateFolder) -> None:
    state.begin(running(bead="a"))
    state.write(run(bead="a"))
    state.write(ResultRecord.model_validate(samples.result(bead="a")))
    state.begin(running(bead="a", attempt=2))
    state.begin(running(bead="a.attempt-1"))
    assert files(state) == ["a.attempt-1.json", "a.attempt-1_.json", "a.json"]


def test_git_sees_no_record_but_everything_of_a_folder_that_was_there_before(repo: Path) -> None:
    (repo / "state" / "runs").mkdir(parents=True)
    (repo / "state" / "machine.py").write_text("mine\n")
    state = StateFolder(repo / "state")
    state.prepare()
    state.begin(running())
    seen = git(repo, "status", "--porcelain", "--untracked-files=all")
    assert sorted(seen.split()) == ["??", "??", "state/machine.py", "state/runs/bd-abc.json"]


# --- dead runs --------------------------------------------------------------------------------------


def test_what_a_killed_run_left_running_is_marked_and_a_living_one_is_left_alone(state: StateFolder) -> None:
    state.begin(running(bead="bd-dead", extra={"run_id": "dead"}))
    state.begin(running(bead="bd-gone", extra={"run_id": "gone"}))
    state.begin(running(bead="bd-alive", extra={"run_id": "alive"}))
    state.begin(running(bead="bd-foreign"))
    children = {
        name: subprocess.Popen(
            [sys.executable, "-c", CHILD, str(state.path), name], stdout=subprocess.PIPE, text=True
        )
        for name in ("dead", "alive")
    }
    try:
        for child in children.values():
            assert child.stdout is not None
            assert child.stdout.readline() == "alive\n"
        os.kill(children["dead"].pid, signal.SIGKILL)
        children["dead"].wait()
        assert sorted(one.bead for one in state.interrupt_stale()) == ["bd-dead", "bd-gone"]
    finally:
        for child in children.values():
            child.kill()
            child.communicate()
    dead, alive = state.last_run("bd-dead"), state.last_run("bd-alive")
    assert dead is not None
    assert (dead.status, dead.failure_reason, dead.duration_seconds) == ("failed", "interrupted", None)
    assert alive is not None
    assert alive.status == "running"
    assert state.last_run("bd-foreign") == running(bead="bd-foreign")


def test_whoever_reads_meanwhile_sees_whole_records(state: StateFolder) -> None:
    """The writer is killed at any moment; what is there can always be read."""
    writer = (
        "import sys, json\nfrom pathlib import Path\n"
        "from beads_ralph.journal.records.folder import StateFolder\n"
        "from beads_ralph.journal.records.model import RunRecord\n"
        "state = StateFolder(Path(sys.argv[1]))\nraw = json.loads(sys.argv[2])\nprint('up', flush=True)\n"
        "while True:\n    for size in (1, 100_000):\n"
        "        state.write(RunRecord.model_validate(raw | {'prompt_full': 'x' * size}))\n"
    )
    words = [sys.executable, "-c", writer, str(state.path), json.dumps(samples.run())]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        soon(lambda: state.last_run("bd-abc") is not None)
        sizes = set()
        for _ in range(300):
            found = state.last_run("bd-abc")
            assert found is not None
            sizes.add(len(found.prompt_full))
        assert sizes <= {1, 100_000}
    finally:
        child.kill()
        child.communicate()
    assert state.last_run("bd-abc") is not None

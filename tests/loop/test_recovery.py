"""After a kill: what is told late, what is swept, who is kept out, and who is blocked for killing the run."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import Interruption, RunState
from beads_ralph.files import text_files
from beads_ralph.journal import runs
from beads_ralph.journal.events import AgentStarted, BeadClaimed, VerdictGiven
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.keeper import Keeper
from beads_ralph.loop.recovery import deaths, may_join
from tests.beads import make_bead
from tests.loop.plans import Project, git, names, soon, sprint, work

ONE, TWO = sprint("1.1", "One", verify="`true`"), sprint("1.2", "Two")
BEAD, OTHER = "bd-1-1-one", "bd-1-2-two"


def as_if_killed(project: Project, *kinds: str) -> str:
    """Take back what the last run told and recorded after its close, as if it had been killed before that."""
    (run_id,) = project.run_ids()
    folder = runs.RunFolder(project.root / ".ralph", run_id)
    lines = folder.journal.read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["kind"] not in kinds]
    folder.journal.write_text("".join(kept), encoding="utf-8")
    (folder.path / runs.UNFINISHED).write_text(f"{runs.machine_start()}\n", encoding="utf-8")
    state = project.root / "state"
    path = state / "runs" / f"{BEAD}.json"
    record = json.loads(path.read_text("utf-8"))
    record |= {"status": "running", "finished_at": None, "duration_seconds": None}
    if "verdict_given" in kinds:
        record["extra"] = {
            key: said for key, said in record["extra"].items() if key not in ("ruling", "checks")
        }
    path.write_text(json.dumps(record), encoding="utf-8")
    (state / "results" / f"{BEAD}.json").unlink()
    return run_id


@pytest.mark.parametrize(
    "untold", [("bead_closed", "run_ended"), ("verdict_given", "bead_closed", "run_ended")]
)
def test_what_the_store_knows_is_told_late_and_recorded(repo: Path, untold: tuple[str, ...]) -> None:
    project = Project.make(repo, ONE)
    assert project.run().data["closed"] == [BEAD]
    killed = as_if_killed(project, *untold)
    assert project.ralph("status", "--json").data["cut_off"] == [killed]
    wrong = project.ralph("state", "validate", "--json")
    assert wrong.code == 1
    assert "the run record says running, the store says closed" in wrong.out
    assert project.run().data["ended"] == "done"
    late = [row for row in project.events() if row.get("derived") == killed]
    assert names(late, "kind") == [kind for kind in untold if kind != "run_ended"]
    assert project.ralph("state", "validate", "--json").code == 0
    record = json.loads((repo / "state" / "runs" / f"{BEAD}.json").read_text("utf-8"))
    assert (record["status"], record["duration_seconds"]) == ("done", None)
    assert record["extra"]["commit"] == project.metadata(BEAD)["proven"]["commit"]
    assert project.ralph("status", "--json").data["cut_off"] == []
    assert project.run().data["ended"] == "done"
    assert len(project.events("bead_closed")) == 1


def test_records_that_contradict_the_store_are_named(repo: Path) -> None:
    """Whoever changes the store behind the records' back."""
    project = Project.make(repo, ONE)
    project.run()
    other = {"commit": "0" * 40, "of": project.metadata(BEAD)["proven"]["of"]}
    with closing(sqlite3.connect(repo / ".ralph" / "beads.db")) as database, database:
        database.execute(
            "UPDATE beads SET metadata = json_set(metadata, '$.proven', json(?))", [json.dumps(other)]
        )
    wrong = project.ralph("state", "validate", "--json")
    assert wrong.code == 1
    assert "000000000000 was proven, the run record names" in wrong.out


# --- leftovers and locks ------------------------------------------------------------------------------


def test_only_what_dead_processes_left_is_swept(tmp_path: Path) -> None:
    left, held, foreign = (tmp_path / name for name in (".a.json.0123abcd.tmp", ".b.0123abcd.tmp", "c.tmp"))
    for path in (left, held, foreign):
        path.touch()
    with held.open("wb") as file:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        assert text_files.sweep(tmp_path) == [left]
    assert (held.exists(), foreign.exists()) == (True, True)


def test_a_run_sweeps_what_was_half_written_in_gits_folder(repo: Path) -> None:
    project = Project.make(repo, ONE)
    git(repo, "worktree", "add", "--quiet", "--detach", str(repo.parent / "kept"))
    quarantine = repo / ".git" / "beads-ralph" / "quarantine" / "gone"
    quarantine.mkdir(parents=True)
    left = repo / ".git" / "worktrees" / "kept" / ".beads-ralph-merging.0123abcd.tmp"
    half = quarantine / ".record.json.0123abcd.tmp"
    left.touch()
    half.touch()
    assert project.run().data["ended"] == "done"
    assert [path for path in (left, half) if path.exists()] == []


def test_a_second_loop_is_kept_out_although_the_lock_file_is_gone(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [{"hang": {}}]}})
    with project.running() as process:
        soon(lambda: project.events("agent_started"))
        (repo / ".ralph" / "run.lock").unlink()
        assert project.ralph("status", "--json").data["running"] is True
        second = project.run()
        assert second.code != 0
        assert second.error["code"] == "DATABASE.CONFLICT"
        process.kill()
        process.wait()


# --- agents that kill the run -------------------------------------------------------------------------


def run_and_die(project: Project, pid: Path) -> int:
    """Start the loop with its number in a file; how it ended."""
    with project.running("--max-parallel", "1") as process:
        pid.write_text(str(process.pid), encoding="utf-8")
        process.wait(120)
        return process.returncode


def test_an_agent_that_kills_the_run_each_time_is_blocked_and_the_others_go_on(repo: Path) -> None:
    pid, bead = repo.parent / "pid", "bd-1-1a-one"
    kills = f"until test -s {pid}; do sleep 0.05; done; kill -9 $(cat {pid}); sleep 60"
    script = {"1.1a": {"dev": [{"run": kills}]}, "1.1b": {"dev": work()}}
    both = sprint("1.1a", "One"), sprint("1.1b", "Other")
    project = Project.make(repo, *both, script=script, max_interruptions=2)
    for _ in range(2):
        assert run_and_die(project, pid) == -signal.SIGKILL
    ran = project.run()
    assert project.statuses() == {bead: "blocked", "bd-1-1b-other": "closed"}
    assert "killed 2 times in a row" in project.metadata(bead)["scrum_result"]["error"]
    assert ran.data["blocked"][0]["id"] == bead
    assert project.ralph("state", "validate", "--json").code == 0
    assert project.ralph("retry", bead, "--json").code == 0
    assert run_and_die(project, pid) == -signal.SIGKILL
    project.write_script({"*": {"dev": work()}})
    assert project.run().data["closed"] == [bead]


def test_kills_with_nobody_at_work_and_other_attempts_do_not_count() -> None:
    def row(attempt: int = 1, *, at_work: bool = True, blocked: bool | None = None) -> Interruption:
        return Interruption(run_id="r", attempt=attempt, at_work=at_work, blocked=blocked)

    assert deaths([row(), row(at_work=False), row()], 1) == 2
    assert deaths([row(1), row(1), row(2)], 2) == 1
    assert deaths([row(), row(), row(blocked=True), row()], 1) == 1
    assert deaths([Interruption(run_id="old", attempt=1)], 1) == 0


def test_a_failure_and_a_restart_of_the_machine_are_no_kill(tmp_path: Path) -> None:
    folder = runs.RunFolder(tmp_path, "r1")
    folder.path.mkdir(parents=True)
    with pytest.raises(OSError, match="full"):
        fail(folder)
    assert [left.run_id for left in runs.left_unfinished(tmp_path)] == ["r1"]
    assert not runs.was_killed(folder)
    (folder.path / runs.UNFINISHED).write_text("another start\n", encoding="utf-8")
    assert not runs.was_killed(folder)


def fail(folder: runs.RunFolder) -> None:
    with runs.unfinished(folder):
        assert runs.was_killed(folder)
        raise OSError("full")


def test_a_bead_that_one_more_kill_would_block_works_alone() -> None:
    def bead(number: int, kills: int) -> Bead:
        rows = [Interruption(run_id=f"r{at}", attempt=1, at_work=True) for at in range(kills)]
        made = make_bead(f"bd-{number}", metadata={"branch": f"feature/{number}"})
        return made.model_copy(update={"metadata": made.metadata.changed(RunState(interruptions=rows))})

    calm, suspect = bead(1, 1), bead(2, 2)
    assert may_join(suspect, [], 3)
    assert not may_join(suspect, [calm], 3)
    assert not may_join(calm, [suspect], 3)
    assert may_join(calm, [bead(3, 0)], 3)
    assert may_join(suspect, [calm], 0)


# --- clocks -------------------------------------------------------------------------------------------


def test_a_clock_that_is_set_while_an_attempt_lasts_does_not_change_how_long_it_took(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "events.jsonl", "r1")
    keeper = Keeper(StateFolder(tmp_path / "state"), tmp_path, "r1")
    with keeper.listening(journal):
        claimed: dict[str, Any] = {
            "title": "One",
            "bead_kind": "work",
            "plan_file": "p",
            "branch": "b",
            "max_attempts": 3,
        }
        journal.emit(BeadClaimed(bead=BEAD, attempt=1, **claimed))
        journal.emit(
            AgentStarted.from_row(
                {
                    "bead": BEAD,
                    "attempt": 1,
                    "at": "2026-01-01T00:00:00.000Z",
                    "run_id": "r1",
                    "role": "dev",
                    "agent": "a",
                    "program": "p",
                }
            )
        )
        verdict: dict[str, Any] = {
            "ruling": "fail",
            "message": "no",
            "flags": (),
            "will_retry": True,
            "checks": (),
        }
        journal.emit(VerdictGiven(bead=BEAD, attempt=1, at="2026-04-10T06:00:00.000Z", **verdict))
    journal.close()
    run = StateFolder(tmp_path / "state").last_run(BEAD)
    assert run is not None
    assert run.duration_seconds is not None
    assert run.duration_seconds < 3600

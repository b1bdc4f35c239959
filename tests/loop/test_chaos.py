"""Law 3: killed with SIGKILL at any moment, then run again: nothing is lost and nothing done twice."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bench import chaos, rehearsals
from bench.laws import Watch
from bench.rehearsals import Part, Rehearsal
from tests.cli.running import ralph

pytestmark = pytest.mark.full
KILLS = 10
SEED = 11
PATIENCE = 60.0


def test_law_3_a_loop_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    outcome = chaos.torment(tmp_path, kills=KILLS, seed=SEED, tracks=1)
    assert outcome.broken == []
    assert outcome.kills == KILLS
    assert outcome.closed == outcome.plans * outcome.beads


def test_law_4_a_run_killed_while_it_sweeps_leaves_that_to_the_next(tmp_path: Path) -> None:
    """The stray heeds no SIGTERM, so that the second run is still waiting for it when it is killed."""
    deaf = Part(
        "1.1", dev=[{"once": [{"hang": {"ignore_term": True}}]}, {"write": {"parts/1.1.txt": "part 1.1\n"}}]
    )
    rehearsal = rehearsals.stage(tmp_path / "app", [deaf], parallel=1)
    settings = rehearsal.root / "beads-ralph.yaml"
    settings.write_text(f"{settings.read_text('utf-8')}sandbox: none\n", "utf-8")  # which dies with its run
    rehearsal.git("commit", "--quiet", "--all", "--message", "No sandbox")
    transcripts = rehearsal.home / "runs"
    kill_when(
        rehearsal, lambda: any("hanging" in path.read_text("utf-8") for path in transcripts.rglob("*.out"))
    )
    lock = rehearsal.home / "run.lock"
    first = lock.read_text("utf-8")
    kill_when(rehearsal, lambda: lock.read_text("utf-8") not in ("", first))
    assert len(Watch(rehearsal).strays(alive="")) == 1
    assert ralph("run", "--json", cwd=rehearsal.root).data["ended"] == "done"
    assert Watch(rehearsal).strays(alive="") == []


def kill_when(rehearsal: Rehearsal, moment: Callable[[], bool]) -> None:
    """Start the loop, wait for the moment, and kill it."""
    with subprocess.Popen(rehearsal.command(), cwd=rehearsal.root, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + PATIENCE
        while not moment():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        process.kill()


# --- the harness itself: it would notice --------------------------------------------------------------


@pytest.fixture
def worked(tmp_path: Path) -> Rehearsal:
    """Two beads, worked through in peace."""
    rehearsal = rehearsals.stage(tmp_path / "app", [Part("1.1"), Part("1.2")], parallel=1)
    ran = ralph("run", rehearsals.PLAN, "--json", cwd=rehearsal.root)
    assert ran.data["ended"] == "done"
    return rehearsal


def change(rehearsal: Rehearsal, statement: str) -> None:
    with closing(sqlite3.connect(rehearsal.home / "beads.db")) as database, database:
        database.execute(statement)


def second_pull_request(rehearsal: Rehearsal) -> None:
    record = json.loads((rehearsal.home / "pulls" / "1.json").read_text("utf-8"))
    (rehearsal.home / "pulls" / "9.json").write_text(json.dumps({**record, "number": 9}), encoding="utf-8")


def moved_branch(rehearsal: Rehearsal) -> None:
    branch = rehearsal.git("for-each-ref", "--format=%(refname)", "refs/heads/feature").splitlines()[0]
    rehearsal.git("update-ref", branch, "refs/heads/main")


def lost_branch(rehearsal: Rehearsal) -> None:
    for ref in rehearsal.git(
        "for-each-ref", "--format=%(refname)", "refs/heads/feature", "refs/pull"
    ).splitlines():
        rehearsal.git("update-ref", "-d", ref)


def second_close(rehearsal: Rehearsal) -> None:
    path = rehearsal.journals()[0]
    closed = [line for line in path.read_text("utf-8").splitlines() if "bead_closed" in line]
    with path.open("a", encoding="utf-8") as journal:
        journal.write(closed[0] + "\n")


def second_claim(rehearsal: Rehearsal) -> None:
    path = rehearsal.journals()[0]
    lines = path.read_text("utf-8").splitlines()
    claimed = [line for line in lines if "bead_claimed" in line]
    path.write_text("\n".join([claimed[0], *lines]) + "\n", encoding="utf-8")


BREACHES: dict[str, tuple[Callable[[Rehearsal], None], str]] = {
    "second pull request": (second_pull_request, "has 2 pull requests"),
    "moved branch": (moved_branch, "but its branch has"),
    "lost commits": (lost_branch, "is in no branch any more"),
    "second close": (second_close, "was closed 2 times"),
    "second claim": (second_claim, "was claimed twice"),
    "reopened": (
        lambda r: change(r, "UPDATE beads SET status = 'open' WHERE id LIKE 'bd-1-2%'"),
        "was closed at",
    ),
    "nobody holds it": (
        lambda r: change(r, "UPDATE beads SET status = 'in_progress' WHERE id LIKE 'bd-1-2%'"),
        "nobody holds it",
    ),
    "wrong count": (lambda r: change(r, "UPDATE beads SET blockers = 7"), "7 blockers"),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_broken_law_is_noticed(breach: str, worked: Rehearsal) -> None:
    watch = Watch(worked)
    assert watch.look() == []
    spoil, words = BREACHES[breach]
    spoil(worked)
    assert any(words in problem for problem in watch.look())


def interrupted_record(rehearsal: Rehearsal) -> None:
    path = rehearsal.root / "state" / "runs" / "bd-1-2-part-1-2.json"
    said = {**json.loads(path.read_text("utf-8")), "status": "failed", "failure_reason": "interrupted"}
    path.write_text(json.dumps(said), encoding="utf-8")


def untold_close(rehearsal: Rehearsal) -> None:
    path = rehearsal.journals()[0]
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"bead_closed"' not in line), encoding="utf-8")


def half_written(rehearsal: Rehearsal) -> None:
    (rehearsal.root / "state" / "runs" / ".a.json.0123abcd.tmp").touch()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (interrupted_record, "the store says closed, the run record failed (interrupted)"),
        (untold_close, "nothing tells that"),
        (half_written, ".tmp is left"),
    ],
)
def test_records_that_differ_from_the_store_are_noticed(
    worked: Rehearsal, spoil: Callable[[Rehearsal], None], words: str
) -> None:
    watch = Watch(worked)
    spoil(worked)
    assert any(words in problem for problem in watch.last_look())


def test_a_process_of_a_dead_run_is_noticed(tmp_path: Path) -> None:
    rehearsal = Rehearsal(tmp_path, [])
    folder = rehearsal.home / "runs" / "dead-run"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").touch()
    with subprocess.Popen(
        ["sleep", "60"], env={"PATH": "/usr/bin:/bin", "BEADS_RALPH_RUN_ID": "dead-run"}
    ) as process:
        try:
            assert any(str(process.pid) in problem for problem in Watch(rehearsal).strays(alive=""))
            assert Watch(rehearsal).strays(alive="dead-run") == []
        finally:
            process.kill()

"""The loop killed at every point where it hurts, and run again: nothing lost, nothing done twice."""

from __future__ import annotations

import fcntl
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.loop.plans import Project, checkouts_of, git, names, passes, soon, sprint, work

ONE, TWO = sprint("1.1", "One"), sprint("1.2", "Two")
BEAD, BRANCH = "bd-1-1-one", "feature/1-1-one"


@contextmanager
def pulls_locked(repo: Path) -> Iterator[None]:
    """As long as this holds, nobody can open a pull request."""
    folder = repo / ".ralph" / "pulls"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def store_locked(repo: Path) -> Iterator[None]:
    """As long as this holds, nobody can write to the store."""
    with closing(sqlite3.connect(repo / ".ralph" / "beads.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


def kill_after(project: Project, kind: str) -> None:
    """Start the loop, and kill it as soon as it tells of something of that kind, or has ended."""
    seen = len(project.events(kind))
    with project.running("--max-parallel", "2") as process:
        soon(lambda: len(project.events(kind)) > seen or process.poll() is not None)
        process.kill()
        process.wait()


def assert_done_once(project: Project, *beads: str) -> None:
    """Every bead closed once, with one pull request at the commit that was proven."""
    assert set(project.statuses().values()) == {"closed"}
    assert sorted(names(project.events("bead_closed"))) == sorted(beads)
    pulls = project.pulls()
    for bead in map(project.bead, beads):
        assert bead.metadata.to_json()["proven"]["commit"] == pulls[bead.metadata.branch]
        assert git(project.root, "rev-parse", bead.metadata.branch) == pulls[bead.metadata.branch]
    project.assert_tidy()


def test_killed_while_an_agent_works(repo: Path) -> None:
    spawn = {"spawn": {"count": 2, "seconds": 600, "detached": True}}
    hang = {"once": [{"write": {"half.txt": "half\n"}}, spawn, {"hang": {"ignore_term": True}}]}
    project = Project.make(repo, ONE, TWO, script={"1.1": {"dev": [hang, *work()]}, "*": {"dev": work()}})
    with project.running() as process:
        soon((project.worktree(BRANCH) / "half.txt").exists)
        soon(lambda: len(project.strays()) >= 3)
        left = project.strays()
        process.send_signal(signal.SIGKILL)
        process.wait()
        ran = project.run()
        assert project.strays() == []
    assert ran.data["closed"] == [BEAD, "bd-1-2-two"]
    (ended,) = project.events("strays_ended")
    assert set(left) <= set(ended["pids"])
    assert project.metadata(BEAD)["attempt_count"] == 1
    assert git(repo, "show", f"{BRANCH}:half.txt") == "half"
    assert_done_once(project, BEAD, "bd-1-2-two")


@pytest.mark.parametrize("stage", ["verifier", "qa"])
def test_killed_while_the_work_is_checked(repo: Path, stage: str) -> None:
    mark = repo.parent / "mark"
    once = f"test -e {mark} || (touch {mark}; sleep 600)"
    verify = f"`{once}`" if stage == "verifier" else "`true`"
    qa = [{"run": once}] if stage == "qa" else []
    # The first look is the baseline's.
    if stage == "verifier":
        verify = f"`test ! -e {BEAD}.txt || {once}`"
    project = Project.make(
        repo, sprint("1.1", "One", verify=verify), script={"*": {"dev": work(), "qa": [*qa, *passes()]}}
    )
    with project.running() as process:
        soon(mark.exists)
        process.kill()
        process.wait()
        checks = checkouts_of(repo)
        assert len(checks) == 1
        ran = project.run()
    assert ran.data["closed"] == [BEAD]
    assert not checks[0].exists()
    assert len(project.metadata(BEAD)["interruptions"]) == 1
    assert_done_once(project, BEAD)


def test_killed_between_the_proof_and_the_pull_request(repo: Path) -> None:
    project = Project.make(repo, ONE)
    with pulls_locked(repo), project.running() as process:
        soon(lambda: project.events("verdict_given"))
        process.kill()
        process.wait()
        assert project.pulls() == {}
    assert project.statuses() == {BEAD: "in_progress"}
    ran = project.run()
    assert (ran.data["closed"], ran.data["attempts"]) == ([BEAD], 0)
    # What was proven is not worked on again.
    assert len(project.events("agent_started")) == 2
    assert project.metadata(BEAD)["attempt_count"] == 1
    assert "claude" in (repo / ".ralph" / "pulls" / "1.md").read_text("utf-8")
    assert_done_once(project, BEAD)


def test_killed_between_the_pull_request_and_the_close(repo: Path) -> None:
    project = Project.make(repo, ONE, TWO)
    with project.running() as process:
        with pulls_locked(repo):
            soon(lambda: project.events("verdict_given"))
            locked = store_locked(repo)
            locked.__enter__()
        soon(lambda: project.events("pull_request_opened"))
        process.kill()
        process.wait()
        locked.__exit__(None, None, None)
    assert project.statuses()[BEAD] == "in_progress"
    assert list(project.pulls()) == [BRANCH]
    ran = project.run()
    assert (ran.data["closed"], ran.data["attempts"]) == ([BEAD, "bd-1-2-two"], 1)
    assert len(project.events("agent_started", bead=BEAD)) == 2
    assert_done_once(project, BEAD, "bd-1-2-two")


def test_a_proof_of_other_tasks_proves_nothing(repo: Path) -> None:
    """Killed before the pull request; then the plan asks for something else."""
    project = Project.make(repo, ONE)
    with pulls_locked(repo), project.running() as process:
        soon(lambda: project.events("verdict_given"))
        process.kill()
        process.wait()
    project.ralph("release", BEAD, "--json")
    text = (repo / "plan.md").read_text("utf-8").replace("Do the work", "Do other work")
    (repo / "plan.md").write_text(text, encoding="utf-8")
    assert project.ralph("mason", "plan.md", "--update", "--json").code == 0
    ran = project.run()
    assert (ran.data["closed"], ran.data["attempts"]) == ([BEAD], 1)
    assert project.metadata(BEAD)["attempt_count"] == 2


def test_killed_again_and_again(repo: Path) -> None:
    beads = [sprint(f"1.1{letter}", f"Part {letter}") for letter in "abc"]
    project = Project.make(repo, *beads, sprint("1.2", "Merge all", type="merge"))
    for kind in ("bead_claimed", "worktree_prepared", "agent_ended", "verdict_given", "bead_closed"):
        kill_after(project, kind)
    ran = project.run()
    assert (ran.code, ran.data["ended"]) == (0, "done"), ran.out
    assert set(project.statuses().values()) == {"closed"}
    closed = names(project.events("bead_closed"))
    assert len(closed) == len(set(closed))
    assert len(project.pulls()) == 4
    project.assert_tidy()


def test_an_agent_that_is_killed_costs_one_attempt(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [[{"crash": "KILL"}], work()]}})
    ran = project.run()
    assert (ran.data["closed"], ran.data["attempts"]) == ([BEAD], 2)
    assert "was ended by signal 9" in project.feedback(BEAD)[1]

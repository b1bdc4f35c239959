"""What version 0.1 left behind, mid-way: today's program lists it, runs it, retries and closes it."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from beads_ralph.bead.run_state import RunState
from beads_ralph.journal import journal
from beads_ralph.loop.recovery import unrecorded
from tests.bead.samples import PROJECT
from tests.loop.plans import Project, sprint, work

LEFT = PROJECT / "tests" / "fixtures" / "v0.1"
CLOSED, BLOCKED, PARKED, OPEN = "bd-1-1a-closed", "bd-1-1b-blocked", "bd-1-1c-parked", "bd-1-2-open"
STATUSES = {CLOSED: "closed", BLOCKED: "blocked", PARKED: "open", OPEN: "open"}


def left_behind(root: Path, name: str) -> str:
    return (LEFT / name).read_text("utf-8").replace("@PLACE@", str(root.parent))


@pytest.fixture(params=["embedded", "bd"])
def project(request: pytest.FixtureRequest) -> Project:
    root: Path = request.getfixturevalue("bd_repo" if request.param == "bd" else "repo")
    made = Project.make(root, sprint("1.1a", "Closed"), script={"*": {"dev": work()}}, store=request.param)
    if request.param == "bd":
        assert made.ralph("doctor", "--json").code in (0, 1)
        file = root.parent / "left.jsonl"
        file.write_text(left_behind(root, "bd.jsonl"), "utf-8")
        subprocess.run(["bd", "import", str(file)], cwd=root, check=True, capture_output=True, timeout=120)
    else:
        (root / ".ralph").mkdir()
        with closing(sqlite3.connect(root / ".ralph" / "beads.db")) as database:
            database.executescript(left_behind(root, "embedded.sql"))
    return made


def test_everything_is_read_and_the_blocked_bead_is_retried_and_closed(project: Project) -> None:
    listed = project.ralph("list", "--json").data
    assert listed["unreadable"] == []
    assert {row["id"]: row["status"] for row in listed["beads"]} == STATUSES
    state: RunState = project.bead(PARKED).metadata
    assert state.parked is not None
    assert (state.parked.until or "") > "2090"
    before = project.bead(BLOCKED).metadata
    assert [call.attempt for call in before.dev_calls] == [1, 2]

    assert project.ralph("retry", BLOCKED, "--json").code == 0
    ran = project.ralph("run", "--once", "--bead", BLOCKED, "--json")
    assert (ran.code, ran.data["closed"]) == (0, [BLOCKED])
    after = project.bead(BLOCKED).metadata
    assert (after.attempt_count, after.attempts_forgiven) == (3, 2)
    assert after.proven is not None


def test_its_journal_is_read(repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(left_behind(repo, "events.jsonl"), "utf-8")
    assert {event.bead for event in journal.read(file) if event.bead} == {CLOSED, BLOCKED, PARKED}
    project = Project.make(repo, sprint("1.1c", "Parked"))
    assert project.ralph("mason", "plan.md", "--json").code == 0
    known = unrecorded(project.bead(PARKED), file)
    assert [call.trouble for call in known.dev_calls] == ["limit"]

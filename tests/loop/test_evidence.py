"""Beads that ask to be shown something, and beads that must be done by some time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need_bwrap
from tests.loop.plans import Project, work

BEAD = "gt-shown-1"
SHOW: dict[str, Any] = {"run": 'echo seen > "$BEADS_RALPH_EVIDENCE/seen.txt"'}


def imported(repo: Path, script: dict[str, Any], constraints: dict[str, Any], **settings: Any) -> Project:
    project = Project.make(repo, script={"*": script}, **settings)
    told = {
        "id": BEAD,
        "intent": "Write it",
        "dod": {"verifiers": [{"name": "there", "command": "ls *.txt"}], "evidence_required": True},
        "constraints": constraints,
    }
    path = repo.parent / "bead.json"
    path.write_text(json.dumps(told), encoding="utf-8")
    assert project.ralph("import", str(path)).code == 0
    return project


def run(project: Project) -> dict[str, Any]:
    return project.ralph("run", "--json").data


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_bead_that_asks_for_evidence_is_sent_back_until_there_is_some(repo: Path, sandbox: str) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    script = {"dev": [work(), [{"expect": "no evidence"}, SHOW, *work()]]}
    project = imported(repo, script, {"max_iterations": 3}, sandbox=sandbox)
    (repo / ".ralph" / "evidence" / BEAD).mkdir(parents=True)
    (repo / ".ralph" / "evidence" / BEAD / "old.txt").write_text("of yesterday", encoding="utf-8")
    assert run(project)["closed"] == [BEAD]
    metadata = project.metadata(BEAD)
    assert metadata["attempt_count"] == 2
    (row,) = [row for row in metadata["last_verdict"]["evidence"] if row["name"] == "evidence"]
    assert row["details"]["files"] == [f".ralph/evidence/{BEAD}/seen.txt"]


def test_without_evidence_a_bead_is_blocked_and_no_reviewer_is_asked(repo: Path) -> None:
    project = imported(repo, {"dev": work()}, {"max_iterations": 1})
    ended = run(project)
    assert ended["closed"] == []
    assert "evidence" in ended["blocked"][0]["reason"]
    assert [row["role"] for row in project.events("agent_started")] == ["dev"]


def test_after_its_deadline_no_attempt_begins(repo: Path) -> None:
    past = f"{datetime.now(UTC) - timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    project = imported(repo, {"dev": [SHOW, *work()]}, {"deadline": past})
    ended = run(project)
    assert (ended["closed"], ended["attempts"]) == ([], 0)
    assert f"the bead's deadline, {past}, has passed" in ended["blocked"][0]["reason"]


def test_an_agent_is_ended_at_the_deadline(repo: Path) -> None:
    soon = f"{datetime.now(UTC) + timedelta(seconds=8):%Y-%m-%dT%H:%M:%SZ}"
    project = imported(repo, {"dev": [{"hang": True}]}, {"deadline": soon})
    ended = run(project)
    assert ended["closed"] == []
    assert "has passed" in ended["blocked"][0]["reason"]
    assert project.strays() == []

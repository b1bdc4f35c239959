"""A close without any verifier is called reviewed, never proven, wherever it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beads_ralph.store.query import Query
from tests.loop.plans import Project, sprint

CHECKED, TRUSTED = "bd-1-1-checked", "bd-1-2-trusted"
BOTH = sprint("1.1", "Checked", verify="`ls *.txt`"), sprint("1.2", "Trusted")


def bodies(project: Project) -> dict[str, str]:
    """Branch → what its pull request says."""
    records = (project.root / ".ralph" / "pulls").glob("*.json")
    return {json.loads(path.read_text("utf-8"))["branch"]: path.read_text("utf-8") for path in records}


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def project(request: pytest.FixtureRequest) -> Project:
    place = request.getfixturevalue("bd_repo" if request.param == "bd" else "repo")
    return Project.make(place, *BOTH, store=request.param)


def test_a_close_on_review_alone_is_never_called_proven(project: Project) -> None:
    ran = project.ralph("run", "plan.md")
    assert ran.code == 0
    commits = {name: project.metadata(name)["proven"]["commit"] for name in (CHECKED, TRUSTED)}
    proven = f"proven on {commits[CHECKED][:12]}"
    reviewed = f"reviewed on {commits[TRUSTED][:12]}, no verifier ran"

    assert f"✓ {CHECKED}  {proven}\n" in ran.err
    assert f"✓ {TRUSTED}  {reviewed}\n" in ran.err
    assert "1 of the closed on review alone: no verifier ran" in ran.out

    events = {row["bead"]: row for row in project.events("bead_closed")}
    assert (events[CHECKED]["reason"], events[CHECKED]["standing"]) == (proven, "proven")
    assert (events[TRUSTED]["reason"], events[TRUSTED]["standing"]) == (reviewed, "reviewed")
    (ended,) = project.events("run_ended")
    assert ended["standing"] == {CHECKED: "proven", TRUSTED: "reviewed"}

    shown = project.ralph("show", TRUSTED).out
    assert reviewed in shown
    assert "proven" not in shown
    assert proven in project.ralph("show", CHECKED).out
    for words in (["show", CHECKED, TRUSTED], ["list"]):
        rows = project.ralph(*words, "--json").data["beads"]
        assert {row["id"]: row["standing"] for row in rows} == {CHECKED: "proven", TRUSTED: "reviewed"}
    listed = project.ralph("list").out
    assert "Trusted  (reviewed)" in listed
    assert "Checked  (" not in listed
    status = project.ralph("status", "--json").data
    assert (status["counts"], status["standing"]) == ({"closed": 2}, {"proven": 1, "reviewed": 1})
    assert "1 of the closed on review alone" in project.ralph("status").out

    said = bodies(project)
    assert "Reviewed, not proven: no verifier ran" in said["feature/1-2-trusted"]
    assert "not proven" not in said["feature/1-1-checked"]


def test_what_nobody_has_judged_has_no_standing(repo: Path) -> None:
    project = Project.make(repo, *BOTH)
    assert project.ralph("mason", "plan.md").code == 0
    project.store.claim(CHECKED, "somebody")
    project.store.close(CHECKED, "somebody", "by hand")
    (bead,) = project.store.find(Query(ids=[CHECKED])).beads
    assert bead.metadata.standing is None
    rows = project.ralph("list", "--json").data["beads"]
    assert all("standing" not in row for row in rows)
    assert project.ralph("status", "--json").data["standing"] == {}


# --- before the work begins -----------------------------------------------------------------------------


def test_a_rehearsal_counts_what_would_be_closed_on_review_alone(repo: Path) -> None:
    project = Project.make(repo, *BOTH)
    found = project.run("--dry-run").data
    assert (found["waves"], found["without_verifier"]) == ([[CHECKED], [TRUSTED]], [TRUSTED])
    assert "1 bead would be closed on review alone" in project.ralph("run", "plan.md", "--dry-run").out


def test_a_rehearsal_says_nothing_where_every_bead_has_a_verifier(repo: Path) -> None:
    project = Project.make(repo, *BOTH, plan_settings={"verify": ["true"]})
    assert project.run("--dry-run").data["without_verifier"] == []
    assert "review alone" not in project.ralph("run", "plan.md", "--dry-run").out


def test_a_merge_is_checked_by_the_verifiers_of_what_it_merges(repo: Path) -> None:
    """As the run does it: what is foreseen and what comes of it are the same."""
    sprints = [
        sprint("1.1a", "Left", verify="`ls *.txt`"),
        sprint("1.1b", "Right"),
        sprint("1.2", "Merge all"),
    ]
    project = Project.make(repo, *sprints)
    assert project.run("--dry-run").data["without_verifier"] == ["bd-1-1b-right"]
    assert project.run().data["standing"] == {
        "bd-1-1a-left": "proven",
        "bd-1-1b-right": "reviewed",
        "bd-1-2-merge-all": "proven",
    }

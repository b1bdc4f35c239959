"""A half-done plan is taken over: what it marks as done is closed on its word, and the rest is worked on. And
back: what has become of the sprints is written into the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import beads_ralph
from beads_ralph import RunRequest
from beads_ralph.bead.standing import standing
from beads_ralph.journal.events import Event
from tests.cli.running import Ran, write
from tests.compile.plans import plan
from tests.loop.plans import Project, sprint

Make = Callable[..., Project]
ALPHA, BETA, GAMMA, DELTA = "bd-1-1-alpha", "bd-1-2-beta", "bd-1-3-gamma", "bd-1-4-delta"
DONE = "**Status**: ✅ COMPLETED\n\n**Tasks**"


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def make(request: pytest.FixtureRequest) -> Make:
    kind: str = request.param
    root: Path = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")
    return lambda *sprints, **settings: Project.make(root, *sprints, store=kind, forge="none", **settings)


def completed(text: str) -> str:
    return text.replace("**Tasks**", DONE)


def ticked(text: str) -> str:
    return text.replace("- Do", "- [x] Do")


def struck(text: str) -> str:
    heading, rest = text.split("\n", 1)
    return f"### ~~{heading.removeprefix('### ')}~~\n{rest}"


def half_done(project: Project) -> Path:
    rows = (
        struck(sprint("1.1", "Alpha")),
        completed(sprint("1.2", "Beta")),
        ticked(sprint("1.3", "Gamma", tasks=["Do it", "Do more"])),
        sprint("1.4", "Delta"),
    )
    return write(project.root / "plan.md", plan(*rows, front_matter=""))


def adopt(project: Project, *words: str) -> Ran:
    return project.ralph("mason", "plan.md", "--adopt", *words, "--json")


def test_what_a_plan_marks_as_done_is_closed_and_the_rest_is_worked_on(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"))
    path = half_done(project)
    data = adopt(project).data
    assert (data["adopted"], data["warnings"]) == ([ALPHA, BETA, GAMMA], [])
    assert data["bead_ids"] == [ALPHA, BETA, GAMMA, DELTA]
    assert standing(project.bead(BETA).to_json()["metadata"]) == "accepted"
    assert adopt(project).data["adopted"] == [], "a second time nothing"
    assert project.ralph("run", "plan.md").code == 0
    assert [row["bead"] for row in project.events("bead_closed")] == [DELTA]
    project.ralph("plan", "status", "plan.md", "--write")
    text = path.read_text("utf-8")
    assert "### ~~Sprint 1.1: Alpha~~" in text
    assert "**Status**: ✔ closed (accepted)" in text
    assert "**Status**: ✔ closed (reviewed)" in text
    found = project.ralph("plan", "diff", "plan.md", "--json").data
    assert (found["changed"], found["added"]) == ([], []), "marks are no edits"


def test_a_mark_before_what_is_not_done_is_refused_and_nothing_goes_in(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), completed(sprint("1.2", "Beta")))
    ran = adopt(project)
    assert ran.code == 1
    assert "1.2 is marked as done" in ran.error["message"]
    assert "1.1" in ran.error["message"]
    assert project.ralph("list", "--json").data["beads"] == []


def test_without_being_asked_nothing_is_adopted(repo: Path) -> None:
    project = Project.make(repo, completed(sprint("1.1", "Alpha")))
    ran = project.ralph("mason", "plan.md", "--json")
    assert project.bead(ALPHA).status == "open"
    assert "--adopt" in ran.data["warnings"][0]["message"]


def test_a_run_marks_the_plan_where_that_is_set(repo: Path) -> None:
    project = Project.make(repo, ticked(sprint("1.1", "Alpha")).replace("[x]", "[ ]"), write_plan_status=True)
    assert project.ralph("run", "plan.md").code == 0
    text = (project.root / "plan.md").read_text("utf-8")
    assert "**Status**: ✔ closed (reviewed)" in text
    assert "- [x] Do" in text
    assert project.ralph("run", "plan.md").code == 0
    assert (project.root / "plan.md").read_text("utf-8") == text


def test_the_status_of_a_plan_names_every_sprint(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    project.ralph("mason", "plan.md", "--sprint-filter", "1.1")
    rows = project.ralph("plan", "status", "plan.md", "--json").data["sprints"]
    assert [(row["sprint"], row["bead"], row["status"]) for row in rows] == [
        ("1.1", ALPHA, "open"),
        ("1.2", None, "missing"),
    ]
    before = (project.root / "plan.md").read_bytes()
    assert project.ralph("plan", "status", "plan.md", "--write", "--json").data["written"] is False
    assert (project.root / "plan.md").read_bytes() == before


# --- edits while a run is on --------------------------------------------------------------------------


@pytest.mark.parametrize("watches", [True, False])
def test_a_sprint_that_is_added_while_its_plan_runs_is_worked_on_where_edits_are_taken_up(
    repo: Path, watches: bool
) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), sprint("1.3", "Gamma"))
    path = project.root / "plan.md"

    def edit(event: Event) -> None:
        if event.kind == "verdict_given" and event.bead == ALPHA:
            path.write_text(f"{path.read_text('utf-8')}\n{sprint('1.2', 'Beta')}", "utf-8")

    request = RunRequest(plan=path, watch_plan=watches)
    ended = beads_ralph.run(request, start=repo, on_event=edit)
    messages = [row["message"] for row in project.events("warning_given")]
    told = [message for message in messages if "the plan was edited" in message]
    if watches:
        assert (ended.why, ended.closed) == ("done", (ALPHA, BETA, GAMMA))
        assert told == [f"the plan was edited: new: {BETA}; changed: {GAMMA}"]
    else:
        assert (ended.why, ended.closed, told) == ("plan_differs", (ALPHA, GAMMA), [])


def test_an_edit_with_a_fault_is_told_and_the_run_goes_on(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    path = project.root / "plan.md"

    def edit(event: Event) -> None:
        if event.kind == "verdict_given" and event.bead == ALPHA:
            path.write_text(f"{path.read_text('utf-8')}\n### Sprint 1.2: Beta again\n", "utf-8")

    ended = beads_ralph.run(RunRequest(plan=path, watch_plan=True), start=repo, on_event=edit)
    assert (ended.why, ended.closed) == ("plan_differs", (ALPHA, BETA))
    assert any("is not taken up" in row["message"] for row in project.events("warning_given"))

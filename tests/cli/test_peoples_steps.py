"""Steps for people in list, ready, status, show, close and a dry run, on both stores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.items import Item
from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, sprint

PLAIN = {
    "formula": "release",
    "steps": [
        {"id": "notes", "title": "Write the notes", "labels": ["docs"]},
        {"id": "sign", "title": "Sign them", "needs": ["notes"]},
        {"id": "tell", "title": "Tell everybody", "needs": ["sign"], "gate": {"type": "human"}},
    ],
}
Make = Callable[..., Project]


@pytest.fixture(params=["embedded", pytest.param("bd", marks=[pytest.mark.bd])])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a project with a formula whose steps are all for people, on one store and then on the other."""
    kind: str = request.param
    root = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")

    def made(*sprints: str) -> Project:
        project = Project.make(root, *sprints, store=kind)
        folder = root / ".beads" / "formulas"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "release.formula.json").write_text(json.dumps(PLAIN), "utf-8")
        return project

    return made


def told(project: Project, *words: str) -> Any:
    ran = project.ralph(*words, "--json")
    assert ran.code == 0, ran.err
    return ran.data


def by_title(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["title"]: row for row in rows}


def test_poured_steps_for_people_are_seen_done_and_gone(make: Make) -> None:
    project = make()
    poured = told(project, "pour", "release")
    rows = by_title(told(project, "list")["people"])
    assert {row["id"] for row in rows.values()} == {*poured["bead_ids"]}
    notes, sign, tell = rows["Write the notes"], rows["Sign them"], rows["Tell everybody"]
    gate = next(row for row in rows.values() if row["type"] == "gate")
    assert (notes["waits_for"], notes["command"]) == ([], f"beads-ralph close {notes['id']}")
    assert (sign["waits_for"], sign["command"]) == ([notes["id"]], None)
    assert set(tell["waits_for"]) == {sign["id"], gate["id"]}
    assert [row["title"] for row in told(project, "list", "--label", "docs")["people"]] == ["Write the notes"]

    doable = told(project, "ready")
    assert doable["beads"] == []
    assert {row["id"] for row in doable["people"]} == {notes["id"], gate["id"]}
    assert {row["id"] for row in told(project, "status")["people"]} == {row["id"] for row in rows.values()}
    assert {row["id"] for row in told(project, "run", "--dry-run")["people"]} == {*poured["bead_ids"]}
    (shown,) = told(project, "show", sign["id"])["items"]
    assert (shown["for_a_person"], shown["waits_for"], shown["command"]) == (True, [notes["id"]], None)

    closed = told(project, "close", notes["id"])
    assert {row["id"] for row in closed["people"]} == {sign["id"], gate["id"]}
    assert told(project, "list", "--status", "closed")["people"][0]["id"] == notes["id"]
    for name in (sign["id"], gate["id"]):
        told(project, "close", name)
    last = told(project, "close", tell["id"])
    assert last["people"] == []
    assert [row["id"] for row in last["settled"]["closed"]] == poured["molecules_created"]
    assert told(project, "ready")["people"] == told(project, "status")["people"] == []


def test_people_read_what_is_theirs(repo: Path) -> None:
    project = Project.make(repo)
    project.store.create(
        [
            Item(id="bd-mol", title="A release", issue_type="molecule"),
            Item(id="bd-sign", title="Sign it", issue_type="task", parent="bd-mol", assignee="ann"),
            Item(id="bd-tell", title="Tell", issue_type="task", parent="bd-mol", dependencies=["bd-sign"]),
        ]
    )
    listed = project.ralph("list").out
    assert "for people" in listed
    assert "no beads yet" not in listed
    assert "Tell  (waits for bd-sign)" in listed
    ready = project.ralph("ready").out
    assert "Sign it  (ann)" in ready
    assert "Tell" not in ready
    assert "→ when it is done: beads-ralph close bd-sign" in ready
    status = project.ralph("status").out
    assert "2 steps for people, 1 of them can be done now" in status
    assert "→ beads-ralph close bd-sign" in status
    assert "→ when it is done: beads-ralph close bd-sign" in project.ralph("show", "bd-sign").out
    assert "not yet: bd-sign must be closed before it" in project.ralph("show", "bd-tell").out
    rehearsed = project.ralph("run", "--dry-run").out
    assert "○ for a person: bd-sign  Sign it; then: beads-ralph close bd-sign" in rehearsed
    assert "nothing is left for agents to do" in rehearsed
    signed = project.ralph("close", "bd-sign").out
    assert "○ for a person: bd-tell  Tell" in signed
    assert signed.rstrip().endswith("→ beads-ralph ready"), signed
    assert project.ralph("close", "bd-tell").out.rstrip().endswith("→ nothing is left to do")


def test_steps_wait_for_beads_and_for_what_their_epic_waits_for(make: Make) -> None:
    project = make(sprint("1.1", "One"))
    told(project, "mason", "plan.md")
    first = "bd-1-1-one"
    project.store.create(
        [
            Item(id="bd-mol", title="A release", issue_type="molecule"),
            Item(id="bd-epic", title="After it", issue_type="epic", parent="bd-mol", dependencies=[first]),
            Item(id="bd-sign", title="Sign it", issue_type="task", parent="bd-epic"),
            Item(id="bd-clock", title="A day", issue_type="gate", metadata={"gate": {"type": "timer"}}),
            Item(id="bd-mine", title="Buy milk", issue_type="task"),
        ]
    )
    rows = told(project, "list")["people"]
    assert [(row["id"], row["waits_for"]) for row in rows] == [("bd-sign", [first])]
    assert told(project, "ready")["people"] == []
    assert told(project, "run", "plan.md", "--dry-run")["people"] == [], "no step of that plan"
    store = project.store
    assert store.claim(first, "worker").won
    store.close(first, "worker", "done")
    assert [row["id"] for row in told(project, "ready")["people"]] == ["bd-sign"]


def test_what_a_bead_waits_for_is_work_for_people_wherever_it_lies(make: Make) -> None:
    project = make(sprint("1.1", "One"))
    told(project, "mason", "plan.md")
    project.store.create([Item(id="bd-ask", title="Ask legal", issue_type="task")])
    project.store.update("bd-1-1-one", Changes(dependencies=["bd-ask"]))
    assert [row["id"] for row in told(project, "ready")["people"]] == ["bd-ask"]
    assert [row["id"] for row in told(project, "list")["people"]] == ["bd-ask"]


# --- plain steps for agents -------------------------------------------------------------------------


def test_plain_steps_that_are_handed_to_agents_are_worked_on(make: Make) -> None:
    project = make()
    seen = told(project, "pour", "release", "--for-agents", "--dry-run")
    made = {row["title"]: row for row in seen["beads"]}
    assert made["Sign them"]["issue_type"] == "beads-ralph-work"
    assert [spec["executable"] for spec in made["Sign them"]["metadata"]["dev_agents"]] == ["scripted"]
    poured = told(project, "pour", "release", "--for-agents")
    assert poured["poured_by"] == "beads-ralph"
    (gate,) = told(project, "list")["people"]
    ran = project.ralph("run", "--json")
    assert [project.bead(name).title for name in ran.data["closed"]] == ["Write the notes", "Sign them"]
    told(project, "close", gate["id"])
    ran = project.ralph("run", "--json")
    assert [project.bead(name).title for name in ran.data["closed"]] == ["Tell everybody"]
    assert [row["id"] for row in ran.data["finished"]] == poured["molecules_created"]


def test_who_does_plain_steps_is_said_by_the_pour_or_the_settings(repo: Path) -> None:
    how = {"release": {"for_agents": True, "agent": "claude (opus)"}}
    checks = {"verify": ["true"]}
    project = Project.make(repo, formulas=how, plan_settings=checks)
    folder = repo / ".beads" / "formulas"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "release.formula.json").write_text(json.dumps(PLAIN), "utf-8")

    def models(*words: str) -> set[str | None]:
        rows = told(project, *words, "release", "--dry-run")["beads"]
        beads = [row for row in rows if row["issue_type"] == "beads-ralph-work"]
        assert all(row["metadata"]["dod"]["verifiers"][0]["command"] == "true" for row in beads)
        assert len(beads) == 3
        return {spec.get("model") for row in beads for spec in row["metadata"]["dev_agents"]}

    assert models("pour") == {"opus"}
    assert models("wisp", "pour", "--for-agents") == {"opus"}
    assert models("pour", "--agent", "claude (haiku)") == {"haiku"}
    wrong = project.ralph("pour", "release", "--agent", "two words", "--json")
    assert (wrong.code, wrong.error["code"]) == (2, "USAGE.INVALID")

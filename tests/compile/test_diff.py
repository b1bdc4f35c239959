"""An edited plan against the store: what changes, what stays, and what is never touched."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.model import Bead
from beads_ralph.compile import apply, diff, load
from beads_ralph.errors import Code, RalphError
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.cli.running import Ran, compiled_here, dump, mason, ralph, tree, write
from tests.compile.plans import plan, sprint

START, LEFT, RIGHT, LAST = (
    sprint("1.1", "Start"),
    sprint("1.2a", "Left"),
    sprint("1.2b", "Right"),
    sprint("1.3", "Last"),
)
IDS = ["bd-1-1-start", "bd-1-2a-left", "bd-1-2b-right", "bd-1-3-last"]


@pytest.fixture
def plan_file(repo: Path) -> Path:
    """Compiled already."""
    return compiled_here(repo, plan(START, LEFT, RIGHT, LAST))


def rows(repo: Path, bead_id: str) -> list[str]:
    """All that the database says of one bead, and only of it."""
    return [line for line in dump(repo) if f"'{bead_id}'" in line and "INSERT" in line]


def bead(repo: Path, bead_id: str) -> Bead:
    return EmbeddedStore(repo).show(bead_id)


def found(plan_file: Path, repo: Path) -> dict[str, Any]:
    return ralph("plan", "diff", plan_file, "--json", cwd=repo).data


def update(plan_file: Path, repo: Path, *words: str) -> Ran:
    return mason(plan_file, "--update", *words, cwd=repo)


# --- plan diff --------------------------------------------------------------------------------------


def test_a_plan_that_was_just_compiled_differs_in_nothing(repo: Path, plan_file: Path) -> None:
    before = tree(repo)
    assert found(plan_file, repo) == {
        "store": "embedded",
        "added": [],
        "changed": [],
        "orphaned": [],
        "unchanged": IDS,
    }
    assert "agrees with the plan" in ralph("plan", "diff", plan_file, cwd=repo).out
    data = update(plan_file, repo).data
    assert data["database_status"] == "unchanged"
    assert tree(repo) == before


def test_diff_names_what_is_added_changed_and_orphaned_and_changes_nothing(
    repo: Path, plan_file: Path
) -> None:
    write(plan_file, plan(sprint("1.1", "Begin", priority="0"), LEFT, LAST, sprint("2.1", "New")))
    before = tree(repo)
    data = found(plan_file, repo)
    (added,) = data["added"]
    assert added == {"bead_id": "bd-2-1-new", "sprint": "2.1", "title": "New", "status": "open"}
    (gone,) = data["orphaned"]
    assert (gone["bead_id"], gone["locked"]) == ("bd-1-2b-right", False)
    changed = {row["bead_id"]: row for row in data["changed"]}
    assert set(changed) == {"bd-1-1-start", "bd-1-3-last"}
    fields = changed["bd-1-1-start"]["fields"]
    assert fields["title"] == {"stored": "Start", "planned": "Begin"}
    assert fields["priority"] == {"stored": 1, "planned": 0}
    assert changed["bd-1-3-last"]["fields"]["dependencies"] == {
        "stored": ["bd-1-2a-left", "bd-1-2b-right"],
        "planned": ["bd-1-2a-left"],
    }
    text = ralph("plan", "diff", plan_file, cwd=repo).out
    for word in ("+ bd-2-1-new", "~ bd-1-1-start", "- bd-1-2b-right"):
        assert word in text
    assert tree(repo) == before


# --- mason --update ---------------------------------------------------------------------------------


def test_an_edited_title_keeps_id_branch_worktree_and_team(repo: Path, plan_file: Path) -> None:
    old = bead(repo, "bd-1-1-start").metadata
    write(plan_file, plan(sprint("1.1", "A much better name"), LEFT, RIGHT, LAST))
    data = update(plan_file, repo).data
    assert (data["beads_updated"], data["beads_created"]) == (["bd-1-1-start"], 0)
    new = bead(repo, "bd-1-1-start")
    assert new.title == "A much better name"
    assert new.metadata.plan_section == "### Sprint 1.1: A much better name"
    for name in ("branch", "worktree_path", "team_name"):
        assert getattr(new.metadata, name) == getattr(old, name), name


def test_an_update_brings_the_store_to_the_plan_and_a_second_one_finds_nothing(
    repo: Path, plan_file: Path
) -> None:
    edited = plan(
        sprint("1.1", "Begin", tasks=["One", "Two"], labels="urgent", priority="2"),
        sprint("1.2a", "Left", verify="`true`", acceptance_criteria="Works", branch="`feature/left`"),
        RIGHT,
        sprint("1.3", "Merge of both"),
        sprint("2.1", "More", depends_on="1.1"),
    )
    write(plan_file, edited)
    data = update(plan_file, repo).data
    assert data["database_status"] == "updated"
    assert data["bead_ids"] == ["bd-2-1-more"]
    assert sorted(data["beads_updated"]) == ["bd-1-1-start", "bd-1-2a-left", "bd-1-3-last"]
    assert bead(repo, "bd-1-3-last").issue_type == "beads-ralph-merge"
    assert bead(repo, "bd-1-2a-left").metadata.dod is not None

    before = tree(repo)
    again = found(plan_file, repo)
    assert (again["added"], again["changed"], again["orphaned"]) == ([], [], [])
    assert sorted(again["unchanged"]) == [*IDS, "bd-2-1-more"]
    assert update(plan_file, repo).data["database_status"] == "unchanged"
    assert tree(repo) == before


def test_what_leaves_the_plan_leaves_the_bead(repo: Path, plan_file: Path) -> None:
    extra = sprint("1.1", "Start", verify="`true`", acceptance_criteria="Works", template="docs")
    write(plan_file, plan(extra, LEFT, RIGHT, LAST))
    update(plan_file, repo)
    assert bead(repo, "bd-1-1-start").metadata.template == "docs"
    write(plan_file, plan(START, LEFT, RIGHT, LAST))
    update(plan_file, repo)
    metadata = bead(repo, "bd-1-1-start").metadata
    assert (metadata.dod, metadata.acceptance_criteria, metadata.template) == (None, None, None)
    assert update(plan_file, repo).data["database_status"] == "unchanged"


def test_what_a_run_has_written_survives_an_update(repo: Path, plan_file: Path) -> None:
    store = EmbeddedStore(repo)
    written = {"attempt_count": 2, "pr_url": "https://example.com/1", "docker_image": "python:3"}
    store.update("bd-1-1-start", Changes(metadata=written))
    assert found(plan_file, repo)["changed"] == []
    write(plan_file, plan(sprint("1.1", "Begin"), LEFT, RIGHT, LAST))
    update(plan_file, repo)
    metadata = bead(repo, "bd-1-1-start").metadata
    assert (metadata.attempt_count, metadata.pr_url, metadata.docker_image) == (
        2,
        "https://example.com/1",
        "python:3",
    )


@pytest.mark.parametrize("end", ["claimed", "closed"])
@pytest.mark.parametrize("edit", ["changed", "removed"])
def test_work_that_runs_or_is_done_is_not_touched_by_a_byte(
    repo: Path, plan_file: Path, end: str, edit: str
) -> None:
    store = EmbeddedStore(repo)
    assert store.claim("bd-1-1-start", "worker").won
    if end == "closed":
        store.close("bd-1-1-start", "worker", "done")
    before = rows(repo, "bd-1-1-start")
    assert before
    edited = [sprint("1.1", "Begin", labels="new")] if edit == "changed" else []
    write(plan_file, plan(*edited, LEFT, RIGHT, LAST))
    data = update(plan_file, repo).data
    assert data["beads_left_alone"] == ["bd-1-1-start"]
    assert data["beads_orphaned"] == []
    assert "bd-1-1-start" not in data["beads_updated"]
    # Rows of others that wait for it no more are not its own.
    after = [row for row in rows(repo, "bd-1-1-start") if "dependencies" not in row]
    assert after == [row for row in before if "dependencies" not in row]
    assert "left alone" in ralph("mason", plan_file, "--update", cwd=repo).out


def test_an_orphan_is_blocked_labelled_and_told_but_never_closed(repo: Path, plan_file: Path) -> None:
    write(plan_file, plan(START, LEFT, LAST))
    data = update(plan_file, repo).data
    assert data["beads_orphaned"] == ["bd-1-2b-right"]
    orphan = bead(repo, "bd-1-2b-right")
    assert (orphan.status, orphan.closed_at) == ("blocked", None)
    assert orphan.labels == ["phase-01", "sprint-1-2b", "orphaned"]
    (comment,) = orphan.comments
    assert isinstance(comment, dict)
    assert comment["author"] == "beads-mason"
    assert "1.2b" in comment["text"]

    before = tree(repo)
    assert found(plan_file, repo)["orphaned"] == []
    assert update(plan_file, repo).data["beads_orphaned"] == []
    assert tree(repo) == before


def test_an_orphan_whose_sprint_comes_back_is_open_again(repo: Path, plan_file: Path) -> None:
    write(plan_file, plan(START, LEFT, LAST))
    update(plan_file, repo)
    write(plan_file, plan(START, LEFT, RIGHT, LAST))
    data = update(plan_file, repo).data
    assert (data["beads_created"], "bd-1-2b-right" in data["beads_updated"]) == (0, True)
    back = bead(repo, "bd-1-2b-right")
    assert (back.status, back.labels) == ("open", ["phase-01", "sprint-1-2b"])
    assert bead(repo, "bd-1-3-last").dependencies == ["bd-1-2a-left", "bd-1-2b-right"]


def test_beads_of_a_suffixed_run_are_no_orphans(repo: Path, plan_file: Path) -> None:
    """Their sprints are in the plan; only another run of mason made them."""
    twins = mason(plan_file, "--id-suffix", "run2", cwd=repo).data["bead_ids"]
    before = dump(repo)
    assert found(plan_file, repo)["orphaned"] == []
    assert update(plan_file, repo).data["beads_orphaned"] == []
    assert dump(repo) == before
    assert all(bead(repo, name).status == "open" for name in twins)


def test_beads_of_other_plans_are_not_touched(repo: Path, plan_file: Path) -> None:
    other = write(repo / "other.md", plan(sprint("5.1", "Elsewhere")))
    mason(other, cwd=repo)
    before = rows(repo, "bd-5-1-elsewhere")
    write(plan_file, plan(START))
    update(plan_file, repo)
    assert rows(repo, "bd-5-1-elsewhere") == before


# --- cycles -----------------------------------------------------------------------------------------


def test_an_update_that_does_not_fit_a_running_bead_is_refused_and_nothing_changes(repo: Path) -> None:
    """Right runs and keeps waiting for left; the edited plan makes left wait for right."""
    path = write(repo / "plan.md", plan(sprint("1.1a", "Left"), sprint("1.1b", "Right", depends_on="1.1a")))
    mason(path, cwd=repo)
    store = EmbeddedStore(repo)
    assert store.claim("bd-1-1a-left", "one").won
    store.close("bd-1-1a-left", "one", "done")
    assert store.claim("bd-1-1b-right", "two").won
    store.update("bd-1-1a-left", Changes(status="open"))
    new = sprint("1.2", "New")
    write(path, plan(sprint("1.1a", "Edited", depends_on="1.1b"), sprint("1.1b", "Right"), new))
    before = tree(repo)
    ran = update(path, repo)
    assert (ran.code, ran.error["code"]) == (1, "DEPENDENCY.CYCLE_DETECTED")
    assert "bd-1-1b-right → bd-1-1a-left" in ran.error["message"]
    assert "in progress" in ran.error["suggested_action"]
    assert tree(repo) == before


def test_a_turned_dependency_is_applied_in_an_order_without_a_cycle(repo: Path) -> None:
    """Left waits for right, then right for left: there is no cycle before and none after."""
    first = plan(sprint("1.1a", "Left", depends_on="1.1b"), sprint("1.1b", "Right"))
    then = plan(sprint("1.1a", "Left"), sprint("1.1b", "Right", depends_on="1.1a"))
    path = write(repo / "plan.md", first)
    mason(path, cwd=repo)
    for text, waits in ((then, ([], ["bd-1-1a-left"])), (first, (["bd-1-1b-right"], []))):
        write(path, text)
        assert update(path, repo).code == 0
        assert bead(repo, "bd-1-1a-left").dependencies == waits[0]
        assert bead(repo, "bd-1-1b-right").dependencies == waits[1]


def test_a_cycle_in_the_plan_is_found_before_the_store_is_asked(repo: Path, plan_file: Path) -> None:
    write(plan_file, plan(sprint("1.1", "Start", depends_on="1.3"), LEFT, RIGHT, LAST))
    before = tree(repo)
    assert update(plan_file, repo).error["code"] == "DEPENDENCY.CYCLE_DETECTED"
    assert tree(repo) == before


# --- words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["--schema", "legacy"], ["--id-suffix", "x"], ["--sprint-filter", "1.1"], ["--dry-run"]]
)
def test_update_takes_the_whole_plan(repo: Path, plan_file: Path, words: list[str]) -> None:
    before = tree(repo)
    ran = update(plan_file, repo, *words)
    assert (ran.code, ran.error["code"]) == (2, "USAGE.INVALID")
    assert tree(repo) == before


def test_update_annotates_with_the_ids_that_the_beads_have(repo: Path, plan_file: Path) -> None:
    write(plan_file, plan(sprint("1.1", "Begin"), LEFT, RIGHT, LAST, sprint("2.1", "New")))
    assert update(plan_file, repo, "--annotate").data["plan_file_updated"] is True
    text = plan_file.read_text(encoding="utf-8")
    assert "### Sprint 1.1: Begin\n<!-- beads-ralph: bd-1-1-start -->\n" in text
    assert "### Sprint 2.1: New\n<!-- beads-ralph: bd-2-1-new -->\n" in text


def test_an_unreadable_bead_stops_the_update_and_is_named(repo: Path, plan_file: Path) -> None:
    with closing(sqlite3.connect(repo / ".ralph" / "beads.db")) as database, database:
        (text,) = database.execute("SELECT metadata FROM beads WHERE id = 'bd-1-1-start'").fetchone()
        spoilt = json.dumps({**json.loads(text), "phase": "[/b]"})
        database.execute("UPDATE beads SET metadata = ? WHERE id = 'bd-1-1-start'", (spoilt,))
    before = tree(repo)
    assert update(plan_file, repo).error["code"].startswith("VALIDATION.")
    assert tree(repo) == before
    listed = ralph("list", cwd=repo)
    assert listed.code == 0, listed.err
    assert "bd-1-1-start cannot be read" in listed.out
    data = ralph("list", "--json", cwd=repo).data
    assert [row["id"] for row in data["unreadable"]] == ["bd-1-1-start"]


# --- the comparison itself --------------------------------------------------------------------------


def test_the_order_of_labels_and_dependencies_is_no_difference() -> None:
    one = make_bead("bd-a", dependencies=["bd-b", "bd-c"], labels=["x", "y"])
    two = make_bead("bd-a", dependencies=["bd-c", "bd-b"], labels=["y", "x"])
    assert diff.compare(load.StoredPlan((one,)), load.Batch({"1.1": two})).empty


def test_nothing_is_written_where_the_store_refuses_the_new_beads(repo: Path) -> None:
    """New beads go first, so that their refusal leaves the old ones as they were."""
    store = EmbeddedStore(repo)
    store.create([make_bead("bd-a")])
    before = dump(repo)
    new = make_bead(
        "bd-new", dependencies=["bd-nowhere"], metadata={"plan_sprint_id": "1.2", "sprint": "1.2"}
    )
    edited = load.Batch({"1.1": make_bead("bd-a", title="Edited"), "1.2": new})
    compared = diff.compare(load.StoredPlan(store.find(Query()).beads), edited)
    with pytest.raises(RalphError) as caught:
        apply.apply(store, compared)
    assert caught.value.code is Code.UNRESOLVED
    assert dump(repo) == before

"""The second contact of a plan and its store: the plan's edits are taken up, people's are kept, work that is
done is neither lost nor done twice."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.protocol import Changes
from tests.cli.running import Ran, dump, write
from tests.compile.plans import plan
from tests.loop.plans import Project, sprint

Make = Callable[..., Project]
ALPHA, BETA = "bd-1-1-alpha", "bd-1-2-beta"


@pytest.fixture(params=["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def make(request: pytest.FixtureRequest) -> Make:
    kind: str = request.param
    root: Path = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")
    return lambda *sprints, **settings: Project.make(root, *sprints, store=kind, forge="none", **settings)


def put(project: Project, *sprints: str, name: str = "plan.md") -> Path:
    return write(project.root / name, plan(*sprints, front_matter=""))


def mason(project: Project, *words: str, name: str = "plan.md") -> Ran:
    return project.ralph("mason", name, *words, "--json")


def compared(project: Project, name: str = "plan.md") -> dict[str, Any]:
    return project.ralph("plan", "diff", name, "--json").data


def person(project: Project, bead_id: str, changes: Changes) -> None:
    """Change a bead as somebody does who knows nothing of plans."""
    if project.store_kind != "bd":
        project.store.update(bead_id, changes)
        return
    words = [
        f"--{name}={value}" for name in ("title", "priority") if (value := getattr(changes, name)) is not None
    ]
    words += [
        f"--add-label={label}" for label in changes.labels or () if not label.startswith(("phase", "sprint"))
    ]
    if words:
        subprocess.run(["bd", "update", bead_id, *words], cwd=project.root, check=True, capture_output=True)
    for other in changes.dependencies or ():
        subprocess.run(
            ["bd", "dep", "add", bead_id, other], cwd=project.root, check=True, capture_output=True
        )


def close(project: Project, bead_id: str) -> None:
    assert project.store.claim(bead_id, "worker").won
    project.store.close(bead_id, "worker", "done")


def stored(project: Project) -> list[str]:
    """All that the store holds, and whether anything was ever going to be written."""
    if project.store_kind != "bd":
        return dump(project.root)
    done = subprocess.run(["bd", "export"], cwd=project.root, check=True, capture_output=True, text=True)
    kept = sorted((project.root / ".ralph" / "snapshots").glob("*"))
    return [*sorted(done.stdout.splitlines()), *map(str, kept)]


# --- the plan's edits -------------------------------------------------------------------------------


def test_a_run_takes_up_edited_tasks_checks_and_a_sprint_in_between(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.3", "Gamma"))
    assert mason(project).code == 0
    late = sprint("1.3", "Gamma", tasks=["Do the other work"], verify="`test -f bd-1-2-beta.txt`")
    put(project, sprint("1.1", "Alpha"), sprint("1.2", "Beta"), late)
    ran = project.ralph("run", "plan.md")
    assert ran.code == 0, ran.out + ran.err
    assert "+ bd-1-2-beta" in ran.err
    assert "Do the other work" in ran.err
    gamma = project.bead("bd-1-3-gamma")
    assert (gamma.status, gamma.dependencies, gamma.metadata.dev_prompts) == (
        "closed",
        ["bd-1-2-beta"],
        ["Do the other work"],
    )
    assert gamma.metadata.dod is not None
    assert [row["bead"] for row in project.events("bead_closed")] == [ALPHA, BETA, "bd-1-3-gamma"]


def test_check_existing_adds_a_sprint_and_what_waits_for_it_and_says_what_it_leaves(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.3", "Gamma"))
    mason(project)
    put(project, sprint("1.1", "Alpha", priority="0"), sprint("1.2", "Beta"), sprint("1.3", "Gamma"))
    data = mason(project, "--check-existing").data
    assert (data["bead_ids"], data["beads_skipped"]) == ([BETA], [ALPHA, "bd-1-3-gamma"])
    assert BETA in project.bead("bd-1-3-gamma").dependencies
    assert project.bead(ALPHA).priority == 1
    assert ALPHA in data["warnings"][0]["message"]
    assert mason(project, "--update").code == 0
    assert project.bead("bd-1-3-gamma").dependencies == [BETA]
    assert compared(project)["changed"] == []


def test_an_unchanged_plan_writes_nothing_whichever_command_meets_it(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.2", "Beta", labels="shop", verify="`true`"))
    mason(project, "--annotate")
    person(project, BETA, Changes(priority=0))
    before = stored(project)
    for words in (("--update",), ("--check-existing",), ("--update", "--annotate")):
        assert mason(project, *words).data["database_status"] == "unchanged"
    assert project.ralph("plan", "diff", "plan.md").code == 0
    assert project.run("--dry-run").code == 0
    assert stored(project) == before


def test_a_run_may_be_told_to_refuse_an_edited_plan(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"))
    mason(project)
    put(project, sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    before = stored(project)
    ran = project.run("--plan-changes", "refuse")
    assert (ran.code, ran.error["code"]) == (1, "DATABASE.CONFLICT")
    assert "1 new" in ran.error["message"]
    assert "plan diff" in ran.error["suggested_action"]
    assert stored(project) == before


def test_the_setting_refuses_as_the_option_does_and_the_first_beads_go_in(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), forge="none", plan_changes="refuse")
    assert project.run().data["closed"] == [ALPHA]
    assert project.run().code == 0
    put(project, sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    assert project.run().error["code"] == "DATABASE.CONFLICT"
    assert project.run("--plan-changes", "apply").data["closed"] == [BETA]


# --- people's edits ---------------------------------------------------------------------------------


def test_what_a_person_changed_in_the_store_survives_the_plans_edits(make: Make) -> None:
    project = make(sprint("1.1a", "Left"), sprint("1.1b", "Right"), sprint("1.2", "Beta"))
    mason(project)
    right, beta = project.bead("bd-1-1b-right"), project.bead(BETA)
    person(project, right.id, Changes(dependencies=["bd-1-1a-left"], labels=[*right.labels, "mine"]))
    person(project, beta.id, Changes(title="Better beta", priority=0))
    put(
        project,
        sprint("1.1a", "Left"),
        sprint("1.1b", "Right", tasks=["Something else"], labels="planned"),
        sprint("1.2", "Beta", tasks=["Something new"]),
    )
    found = compared(project)
    kept = {row["bead_id"]: row["fields"] for row in found["kept"]}
    assert kept[BETA]["title"] == {"stored": "Better beta", "planned": "Beta"}
    data = mason(project, "--update").data
    assert sorted(data["beads_updated"]) == ["bd-1-1b-right", BETA]
    assert BETA in data["beads_kept"]
    right, beta = project.bead(right.id), project.bead(beta.id)
    assert right.dependencies == ["bd-1-1a-left"]
    assert {"mine", "planned"} <= {*right.labels}
    assert (beta.title, beta.priority) == ("Better beta", 0)
    assert (right.metadata.dev_prompts, beta.metadata.dev_prompts) == (["Something else"], ["Something new"])
    before = stored(project)
    assert mason(project, "--update").data["database_status"] == "unchanged"
    assert stored(project) == before


def test_where_both_changed_the_same_a_script_is_refused_with_both_values(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    mason(project)
    person(project, BETA, Changes(title="Mine", priority=0))
    put(project, sprint("1.1", "Alpha"), sprint("1.2", "Yours", priority="3"), sprint("1.3", "New"))
    before = stored(project)
    for ran in (mason(project, "--update"), project.run()):
        assert (ran.code, ran.error["code"]) == (1, "DATABASE.CONFLICT")
        told = " ".join(fault["message"] for fault in ran.error["details"]["faults"])
        for value in ("'Mine'", "'Yours'", "0", "3", BETA):
            assert value in told
        assert "--prefer" in ran.error["suggested_action"]
    assert stored(project) == before
    assert mason(project, "--update", "--prefer", "store").data["bead_ids"] == ["bd-1-3-new"]
    assert (project.bead(BETA).title, project.bead(BETA).priority) == ("Mine", 0)
    assert compared(project).get("conflicts") is None
    assert mason(project, "--update").code == 0


def test_the_plans_word_may_be_preferred(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"))
    mason(project)
    person(project, ALPHA, Changes(title="Mine"))
    put(project, sprint("1.1", "Yours"))
    assert mason(project, "--update", "--prefer", "plan").data["beads_updated"] == [ALPHA]
    assert project.bead(ALPHA).title == "Yours"


def test_beads_of_older_versions_take_the_plans_word_and_keep_what_is_clearly_anothers(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1a", "Left"), sprint("1.1b", "Right"), sprint("1.2", "Beta"))
    mason(project)
    other = write(repo / "other.md", plan(sprint("5.1", "Elsewhere"), front_matter=""))
    mason(project, name=other.name)
    with closing(sqlite3.connect(repo / ".ralph" / "beads.db")) as database, database:
        database.execute("UPDATE beads SET metadata = json_remove(metadata, '$.planned'), seal = ''")
    labels = project.bead("bd-1-1b-right").labels
    person(project, "bd-1-1b-right", Changes(dependencies=["bd-5-1-elsewhere"], labels=[*labels, "mine"]))
    before = stored(project)
    assert compared(project)["changed"] == []
    assert mason(project, "--update").data["database_status"] == "unchanged"
    assert stored(project) == before
    put(project, sprint("1.1a", "Left"), sprint("1.1b", "Right", tasks=["New"]), sprint("1.2", "Better"))
    assert sorted(mason(project, "--update").data["beads_updated"]) == ["bd-1-1b-right", BETA]
    right = project.bead("bd-1-1b-right")
    assert (right.dependencies, "mine" in right.labels) == (["bd-5-1-elsewhere"], True)
    assert right.metadata.dev_prompts == ["New"]
    assert project.bead(BETA).title == "Better"


# --- who is who -------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotated", [True, False])
def test_renumbered_work_is_neither_lost_nor_done_twice(make: Make, *, annotated: bool) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    mason(project, *(["--annotate"] if annotated else []))
    assert project.run("--bead", ALPHA).data["closed"] == [ALPHA]
    text = (project.root / "plan.md").read_text("utf-8")
    text = text.replace("Sprint 1.2: Beta", "Sprint 1.3: Beta").replace(
        "Sprint 1.1: Alpha", "Sprint 1.2: Alpha"
    )
    fix = sprint("1.1", "Security fix", tasks=["Close the hole"])
    write(project.root / "plan.md", text.replace("### Sprint 1.2: Alpha", f"{fix}\n### Sprint 1.2: Alpha"))
    assert mason(project, "--update").data["bead_ids"] == ["bd-1-1-security-fix"]
    ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, ["bd-1-1-security-fix", BETA]), ran.out
    alpha, beta = project.bead(ALPHA), project.bead(BETA)
    assert (alpha.metadata.plan_sprint_id, beta.metadata.plan_sprint_id) == ("1.2", "1.3")
    assert "sprint-1-3" in beta.labels
    assert "sprint-1-2" not in beta.labels
    assert len(alpha.metadata.dev_agent_executions or ()) == 1


def test_a_new_sprint_does_not_inherit_the_finished_work_of_another(make: Make) -> None:
    project = make(sprint("1.1", "Alpha", tasks=["Write alpha"]))
    mason(project)
    close(project, ALPHA)
    put(project, sprint("1.1", "Security fix", tasks=["Close the hole"]))
    assert mason(project, "--update").data["bead_ids"] == ["bd-1-1-security-fix"]
    assert project.bead(ALPHA).status == "closed"


def test_a_sprint_that_left_is_an_orphan_although_another_has_its_number_now(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    mason(project)
    put(project, sprint("1.1", "Beta"))
    data = mason(project, "--update").data
    assert (data["beads_orphaned"], data["beads_updated"], data["bead_ids"]) == ([ALPHA], [BETA], [])
    assert project.bead(BETA).dependencies == []
    assert mason(project, "--update").data["database_status"] == "unchanged"


def test_a_plan_that_was_moved_and_renamed_keeps_its_beads(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    mason(project)
    assert project.run("--bead", ALPHA).data["closed"] == [ALPHA]
    (project.root / "plans").mkdir()
    (project.root / "plan.md").rename(project.root / "plans" / "shop.md")
    assert compared(project, "plans/shop.md")["moved_from"] == "plan.md"
    data = mason(project, "--update", name="plans/shop.md").data
    assert (data["beads_created"], data["beads_orphaned"]) == (0, [])
    assert {project.bead(name).metadata.plan_file for name in (ALPHA, BETA)} == {"plans/shop.md"}
    assert compared(project, "plans/shop.md").get("moved_from") is None
    ran = project.ralph("run", "plans/shop.md", "--json")
    assert (ran.code, ran.data["closed"]) == (0, [BETA]), ran.out


def test_a_plan_that_was_moved_and_renumbered_at_once_keeps_its_beads(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    mason(project)
    assert project.run("--bead", ALPHA).data["closed"] == [ALPHA]
    (project.root / "plan.md").unlink()
    put(project, sprint("1.1", "Fix"), sprint("1.2", "Alpha"), sprint("1.3", "Beta"), name="shop.md")
    assert compared(project, "shop.md")["moved_from"] == "plan.md"
    ran = project.ralph("run", "shop.md", "--json")
    assert (ran.code, sorted(ran.data["closed"])) == (0, ["bd-1-1-fix", BETA]), ran.out


def test_a_copy_of_a_plan_is_another_plan(repo: Path) -> None:
    """Its file is still there: the beads are those of the first one."""
    project = Project.make(repo, sprint("1.1", "Alpha"))
    mason(project)
    put(project, sprint("1.1", "Alpha"), name="copy.md")
    before = stored(project)
    ran = mason(project, "--update", name="copy.md")
    assert ran.error["code"] == "DEPENDENCY.DUPLICATE_ID"
    assert "of plan.md, sprint 1.1" in ran.error["message"]
    assert "--update" not in ran.error["suggested_action"]
    assert stored(project) == before


# --- work that is done ------------------------------------------------------------------------------


def test_finished_work_that_reads_differently_is_named_and_can_be_done_again(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"))
    assert project.run().data["ended"] == "done"
    put(project, sprint("1.1", "Alpha", tasks=["Do it in another way"]))
    ran = project.ralph("run", "plan.md")
    assert ran.code == 1
    assert "sprint 1.1 has changed" in ran.err
    assert "✓ done" not in ran.out
    assert f"beads-ralph retry {ALPHA} --again" in ran.out
    assert project.events("run_ended")[-1]["ended"] == "plan_differs"
    assert project.bead(ALPHA).metadata.dev_prompts == ["Do the work"]

    assert project.ralph("retry", ALPHA).code == 1
    assert project.ralph("retry", ALPHA, "--again").code == 0
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (0, "done", [ALPHA]), ran.out
    assert project.bead(ALPHA).metadata.dev_prompts == ["Do it in another way"]


def test_finished_work_may_be_let_stand(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), forge="none")
    project.run()
    put(project, sprint("1.1", "Alpha", tasks=["Do it, with a full stop."]))
    assert project.run().data["ended"] == "plan_differs"
    assert mason(project, "--update", "--prefer", "store").code == 0
    assert project.run().data["ended"] == "done"


def test_other_settings_make_no_difference_to_finished_work(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "Alpha"), sprint("1.2", "Beta"), forge="none")
    assert project.run("--bead", ALPHA).data["closed"] == [ALPHA]
    front = "---\nverify:\n  - name: there\n    command: 'true'\n---\n"
    text = plan(sprint("1.1", "Alpha"), sprint("1.2", "Beta"), front_matter=front)
    write(project.root / "plan.md", text.replace("- Do", "- [x] Do", 1))
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (0, "done", [BETA]), ran.out
    assert project.bead(BETA).metadata.dod is not None


# --- what is not as it should be --------------------------------------------------------------------


def test_a_bead_that_a_person_made_a_task_of_is_told_with_both_ways_out(make: Make) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    mason(project)
    if project.store_kind == "bd":
        words = ["bd", "update", BETA, "--type=task"]
        subprocess.run(words, cwd=project.root, check=True, capture_output=True)
    else:
        with closing(sqlite3.connect(project.root / ".ralph" / "beads.db")) as database, database:
            database.execute("UPDATE beads SET issue_type = 'task', item = 1 WHERE id = ?", (BETA,))
    before = stored(project)
    for ran in (
        project.ralph("plan", "diff", "plan.md", "--json"),
        mason(project, "--update"),
        mason(project, "--check-existing"),
        project.run(),
    ):
        assert (ran.code, ran.error["code"]) == (1, "DATABASE.CONFLICT"), ran.out
        assert f"{BETA} of sprint 1.2 is a task now" in ran.error["message"]
        assert f"bd update {BETA} --type beads-ralph-work" in ran.error["suggested_action"]
        assert "strike the sprint out" in ran.error["suggested_action"]
    assert stored(project) == before


@pytest.mark.parametrize("key", ["phase", "plan_file"])
def test_a_damaged_bead_is_named(make: Make, key: str) -> None:
    project = make(sprint("1.1", "Alpha"), sprint("1.2", "Beta"))
    mason(project)
    if project.store_kind == "bd":
        words = ["bd", "update", BETA, "--metadata", json.dumps({key: ""})]
        subprocess.run(words, cwd=project.root, check=True, capture_output=True)
    else:
        with closing(sqlite3.connect(project.root / ".ralph" / "beads.db")) as database, database:
            change = "UPDATE beads SET metadata = json_set(metadata, ?, ''), plan_file = ? WHERE id = ?"
            database.execute(change, (f"$.{key}", "" if key == "plan_file" else "plan.md", BETA))
    for ran in (
        project.ralph("plan", "diff", "plan.md", "--json"),
        mason(project, "--update"),
        mason(project, "--check-existing"),
    ):
        assert ran.error["code"].startswith("VALIDATION."), ran.out
        assert f"{BETA} in the store cannot be read: metadata.{key}" in ran.error["message"]
        assert f"beads-ralph show {BETA}" in ran.error["suggested_action"]

"""Plans with formula sprints, run to the end: the work of every step reaches what comes after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.query import ItemQuery
from tests.compile.formulas import person, poured, raw, work, written
from tests.loop.plans import Project, git, sprint

PAIR = raw("pair", work("code"), work("review", needs=["code"]))
FORK = raw("fork", work("left"), work("right"))
AGREED = raw("agreed", work("code"), person("agree", needs=["code"]), work("ship", needs=["agree"]))


def made(root: Path, *sprints: str, **settings: Any) -> Project:
    written(root, PAIR, FORK, AGREED)
    return Project.make(root, *sprints, **settings)


def files(project: Project, branch: str) -> set[str]:
    """The beads whose work is on a branch: each of them writes a file of its own name."""
    names = git(project.root, "ls-tree", "--name-only", branch).splitlines()
    return {name.removesuffix(".txt") for name in names if name.startswith("bd-")}


@pytest.mark.parametrize("kind", ["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def test_s1_ov2_a_mixed_plan_runs_to_the_end(request: pytest.FixtureRequest, kind: str) -> None:
    root: Path = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")
    sprints = (sprint("1.1", "Start"), poured("1.2", "API", "pair"), sprint("1.3", "End"))
    project = made(root, *sprints, store=kind)
    ran = project.run()
    order = ["bd-1-1-start", "bd-1-2-api-code", "bd-1-2-api-review", "bd-1-3-end"]
    assert (ran.code, ran.data["closed"]) == (0, order)
    assert files(project, "feature/1-2-api-code") == set(order[:2])
    assert files(project, "feature/1-2-api-review") == set(order[:3])
    assert files(project, "feature/1-3-end") == set(order)
    tree = project.worktree("feature/1-3-end")
    assert {path.stem for path in tree.glob("bd-*.txt")} == set(order)
    (root_item,) = project.store.items.find(ItemQuery(ids=["bd-1-2-api"]))
    assert root_item.status == "closed"
    again = project.run()
    assert (again.code, again.data["closed"]) == (0, [])
    project.assert_tidy()


def test_steps_side_by_side_are_merged_by_what_comes_after(repo: Path) -> None:
    merge = sprint("1.2", "Merge both", tasks=())
    project = made(repo, poured("1.1", "A", "fork"), merge, poured("1.3", "B", "pair"))
    ran = project.run()
    assert ran.code == 0, ran.err
    merged = {"bd-1-1-a-left", "bd-1-1-a-right"}  # what merges without a conflict needs no agent
    assert project.bead("bd-1-2-merge-both").metadata.branches_to_merge == [
        "feature/1-1-a-left",
        "feature/1-1-a-right",
    ]
    assert files(project, "feature/1-2-merge-both") == merged
    assert files(project, "feature/1-3-b-review") == merged | {"bd-1-3-b-code", "bd-1-3-b-review"}


def test_the_work_before_a_persons_step_is_there_when_that_person_is_done(repo: Path) -> None:
    project = made(repo, poured("1.1", "A", "agreed"), sprint("1.2", "B"))
    first = project.run()
    assert first.data["closed"] == ["bd-1-1-a-code"]
    assert first.code != 0
    project.store.items.close("bd-1-1-a-agree", "somebody", "agreed")
    second = project.run()
    assert (second.code, second.data["closed"]) == (0, ["bd-1-1-a-ship", "bd-1-2-b"])
    assert files(project, "feature/1-2-b") == {"bd-1-1-a-code", "bd-1-1-a-ship", "bd-1-2-b"}


def test_a_dry_run_of_a_plan_shows_its_steps_and_makes_nothing(repo: Path) -> None:
    project = made(repo, sprint("1.1", "Start"), poured("1.2", "API", "pair"))
    data = project.run("--dry-run").data
    assert data["waves"] == [["bd-1-1-start"], ["bd-1-2-api-code"], ["bd-1-2-api-review"]]
    assert project.statuses() == {}
    assert project.store.items.find(ItemQuery()) == []


def test_only_the_beads_of_the_plan_are_run(repo: Path) -> None:
    project = made(repo, poured("1.1", "A", "pair"))
    other = project.root / "other.md"
    other.write_text((project.root / "plan.md").read_text("utf-8").replace("1.1: A", "1.1: Other"), "utf-8")
    assert project.ralph("mason", "other.md", "--json").code == 0
    ran = project.run()
    assert ran.data["closed"] == ["bd-1-1-a-code", "bd-1-1-a-review"]
    assert project.statuses()["bd-1-1-other-code"] == "open"


def test_what_is_set_of_a_formula_holds_for_the_sprints_that_pour_it(repo: Path) -> None:
    handed = {"agreed": {"for_agents": True}}
    project = made(repo, poured("1.1", "A", "agreed"), sprint("1.2", "End"), formulas=handed)
    ran = project.run()
    order = ["bd-1-1-a-code", "bd-1-1-a-agree", "bd-1-1-a-ship", "bd-1-2-end"]
    assert (ran.code, ran.data["ended"], ran.data["closed"]) == (0, "done", order), ran.out
    assert files(project, "feature/1-2-end") == set(order)

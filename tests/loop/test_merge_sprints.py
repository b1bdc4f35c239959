"""A merge sprint with tasks: git merges, then somebody does them; one without tasks is git's alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beads_ralph.bead.agent_call import DevCall
from tests.loop.plans import Project, fails, git, names, passes, sprint, work

TASK = "Show search and basket on one page"
SIDES = (sprint("1.1a", "Search"), sprint("1.1b", "Basket"))
MERGE = "bd-1-2-integration"
BRANCH = "feature/1-2-integration"
BOTH_ARE_THERE = {"run": "test -f bd-1-1a-search.txt && test -f bd-1-1b-basket.txt"}


def pull_of(project: Project, branch: str) -> str:
    folder = project.root / ".ralph" / "pulls"
    rows = [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")]
    (number,) = (row["number"] for row in rows if row["branch"] == branch)
    return (folder / f"{number}.md").read_text("utf-8")


def roles(project: Project) -> list[str]:
    return names(project.events("agent_started", bead=MERGE), "role")


@pytest.mark.parametrize("kind", ["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def test_the_tasks_of_a_merge_sprint_are_done_in_the_merged_worktree(
    request: pytest.FixtureRequest, kind: str
) -> None:
    repo: Path = request.getfixturevalue("bd_repo" if kind == "bd" else "repo")
    first = [{"expect": TASK}, {"expect": "merged into it by git already"}, BOTH_ARE_THERE, *work("half.txt")]
    again = [{"expect": "only half of it"}, {"expect": TASK}, *work("page.txt")]
    script = {
        "1.2": {"dev": [first, again], "qa": [fails("only half of it"), passes()]},
        "*": {"dev": work()},
    }
    merge = sprint("1.2", "Integration", tasks=[TASK], verify="`test ! -e half.txt -o -e bd-1-1a-search.txt`")
    project = Project.make(repo, *SIDES, merge, script=script, store=kind)
    ran = project.run()
    assert (ran.code, ran.data["ended"]) == (0, "done"), ran.out
    assert roles(project) == ["dev", "qa", "dev", "qa"]
    assert project.bead(MERGE).metadata.branches_to_merge == ["feature/1-1a-search", "feature/1-1b-basket"]
    held = git(repo, "ls-tree", "--name-only", BRANCH).splitlines()
    assert {"bd-1-1a-search.txt", "bd-1-1b-basket.txt", "page.txt"} <= {*held}
    text = pull_of(project, BRANCH)
    assert f"## Tasks\n\n- `{TASK}`" in text
    assert "## Merged\n\n- `feature/1-1a-search`" in text


def test_a_merge_sprint_without_tasks_is_gits_alone(repo: Path) -> None:
    project = Project.make(repo, *SIDES, sprint("1.2", "Integration", tasks=()))
    assert project.run().code == 0
    assert roles(project) == ["qa"]
    assert "## Tasks" not in pull_of(project, BRANCH)
    told = project.ralph("show", MERGE).out
    assert "feature/1-1a-search, feature/1-1b-basket (git first, and that is all; a merge by" in told


def test_a_conflict_is_resolved_before_the_tasks_are_given(repo: Path) -> None:
    (repo / "app.txt").write_text("title\nbody\nend\n", encoding="utf-8")
    both = "title\nleft one\nleft two\nright one\nright two\nend\n"
    script = {
        "1.1a": {"dev": work("app.txt", "title\nleft one\nleft two\nend\n")},
        "1.1b": {"dev": work("app.txt", "title\nright one\nright two\nend\n")},
        "1.2": {
            "merge": [{"expect": "Do not begin them"}, *work("app.txt", both)],
            "dev": [{"run": "grep -q 'left two' app.txt && grep -q 'right two' app.txt"}, *work("page.txt")],
        },
    }
    project = Project.make(repo, *SIDES, sprint("1.2", "Integration", tasks=[TASK]), script=script)
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 3), ran.out
    assert roles(project) == ["merge", "dev", "qa"]


def test_doing_the_tasks_may_change_what_was_merged_but_the_merge_may_lose_nothing(repo: Path) -> None:
    """What is changed after the merge is told to the reviewers; what the merge left out is a failure."""
    (repo / "app.txt").write_text("title\nbody\nend\n", encoding="utf-8")
    both = "title\nleft one\nleft two\nright one\nright two\nend\n"
    ours = [{"run": "git checkout -q --ours app.txt; git add app.txt; git commit -qm merged"}]
    script = {
        "1.1a": {"dev": work("app.txt", "title\nleft one\nleft two\nend\n")},
        "1.1b": {"dev": work("app.txt", "title\nright one\nright two\nend\n")},
        "1.2": {
            "merge": ours,
            "dev": [
                work("page.txt"),
                [{"expect": "lost in the merge: app.txt:2-3"}, *work("app.txt", both.replace("left", "now"))],
            ],
        },
    }
    project = Project.make(repo, *SIDES, sprint("1.2", "Integration", tasks=[TASK]), script=script)
    ran = project.run()
    assert ran.code == 0, ran.out
    verdicts = names(project.events("verdict_given", bead=MERGE), "ruling")
    assert verdicts == ["fail", "pass"]
    flags = " ".join(project.metadata(MERGE)["last_verdict"]["flags"])
    assert "changes of feature/1-1a-search: kept by the merge; changed after the merge: app.txt:2" in flags


def test_who_was_given_the_tasks_and_changed_nothing_is_pointed_out(repo: Path) -> None:
    seen = [{"expect": "nothing was changed after the merge"}, *passes()]
    script = {"1.2": {"dev": [{"say": "all done!"}], "qa": seen}, "*": {"dev": work()}}
    project = Project.make(repo, *SIDES, sprint("1.2", "Integration", tasks=[TASK]), script=script)
    assert project.run().code == 0
    assert "nothing was changed after the merge" in pull_of(project, BRANCH)


def test_only_a_developer_or_a_scrum_master_was_given_tasks() -> None:
    from beads_ralph.session.history import BeadHistory
    from tests.beads import make_bead

    for role, given in (("merge", False), ("dev", True), ("scrum-master", True)):
        call = DevCall(attempt=1, role=role, agent="claude", status="completed")
        assert BeadHistory(make_bead("bd-1"), "team", dev=[call]).was_given is given


def test_a_title_that_decides_is_said_before_anything_is_inserted(repo: Path) -> None:
    typed = sprint("1.3", "Merge again", type="merge", branches_to_merge="feature/1-1a-search")
    project = Project.make(repo, *SIDES, sprint("1.2", "Integration", tasks=[TASK]), typed)
    checked = project.ralph("plan", "check", "plan.md", "--strict", "--json")
    assert (checked.code, checked.data["merges_by_title"]) == (0, ["1.2"])
    words = "because of the title alone, so git merges before anybody works: sprint 1.2\n"
    assert words in project.ralph("plan", "check", "plan.md").out
    drawn = project.ralph("plan", "graph", "plan.md")
    assert "← 1.1a, 1.1b, merges them: its title says so" in drawn.out
    assert "up to 2 in parallel" in drawn.out
    (repo / "team.md").write_text("---\nteam: core\n---\n" + (repo / "plan.md").read_text("utf-8"), "utf-8")
    assert "up to 1 in parallel" in project.ralph("plan", "graph", "team.md").out
    told = project.ralph("plan", "graph", "plan.md", "--json").data["sprints"]
    assert [row.get("merge_by") for row in told] == [None, None, "title", "plan"]

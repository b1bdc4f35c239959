"""What agents are told in a run: the plan around their sprint, where work begins, what both sides meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph import prompts
from tests.cli.running import Ran
from tests.loop.plans import Project, git, names, passes, sprint, work

INTRODUCTION = "We build a shop for tea.\n\nPrices are in cents, never in floats."
GOAL = "The shop can be stocked, and nothing is sold yet."


def with_plan_around(project: Project) -> None:
    text = (project.root / "plan.md").read_text("utf-8")
    first = text.index("### Sprint")
    around = f"# The tea shop\n\n{INTRODUCTION}\n\n## Phase 1: Stock\n\n{GOAL}\n\n"
    (project.root / "plan.md").write_text(text[:first] + around + text[first:], encoding="utf-8")
    git(project.root, "commit", "--quiet", "--all", "--message", "the plan around it")


def told(project: Project, name: str) -> str:
    return (project.root.parent / name).read_text("utf-8")


def keeps(project_root: Path, name: str) -> dict[str, str]:
    """The step of a script that writes its prompt down."""
    return {"prompt": str(project_root.parent / name)}


def test_everybody_is_told_the_plan_around_the_sprint_also_when_its_file_is_gone(repo: Path) -> None:
    for name in ("AGENTS.md", "CONTRIBUTING.md"):
        (repo / name).write_text("Tabs.\n", encoding="utf-8")
    script = {
        "1.2": {
            "dev": [keeps(repo, "dev"), *work()],
            "qa": [keeps(repo, "qa"), *passes()],
        },
        "*": {"dev": work("one.txt")},
    }
    two = sprint("1.2", "Two", depends_on="1.1", verify="`test -f one.txt`", tasks=["Count it", "Sell it"])
    project = Project.make(repo, sprint("1.1", "One"), two, script=script)
    with_plan_around(project)
    assert project.ralph("mason", "plan.md").code == 0
    (repo / "plan.md").unlink()
    git(repo, "commit", "--quiet", "--all", "--message", "the plan is gone")
    ran = project.ralph("run", "--json")
    assert ran.data["closed"] == ["bd-1-1-one", "bd-1-2-two"], ran.out
    pull = ran.data["pull_requests"][0]["url"]
    for name in ("dev", "qa"):
        text = told(project, name)
        assert [one in text for one in (*INTRODUCTION.split("\n\n"), GOAL, "Stock", "Count it")] == [True] * 5
        assert f"One (branch feature/1-1-one, {pull})" in text
        assert "`AGENTS.md`, `CONTRIBUTING.md`" in text, "whichever program reads which by itself"
        assert "CLAUDE.md" not in text.partition("## ")[0], "it is not there"
        assert "## Description" not in text, "it would only repeat the tasks"
        assert "(none)" not in text


def test_a_reviewer_is_told_where_the_work_of_a_stacked_bead_begins(repo: Path) -> None:
    """Not at main: what the bead builds on is not its doing."""
    script = {
        "1.1": {"dev": work("one.txt")},
        "1.2": {"dev": work("two.txt"), "qa": [keeps(repo, "qa"), *passes()]},
    }
    two = sprint("1.2", "Two", depends_on="1.1", verify="`test -f two.txt`")
    project = Project.make(repo, sprint("1.1", "One"), two, script=script)
    assert project.run().code == 0
    text = told(project, "qa")
    (span,) = (word.strip("`") for word in text.split() if ".." in word and len(word) > 80)
    assert git(repo, "diff", "--name-only", span) == "two.txt"
    assert "pass: test -f two.txt" in text, "with the checks that ran, and how"


def test_the_developers_second_prompt_is_whole_and_names_the_reviewers_findings(repo: Path) -> None:
    reviews = [
        [{"json": {"status": "fail", "message": "app.py:3: off by one"}}],
        [keeps(repo, "qa"), *passes()],
    ]
    script = {"*": {"dev": [work(), [keeps(repo, "dev"), *work()]], "qa": reviews}}
    project = Project.make(repo, sprint("1.1", "One", tasks=["Write it"]), script=script)
    assert project.run().code == 0
    text = told(project, "dev")
    assert [one in text for one in ("off by one", "Write it", "One", "attempt 1")] == [True] * 4
    assert "What you found before" in told(project, "qa")


def merging(repo: Path) -> Project:
    """Two sprints that write the same file, and a merge of them."""
    resolve = {"run": "printf 'left\\nright\\n' > shared.txt"}
    script = {
        "1.1a": {"dev": work("shared.txt", "left\n")},
        "1.1b": {"dev": work("shared.txt", "right\n")},
        "1.2": {"merge": [keeps(repo, "merge"), resolve, {"commit": "merged"}], "dev": work("more.txt")},
    }
    return Project.make(
        repo,
        sprint("1.1a", "Left hand", tasks=["Write left"]),
        sprint("1.1b", "Right hand", tasks=["Write right"]),
        sprint("1.2", "Merge both", depends_on="1.1a, 1.1b", tasks=[]),
        script=script,
    )


@pytest.mark.parametrize("installed", [True, False])
def test_whoever_merges_is_told_what_both_sides_meant(repo: Path, installed: bool) -> None:
    if installed:
        (repo / ".claude" / "agents").mkdir(parents=True)
        file = repo / ".claude" / "agents" / "merge-specialist.md"
        file.write_text(prompts.agent_files()["merge-specialist.md"], encoding="utf-8")
    project = merging(repo)
    ran = project.run()
    assert ran.code == 0, ran.out
    text = told(project, "merge")
    assert [one in text for one in ("Left hand", "Write left", "Right hand", "Write right")] == [True] * 4
    assert git(repo, "merge-base", "feature/1-1a-left-hand", "feature/1-1b-right-hand") in text
    (asked,) = (row for row in project.events("agent_started") if row["role"] == "merge")
    assert asked["agent"] == (".claude/agents/merge-specialist.md" if installed else "claude")


# --- a repository's own prompts, and what they make of a bead -----------------------------------------

OWN = "MY OWN WORDS for {{title:data}} {{description:data}} {{tasks:data}} {{findings:data}}\n"


def own_dev(repo: Path, text: str) -> None:
    (repo / prompts.FOLDER).mkdir(parents=True)
    (repo / prompts.FOLDER / "dev.md").write_text(text, encoding="utf-8")


def test_a_repositorys_own_prompt_is_used_as_it_was_when_the_run_began(repo: Path) -> None:
    own_dev(repo, OWN)
    spoil = {"run": f"echo EVIL >> {repo / prompts.FOLDER / 'dev.md'}"}
    script = {
        "1.1": {"dev": [keeps(repo, "one"), spoil, *work()]},
        "1.2": {"dev": [keeps(repo, "two"), *work()]},
    }
    project = Project.make(repo, sprint("1.1", "One"), sprint("1.2", "Two", depends_on="1.1"), script=script)
    ran = project.run()
    assert ran.code == 0, ran.out
    assert told(project, "one").startswith("MY OWN WORDS for ")
    assert "EVIL" not in told(project, "two")
    told_of = [row["message"] for row in project.events("warning_given")]
    assert any(f"{prompts.FOLDER}/dev.md" in text for text in told_of), "and a person is told"


def test_a_faulty_prompt_is_refused_before_any_agent_starts(repo: Path) -> None:
    own_dev(repo, "{{title:data}} {{nonsense}}\n")
    project = Project.make(repo, sprint("1.1", "One"), check_before_start=True)
    ran = project.run()
    assert ran.code == 1
    assert "prompt dev has no place {{nonsense}}" in ran.out
    assert project.events("agent_started") == []


def shown(project: Project, *words: str) -> Ran:
    return project.ralph("prompt", "bd-1-1-one", *words, "--json")


def test_prompt_shows_what_an_agent_would_be_told_and_starts_nothing(repo: Path) -> None:
    script = {"*": {"dev": [keeps(repo, "dev"), *work()], "qa": [keeps(repo, "qa"), *passes()]}}
    project = Project.make(repo, sprint("1.1", "One", verify="`true`"), script=script)
    with_plan_around(project)
    assert project.ralph("mason", "plan.md").code == 0
    before = project.bead("bd-1-1-one")
    found = {role: shown(project, "--role", role).data for role in ("dev", "qa", "merge", "scrum-master")}
    assert project.bead("bd-1-1-one") == before
    assert project.run_ids() == []
    assert not project.worktree("feature/1-1-one").exists()
    assert {name: row["file"] for name, row in found.items()} == dict.fromkeys(found)
    assert project.run().code == 0
    assert found["dev"]["prompt"] == told(project, "dev"), "to the letter"
    assert INTRODUCTION.split("\n", maxsplit=1)[0] in found["qa"]["prompt"]
    page = project.ralph("prompt", "bd-1-1-one")
    assert "## Tasks" in page.out.splitlines()


def test_prompt_names_the_repositorys_own_file_and_refuses_what_is_not_there(repo: Path) -> None:
    own_dev(repo, OWN)
    project = Project.make(repo, sprint("1.1", "One"))
    assert project.ralph("mason", "plan.md").code == 0
    found = shown(project).data
    assert (found["file"], found["name"], found["agent"]) == (f"{prompts.FOLDER}/dev.md", "dev", "claude")
    assert names([found], "prompt")[0].startswith("MY OWN WORDS")
    assert shown(project, "--number", "2").code == 2
    assert shown(project, "--role", "qa").data["file"] is None


def test_a_new_introduction_is_no_change_of_the_work_and_reaches_the_next_agent(repo: Path) -> None:
    """As is that of a bead which a version made that kept none."""
    project = Project.make(repo, sprint("1.1", "One"), script={"*": {"dev": [keeps(repo, "dev"), *work()]}})
    assert project.ralph("mason", "plan.md").code == 0
    assert project.metadata("bd-1-1-one").get("plan_context") is None
    with_plan_around(project)
    assert project.ralph("plan", "diff", "plan.md", "--json").data["changed"] == []
    ran = project.run()
    assert ran.code == 0, ran.out
    assert [row for row in project.events() if row["kind"].startswith("plan_")] == []
    assert INTRODUCTION.split("\n", maxsplit=1)[0] in told(project, "dev")


# --- people, too ----------------------------------------------------------------------------------------


def test_people_read_the_reviewers_words_wherever_they_look(repo: Path) -> None:
    words = "app.py:3: the last row\nis lost"
    script = {"*": {"dev": work(), "qa": [{"json": {"status": "fail", "message": words}}]}}
    project = Project.make(repo, sprint("1.1", "One"), script=script, plan_settings={"max_retry_attempts": 1})
    pages = {"run": project.ralph("run", "plan.md").out}
    pages |= {word: project.ralph(word).out for word in ("status", "events")}
    pages["show"] = project.ralph("show", "bd-1-1-one").out
    for name, page in pages.items():
        assert "app.py:3: the last row is lost" in " ".join(page.split()), name
    assert "{" not in pages["show"], "comments are text, too"


def test_a_program_that_gives_up_is_quoted(repo: Path) -> None:
    steps = [{"run": "echo first >&2; echo 'no licence on this machine' >&2"}, {"crash": 4}]
    project = Project.make(
        repo, sprint("1.1", "One"), script={"*": {"dev": steps}}, plan_settings={"max_retry_attempts": 1}
    )
    assert "ended with exit code 4: no licence on this machine" in project.ralph("run", "plan.md").out

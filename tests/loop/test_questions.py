"""What a run asks a person at a terminal, before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.store.protocol import Changes
from tests.cli.terminal import CTRL_C, CTRL_D, at_a_terminal
from tests.loop.plans import Project, git, sprint, work

BEAD = "bd-1-1-one"
ONE = sprint("1.1", "One", verify="`grep -q done one.txt`")
SCRIPT = {"*": {"dev": work("one.txt")}}
MAY_PUSH = "Push the branches of finished beads to origin"
WHICH = "Which one wins? plan or store: "


def cloned(repo: Path) -> tuple[Project, Path]:
    """A project whose remote may be pushed to once somebody says so."""
    origin = repo.parent / "origin.git"
    git(repo.parent, "clone", "--quiet", "--bare", str(repo), str(origin))
    git(repo, "remote", "add", "origin", str(origin))
    return Project.make(repo, ONE, script=SCRIPT, push="ask", forge="local"), origin


def heads(origin: Path) -> list[str]:
    return git(origin, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("answer", "pushed"), [("y\n", ["feature/1-1-one", "main"]), ("\n", ["main"])])
def test_a_person_says_whether_to_push_and_the_answer_is_kept(
    repo: Path, answer: str, pushed: list[str]
) -> None:
    project, origin = cloned(repo)
    with at_a_terminal(repo, "run", "plan.md") as person:
        person.shows(MAY_PUSH)
        assert (project.statuses(), project.events()) == ({}, [])
        person.types(answer)
        assert person.ends(answer) == 0, person.seen
    assert heads(origin) == pushed
    with at_a_terminal(repo, "run", "plan.md") as person:
        assert person.ends() == 0
        assert MAY_PUSH not in person.seen


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_a_person_who_does_not_say_has_started_and_answered_nothing(repo: Path, key: str) -> None:
    project, origin = cloned(repo)
    for _ in range(2):  # nothing was kept, so it is asked again
        with at_a_terminal(repo, "run", "plan.md") as person:
            person.shows(MAY_PUSH)
            person.types(key)
            assert person.ends(key) == 130, person.seen
            assert "Traceback" not in person.seen
    assert (project.statuses(), project.events(), heads(origin)) == ({}, [], ["main"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("word", "pushed"), [("--push", 2), ("--no-push", 1)])
def test_who_says_it_on_the_command_line_is_not_asked(repo: Path, word: str, pushed: int) -> None:
    _, origin = cloned(repo)
    with at_a_terminal(repo, "run", "plan.md", word) as person:
        assert person.ends() == 0, person.seen
        assert MAY_PUSH not in person.seen
    assert len(heads(origin)) == pushed
    with at_a_terminal(repo, "run", "plan.md") as person:  # that was about one run
        person.shows(MAY_PUSH)


def both_changed(repo: Path) -> Project:
    """The plan and a person have given the same bead another title."""
    project = Project.make(repo, ONE, script=SCRIPT)
    assert project.ralph("mason", "plan.md", "--json").code == 0
    project.store.update(BEAD, Changes(title="A person's title"))
    plan = repo / "plan.md"
    plan.write_text(plan.read_text().replace("1.1: One", "1.1: Plan's title"))
    return project


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("answer", "title"), [("plan\n", "Plan's title"), ("s\n", "A person's title")])
def test_a_person_says_whose_change_counts(repo: Path, answer: str, title: str) -> None:
    project = both_changed(repo)
    with at_a_terminal(repo, "run", "plan.md") as person:
        person.shows(WHICH)
        assert "Plan's title" in person.seen
        assert "A person's title" in person.seen
        person.types("neither\n")
        person.shows(f"neither\r\n{WHICH}")
        person.types(answer)
        assert person.ends(answer) == 0, person.seen
    assert (project.bead(BEAD).title.endswith(title), project.bead(BEAD).status) == (True, "closed")


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_a_person_who_does_not_choose_has_changed_nothing(repo: Path, key: str) -> None:
    project = both_changed(repo)
    with at_a_terminal(repo, "run", "plan.md") as person:
        person.shows(WHICH)
        person.types(key)
        assert person.ends(key) == 130, person.seen
        assert "Traceback" not in person.seen
    bead = project.bead(BEAD)
    assert (bead.title, bead.status, project.events()) == ("A person's title", "open", [])

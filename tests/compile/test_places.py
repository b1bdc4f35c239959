"""Branches and worktrees that a run would refuse are faults of the plan, each at its line."""

from pathlib import Path

import pytest

from tests.cli import running
from tests.git.repos import git
from tests.plan.plans import plan_of


def check(repo: Path, text: str) -> list[tuple[str, int, str]]:
    (repo / "plan.md").write_text(text, "utf-8")
    error = running.ralph("plan", "check", "plan.md", "--json", cwd=repo).envelope["error"]
    faults = error["details"]["faults"] if error else []
    return [(fault["message"], fault["line"], fault["suggested_action"]) for fault in faults]


def plan(*sprints: str, **extras: str) -> str:
    return plan_of(sprints, **extras).replace("source_branch: develop", "source_branch: main")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("**Worktree**: .", "main checkout"),
        ("**Worktree**: ..", "holds the repository itself"),
        ("**Worktree**: .git/x", "git's own folder"),
        ("**Worktree**: /etc/evil", "belongs to the system"),
        ("**Branch**: main", "own source branch"),
        ("**Branch**: side", "is checked out in the main checkout"),
        ("**Branch**: main/1-2a-b", "beside main"),
        ("**Branch**: old", "beside old/work"),
    ],
)
def test_a_place_that_a_run_would_refuse_is_a_fault_at_its_line(repo: Path, line: str, said: str) -> None:
    for words in (("branch", "old/work"), ("switch", "--quiet", "--create", "side")):
        git(repo, *words)
    text = plan("1.1", "1.2", s1_2=f"{line}\n")
    ((message, at, action),) = check(repo, text)
    assert said in message
    assert at == text.split("\n").index(line) + 1
    assert line.partition(":")[0] in action


def test_a_worktree_inside_of_another_is_a_fault(repo: Path) -> None:
    text = plan("1.1", "1.2", s1_1="**Worktree**: ../trees/a\n", s1_2="**Worktree**: ../trees/a/b\n")
    ((message, at, _),) = check(repo, text)
    assert "sprint 1.2" in message
    assert "the worktree of sprint 1.1" in message
    assert at == text.split("\n").index("**Worktree**: ../trees/a/b") + 1


def test_worktrees_beside_and_below_the_repository_are_fine(repo: Path) -> None:
    assert check(repo, plan("1.1", "1.2", s1_1="**Worktree**: trees/a\n", s1_2="**Worktree**: ../b\n")) == []


# --- who proves it --------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["qa_agents: []\n", ""])
def test_where_verifiers_prove_nobody_need_judge(repo: Path, said: str) -> None:
    text = plan("1.1", "1.2", s1_1="**Verify**: `make`\n").replace("qa_agents: [claude]\n", said)
    ((message, _, action),) = check(repo, text)
    assert "sprint 1.2 has no **QA Agents**" in message
    assert "**Verify**" in action


def test_a_sprint_may_say_that_nobody_judges_it(repo: Path) -> None:
    lines = "**QA Agents**: none\n"
    text = plan("1.1", "1.2", s1_1=f"{lines}**Verify**: `make`\n", s1_2=lines)
    ((message, _, _),) = check(repo, text)
    assert "sprint 1.2 has no **QA Agents**" in message


# --- not set up -----------------------------------------------------------------------------------


def test_a_repository_that_was_never_set_up_is_one_fault_that_says_so(repo: Path) -> None:
    sprints = [f"1.{number}" for number in range(1, 201)]
    front_matter = plan().rstrip("\n") + "\n"
    (repo / "plan.md").write_text(plan(*sprints).replace(front_matter, ""), "utf-8")
    said = running.ralph("plan", "check", "plan.md", cwd=repo)
    assert said.code == 1
    assert len(said.err.splitlines()) == 2
    assert "beads-ralph init" in said.err

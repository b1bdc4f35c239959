"""Branches and remotes while a run is on: work builds on what it began with, what was proven stays there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.loop.plans import Project, Steps, git, sprint, work
from tests.loop.test_strangers import with_remote

TWO = (sprint("1.1", "One"), sprint("1.2", "Two"))
MOVE = (
    "git -C {root} commit --quiet --allow-empty --message person && "
    "git -C {root} rev-parse HEAD > {root}/../moved.txt"
)


def in_between(repo: Path, command: str) -> dict[str, Any]:
    """While the first bead is at work somebody does something in the main checkout."""
    steps: Steps = [{"run": command.format(root=repo)}, *work("one.txt")]
    return {"1.1": {"dev": steps}, "1.2": {"dev": work("two.txt")}}


def contains(repo: Path, whole: str, part: str) -> bool:
    return git(repo, "merge-base", part, whole) == git(repo, "rev-parse", part)


@pytest.mark.parametrize(("moves", "follows"), [("keep", False), ("follow", True)])
def test_beads_build_on_the_source_as_it_was_when_the_run_began(
    repo: Path, moves: str, follows: bool
) -> None:
    project = Project.make(repo, *TWO, script=in_between(repo, MOVE), source_moves=moves)
    before = git(repo, "rev-parse", "main")
    ran = project.run()
    assert (ran.code, len(ran.data["closed"])) == (0, 2), ran.out
    moved = (repo.parent / "moved.txt").read_text().strip()
    assert git(repo, "rev-parse", "main") == moved, "a person may move it"
    assert contains(repo, "feature/1-2-two", moved) is follows
    (remark,) = ran.data["remarks"]
    assert remark.startswith(f"main was moved from {before[:12]} to {moved[:12]} while the run was on")
    assert remark in [row["message"] for row in project.events("warning_given")]


def test_the_next_run_takes_the_source_as_it_is_then(repo: Path) -> None:
    project = Project.make(repo, *TWO, script=in_between(repo, MOVE))
    assert project.run("--bead", "bd-1-1-one").code == 0
    ran = project.run()
    assert (ran.code, ran.data["remarks"]) == (0, []), ran.out
    assert contains(repo, "feature/1-2-two", (repo.parent / "moved.txt").read_text().strip())


def test_a_source_is_put_back_where_the_settings_say_so(repo: Path) -> None:
    project = Project.make(repo, *TWO, script=in_between(repo, MOVE), source_moves="restore")
    before = git(repo, "rev-parse", "main")
    assert project.run().code == 0
    moved = (repo.parent / "moved.txt").read_text().strip()
    assert git(repo, "rev-parse", "main") == before
    assert git(repo, "rev-parse", f"refs/beads-ralph/moved/heads/main/{moved}") == moved


def test_a_branch_that_somebody_makes_before_its_turn_is_put_aside_and_kept(repo: Path) -> None:
    plant = (
        "git -C {root} branch feature/1-2-two $(git -C {root} commit-tree -p main -m planted main^{{tree}})"
    )
    project = Project.make(repo, *TWO, script=in_between(repo, plant))
    ran = project.run()
    assert (ran.code, len(ran.data["closed"])) == (0, 2), ran.out
    assert "planted" not in git(repo, "log", "--format=%s", "feature/1-2-two")
    (kept,) = git(repo, "for-each-ref", "--format=%(refname)", "refs/beads-ralph/moved").splitlines()
    assert git(repo, "log", "-1", "--format=%s", kept) == "planted"
    told = [row["message"] for row in project.events("warning_given", bead="bd-1-2-two")]
    assert any("refs/heads/feature/1-2-two was made by nobody of the run" in text for text in told)


def test_so_is_the_worktree_that_came_with_it(repo: Path) -> None:
    project = Project.make(repo, *TWO)
    project.ralph("mason", "plan.md", "--json")
    place = Path(project.metadata("bd-1-2-two")["worktree_path"])
    plant = f"git -C {{root}} worktree add -q -b feature/1-2-two {place} main && echo left > {place}/left.txt"
    project.write_script(
        in_between(
            repo,
            plant + " && git -C {root} update-ref refs/heads/feature/1-2-two "
            "$(git -C {root} commit-tree -p main -m planted main^{{tree}})",
        )
    )
    ran = project.run()
    assert (ran.code, len(ran.data["closed"])) == (0, 2), ran.out
    assert not (place / "left.txt").exists()
    assert (place.with_name(f"{place.name}.aside-1") / "left.txt").read_text() == "left\n"


def test_a_branch_from_before_the_run_goes_on(repo: Path) -> None:
    """Whatever a person has prepared there is part of it."""
    git(repo, "branch", "feature/1-1-one")
    prepared = git(repo, "commit-tree", "-p", "main", "-m", "prepared", "main^{tree}")
    git(repo, "update-ref", "refs/heads/feature/1-1-one", prepared)
    project = Project.make(repo, TWO[0])
    ran = project.run()
    assert ran.code == 0, ran.out
    assert contains(repo, "feature/1-1-one", prepared)


# --- the remote ---------------------------------------------------------------------------------------

SPOIL = "git -C {root} push --quiet --force origin main:refs/heads/feature/1-1-one"
DELETE = "git -C {root} push --quiet origin :refs/heads/feature/1-1-one"
MERGE = (
    "git -C {root} push --quiet origin refs/heads/feature/1-1-one:refs/heads/main :refs/heads/feature/1-1-one"
)


def second(repo: Path, command: str) -> dict[str, Any]:
    """While the second bead is at work somebody does something to what the first one proved."""
    steps: Steps = [{"run": command.format(root=repo)}, *work("two.txt")]
    return {"1.1": {"dev": work("one.txt")}, "1.2": {"dev": steps}}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", [SPOIL, DELETE], ids=["pushed over", "deleted"])
@pytest.mark.parametrize("runs", [1, 2])
def test_the_remote_holds_what_was_proven_at_the_end(repo: Path, command: str, runs: int) -> None:
    remote = with_remote(repo)
    project = Project.make(repo, *TWO, script=second(repo, command))
    git(repo, "push", "--quiet", "origin", "main")
    if runs == 2:
        assert project.run("--bead", "bd-1-1-one").code == 0
    ran = project.run()
    proven = project.metadata("bd-1-1-one")["proven"]["commit"]
    assert ran.code == 0, ran.out
    assert git(remote, "rev-parse", "refs/heads/feature/1-1-one") == proven
    assert any("feature/1-1-one was" in remark and "put back" in remark for remark in ran.data["remarks"])


def test_what_people_have_merged_may_be_deleted(repo: Path) -> None:
    remote = with_remote(repo)
    project = Project.make(repo, *TWO, script=second(repo, MERGE))
    git(repo, "push", "--quiet", "origin", "main")
    ran = project.run()
    assert (ran.code, ran.data["remarks"]) == (0, []), ran.out
    assert "feature/1-1-one" not in git(remote, "for-each-ref")


def test_a_bead_whose_commit_the_remote_will_not_take_back_is_blocked(repo: Path) -> None:
    remote = with_remote(repo)
    project = Project.make(repo, *TWO, script=second(repo, f"{SPOIL}; touch {repo.parent}/shut"))
    git(repo, "push", "--quiet", "origin", "main")
    hook = remote / "hooks" / "update"
    hook.write_text(f'#!/bin/sh\n[ ! -e {repo.parent}/shut ] || [ "$1" != refs/heads/feature/1-1-one ]\n')
    hook.chmod(0o755)
    ran = project.run()
    assert (ran.code, ran.data["ended"]) == (1, "blocked"), ran.out
    assert project.bead("bd-1-1-one").status == "blocked"
    why = {row["id"]: row["reason"] for row in ran.data["blocked"]}["bd-1-1-one"]
    assert "cannot be put back" in why

"""Refs read from git's files say what git says, or leave it to git."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.git import commands, git_files
from beads_ralph.git.commands import commit_of
from beads_ralph.git.worktree_status import current_branch, head
from tests.git.repos import commit, git, on_branch


def told(tree: Path, ref: str) -> str | None:
    """What git says."""
    try:
        return git(tree, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    except Exception:  # noqa: BLE001 - it has no such ref
        return None


@pytest.fixture
def tree(repo: Path) -> Path:
    on_branch(repo, "feature/a", {"a.txt": "a\n"})
    place = repo.parent / "tree"
    git(repo, "worktree", "add", "--quiet", str(place), "feature/a")
    return place


@pytest.mark.parametrize("packed", [False, True])
def test_heads_and_branches_are_as_git_says(repo: Path, tree: Path, packed: bool) -> None:
    if packed:
        git(repo, "pack-refs", "--all", "--prune")
    for place in (repo, tree):
        for ref in ("HEAD", "refs/heads/main", "refs/heads/feature/a"):
            assert git_files.commit_of(ref, place) == told(place, ref) is not None
    assert (git_files.branch_at(repo), git_files.branch_at(tree)) == ("main", "feature/a")


def test_a_ref_that_moves_after_it_was_packed_is_read_anew(repo: Path, tree: Path) -> None:
    git(repo, "pack-refs", "--all", "--prune")
    new = commit(tree, {"b.txt": "b\n"})
    assert git_files.commit_of("refs/heads/feature/a", repo) == git_files.commit_of("HEAD", tree) == new


def test_a_detached_head_is_a_commit_and_no_branch(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "--detach")
    assert git_files.commit_of("HEAD", tree) == head(tree) == told(tree, "HEAD")
    assert git_files.branch_at(tree) is None
    assert current_branch(tree) is None


def test_what_is_not_plain_to_see_is_left_to_git(repo: Path) -> None:
    git(repo, "tag", "-a", "-m", "one", "one")
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    for ref in ("refs/tags/one", "refs/heads/alias", "refs/heads/none", "refs/heads/../../HEAD", "main"):
        assert git_files.commit_of(ref, repo) is None
    assert commit_of("refs/tags/one", repo) == commit_of("refs/heads/alias", repo) == head(repo)
    assert commit_of("refs/heads/none", repo) is None
    inside = repo / "inside"
    inside.mkdir()
    assert git_files.commit_of("HEAD", inside) is None
    assert commit_of("HEAD", inside) == head(repo)


@pytest.mark.parametrize("text", ["", "\n", "0" * 40 + "\n", "rubbish\n", "\xff"])
def test_a_damaged_ref_is_no_commit(repo: Path, text: str) -> None:
    (repo / ".git" / "refs" / "heads" / "broken").write_bytes(text.encode("latin-1"))
    assert git_files.commit_of("refs/heads/broken", repo) is None


def test_a_branch_without_a_commit_has_a_name(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "trunk", "new")
    assert git_files.branch_at(tmp_path / "new") == "trunk"
    assert git_files.commit_of("HEAD", tmp_path / "new") is None


def test_a_repository_of_another_ref_format_is_left_to_git(repo: Path) -> None:
    (repo / ".git" / "reftable").mkdir()
    assert git_files.commit_of("HEAD", repo) is None
    assert git_files.branch_at(repo) is None


def test_refs_below_a_name_are_those_of_all_of_them(repo: Path) -> None:
    main = git(repo, "rev-parse", "main")
    for ref in (
        "refs/heads/a/b",
        "refs/heads/ab",
        "refs/pull/1/head",
        "refs/remotes/origin/x",
        "refs/tags/v1",
    ):
        git(repo, "update-ref", ref, main)
    git(repo, "symbolic-ref", "refs/heads/leads", "refs/pull/1/head")
    git(repo, "symbolic-ref", "refs/heads/nowhere", "refs/pull/2/head")
    for again in range(2):
        every = commands.refs_of(repo)
        assert every == dict(
            row.split() for row in git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        )
        for below in (("refs/heads/",), ("refs/heads/a/",), ("refs/pull/", "refs/tags/"), ("refs/none/",)):
            found = {ref: to for ref, to in every.items() if ref.startswith(below)}
            assert commands.refs_of(repo, *below) == found
        if not again:
            git(repo, "pack-refs", "--all")

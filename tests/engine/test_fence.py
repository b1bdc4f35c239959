"""Only the host with the newest token can push a bead's branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beads_ralph.engine import fence
from beads_ralph.engine.fence import Fenced
from beads_ralph.errors import Code, RalphError
from tests.git.repos import git

BEAD = "bd-1-1-one"
BRANCH = "refs/heads/feature/1-1-one"
Host = Callable[[str, str], Fenced]


@pytest.fixture
def remote(repo: Path, tmp_path: Path) -> str:
    git(repo, "clone", "--quiet", "--bare", str(repo), str(tmp_path / "remote.git"))
    return str(tmp_path / "remote.git")


@pytest.fixture
def host(remote: str, tmp_path: Path) -> Host:
    """A host with a clone of its own and a commit to push, given a token."""

    def make(name: str, token: str) -> Fenced:
        clone = tmp_path / name
        git(tmp_path, "clone", "--quiet", remote, str(clone))
        git(clone, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "--allow-empty", "-qm", name)
        return Fenced(clone, remote, BEAD, token)

    return make


def head(one: Fenced) -> dict[str, str]:
    return {BRANCH: git(one.root, "rev-parse", "HEAD")}


def pushed(remote: str) -> str:
    return git(Path(remote), "rev-parse", BRANCH)


def test_every_push_of_the_token_in_force_is_taken(repo: Path, remote: str, host: Host) -> None:
    fence.raise_anew(repo, remote, BEAD, "first", {})
    one = host("one", "first")
    assert one.push(head(one)) == ""
    git(one.root, "-c", "user.name=n", "-c", "user.email=e@x", "commit", "--allow-empty", "-qm", "again")
    assert one.push(head(one)) == ""
    assert pushed(remote) == head(one)[BRANCH]
    there = fence.refs_at(repo, remote, fence.fence_ref(BEAD))[fence.fence_ref(BEAD)]
    assert fence.token_at(repo, remote, there) == "first"


def test_a_host_that_was_given_up_pushes_nothing(repo: Path, remote: str, host: Host) -> None:
    fence.raise_anew(repo, remote, BEAD, "first", {})
    old = host("old", "first")
    fence.raise_anew(repo, remote, BEAD, "second", {})
    new = host("new", "second")
    assert new.push(head(new)) == ""
    with pytest.raises(RalphError) as refused:
        old.push({**head(old), "refs/heads/other": head(old)[BRANCH]})
    assert refused.value.code == Code.CONFLICT
    assert pushed(remote) == head(new)[BRANCH]
    assert "other" not in git(Path(remote), "for-each-ref")  # all of it, or nothing


def test_it_is_refused_also_where_the_fence_is_gone(repo: Path, remote: str, host: Host) -> None:
    """A bead that was closed has no fence any more."""
    fence.raise_anew(repo, remote, BEAD, "first", {})
    old, ref = host("old", "first"), fence.fence_ref(BEAD)
    assert fence.remove(repo, remote, fence.refs_at(repo, remote, ref)) == ""
    with pytest.raises(RalphError):
        old.push(head(old))
    assert "feature" not in git(Path(remote), "for-each-ref")


def test_a_push_whose_answer_was_lost_counts(repo: Path, remote: str, host: Host) -> None:
    fence.raise_anew(repo, remote, BEAD, "first", {})
    one = host("one", "first")
    assert one.push(head(one)) == ""
    one.step -= 1  # as it is where nobody heard that it was taken
    assert one.push(head(one)) == ""
    assert one.push(head(one)) == ""


def test_commits_that_others_pushed_are_not_overwritten(repo: Path, remote: str, host: Host) -> None:
    fence.raise_anew(repo, remote, BEAD, "first", {})
    one, stranger = host("one", "first"), host("stranger", "none")
    git(stranger.root, "push", "--quiet", "origin", f"HEAD:{BRANCH}")
    assert BRANCH in one.push(head(one))
    assert pushed(remote) == head(stranger)[BRANCH]
    ref = fence.fence_ref(BEAD)
    there = fence.refs_at(repo, remote, ref)[ref]
    assert fence.token_at(repo, remote, there) == "first"
    assert one.step == 0


def test_a_remote_that_is_away_is_a_problem_and_no_refusal(repo: Path, host: Host, tmp_path: Path) -> None:
    one = host("one", "first")
    one.remote = str(tmp_path / "nowhere.git")
    assert "nowhere.git" in one.push(head(one))
    assert one.step == 0

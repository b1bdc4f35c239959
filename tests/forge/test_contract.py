"""What every forge owes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.forge import FORGES
from beads_ralph.forge.protocol import Forge
from tests import selection
from tests.forge.places import Place, git, refs

PROPOSER = Path(__file__).with_name("proposer.py")
SHELL = "$(touch gone) `touch gone` ; rm -rf . && 'a\" \\n --body=x %s ${HOME} <!-- x --> \x1b[31m \t|&*?!#~"
MOST_STEPS = 60


def test_every_forge_is_one(any_place: Place) -> None:
    forge = any_place.open()
    assert isinstance(forge, Forge)
    assert forge.kind in FORGES


def test_proposing_gives_what_the_forge_holds(any_place: Place) -> None:
    proposal = any_place.proposal()
    pull = any_place.open().propose(proposal)
    assert (pull.branch, pull.target, pull.commit) == ("feature/one", "main", proposal.commit)
    if any_place.bare:
        assert refs(any_place.bare)["refs/heads/feature/one"] == proposal.commit


def test_what_was_pushed_over_or_deleted_is_put_back(place: Place) -> None:
    """With its pull request, which a forge closes where the branch is gone."""
    forge, proposal = place.open(), place.proposal()
    pull = forge.propose(proposal)
    if place.bare is None:
        assert forge.held(["feature/one"]) is None
        return
    assert forge.held(["feature/one", "feature/none"]) == {"feature/one": proposal.commit}
    git(place.bare, "update-ref", "refs/heads/feature/one", "refs/heads/main")
    other = git(place.bare, "rev-parse", "refs/heads/main")
    forge.put_back("feature/one", proposal.commit, other)
    assert refs(place.root, "refs/beads-ralph/moved").popitem()[1] == other
    git(place.bare, "update-ref", "-d", "refs/heads/feature/one")
    if place.hub is not None:
        place.hub.pulls[0].state = "CLOSED"
    forge.put_back("feature/one", proposal.commit, None)
    assert forge.held(["feature/one"]) == {"feature/one": proposal.commit}
    assert forge.find("feature/one") == pull


def test_only_what_was_found_there_is_replaced(place: Place) -> None:
    forge, proposal = place.open(), place.proposal()
    forge.propose(proposal)
    if place.bare is not None:
        with pytest.raises(RalphError):
            forge.put_back("feature/one", place.commit("feature/one"), None)
        assert forge.held(["feature/one"]) == {"feature/one": proposal.commit}


def test_what_people_have_taken_is_known(place: Place) -> None:
    forge, proposal = place.open(), place.proposal()
    forge.propose(proposal)
    assert not forge.is_taken("feature/one", "main", proposal.commit)
    if place.hub is not None:
        place.hub.merge(1)
    elif place.bare is not None:
        git(place.bare, "update-ref", "refs/heads/main", proposal.commit)
    assert forge.is_taken("feature/one", "main", proposal.commit) is (place.bare is not None)


def test_a_pull_request_that_people_closed_unmerged_is_named(place: Place) -> None:
    forge, proposal = place.open(), place.proposal()
    pull = forge.propose(proposal)
    assert forge.declined(["feature/one"]) == {}
    if place.hub is not None:
        place.hub.pulls[0].state = "CLOSED"
    else:
        record = place.root / ".ralph" / "pulls" / f"{pull.number}.json"
        record.write_text(record.read_text().replace('"open"', '"closed"'))
    assert list(forge.declined(["feature/one", "feature/none"])) == ["feature/one"]
    again = forge.propose(proposal)
    assert (again.number, forge.declined(["feature/one"])) == (2, {}), "another one stands for the branch"


def test_twice_is_once(place: Place) -> None:
    forge, proposal = place.open(), place.proposal()
    assert forge.find("feature/one") is None
    first = forge.propose(proposal)
    assert place.open().propose(proposal) == first == forge.find("feature/one")
    assert place.proposed("feature/one") == [first.number]


def test_more_work_moves_the_pull_request_forward(place: Place) -> None:
    forge = place.open()
    first = forge.propose(place.proposal(text="one"))
    proposal = place.proposal(text="two", body="Also the second.")
    assert forge.propose(proposal) == replace(first, commit=proposal.commit)
    assert "Also the second." in place.text(first.number)
    assert "All checks passed." not in place.text(first.number)


def test_the_beads_of_a_branch_share_its_pull_request(place: Place) -> None:
    forge = place.open()
    first = forge.propose(place.proposal(bead_id="bd-1", body="First is done."))
    second = forge.propose(place.proposal(bead_id="bd-2", body="Second is done.", text="two"))
    assert second.number == first.number
    assert "First is done." in place.text(first.number)
    assert "Second is done." in place.text(first.number)


def test_every_branch_has_its_own(place: Place) -> None:
    forge = place.open()
    pulls = [forge.propose(place.proposal(branch)) for branch in ("plan/1.1", "plan/1.2", "1", "ünï/cödé")]
    assert [pull.number for pull in pulls] == [1, 2, 3, 4]
    assert [forge.find(pull.branch) for pull in pulls] == pulls


@pytest.mark.parametrize("branch", ["main", "master", "develop", "release"])
def test_protected_branches_and_the_target_are_refused(any_place: Place, branch: str) -> None:
    proposal = replace(any_place.proposal("feature/one"), branch=branch, target="release")
    before = refs(any_place.bare) if any_place.bare else {}
    with pytest.raises(RalphError) as refused:
        any_place.open().propose(proposal)
    assert refused.value.code == Code.FORGE_FAILED
    assert branch in refused.value.message
    assert (refs(any_place.bare) if any_place.bare else {}) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"branch": "x:refs/heads/main"},
        {"branch": "-f"},
        {"branch": "a..b"},
        {"branch": ""},
        {"commit": ""},
        {"commit": "HEAD"},
        {"commit": "+main"},
        {"branch": "never/made"},
    ],
)
def test_names_that_are_none_are_refused(any_place: Place, changes: dict[str, str]) -> None:
    proposal = replace(any_place.proposal(), **changes)
    before = refs(any_place.bare) if any_place.bare else {}
    with pytest.raises(RalphError) as refused:
        any_place.open().propose(proposal)
    assert refused.value.code == Code.FORGE_FAILED
    assert (refs(any_place.bare) if any_place.bare else {}) == before


def test_only_the_checked_commit_is_proposed(any_place: Place) -> None:
    proposal = any_place.proposal(text="checked")
    any_place.commit("feature/one", "sneaked in afterwards")
    with pytest.raises(RalphError, match="has moved on"):
        any_place.open().propose(proposal)


def test_commits_that_went_missing_are_not_given_up(place: Place) -> None:
    forge = place.open()
    kept = forge.propose(place.proposal(text="first"))
    git(place.root, "branch", "--force", "feature/one", "main")
    with pytest.raises(RalphError) as refused:
        forge.propose(place.proposal(text="rewritten"))
    assert "not" in refused.value.message
    assert "git log" in refused.value.suggested_action
    assert forge.find("feature/one") == kept


@pytest.mark.parametrize("title", ["Größe 测试 🚀 \u202ertl", SHELL, "--web", "-x", "two\nlines", "t" * 500])
def test_titles_are_only_text(place: Place, title: str) -> None:
    pull = place.open().propose(place.proposal(title=title))
    assert " ".join(title.split())[:256] in place.text(pull.number)
    assert not (place.root / "gone").exists()


@pytest.mark.parametrize(
    "body", [SHELL, "", "é🚀" * 30_000, "x" * 60_000, "-", "@/etc/hostname", "a\n\n```\nb\n```"]
)
def test_bodies_are_only_text(place: Place, body: str) -> None:
    pull = place.open().propose(place.proposal(body=body))
    assert body in place.text(pull.number)
    assert not (place.root / "gone").exists()


def test_one_worktree_more_changes_nothing(place: Place) -> None:
    """Teams work in worktrees, where the branch is checked out."""
    proposal = place.proposal()
    git(place.root, "worktree", "add", "--quiet", str(place.root.parent / "tree"), "feature/one")
    assert place.open().propose(proposal).commit == proposal.commit


def _propose(place: Place, branch: str, commit: str, step: int = 0) -> subprocess.Popen[str]:
    words = [sys.executable, str(PROPOSER), place.kind, str(place.root), branch, commit, str(step)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode in {0, -signal.SIGKILL}, err
    return process.returncode, out


def _killed_at_every_step(place: Place) -> Iterator[tuple[str, str]]:
    """In the quick run at every third."""
    for step in range(1, MOST_STEPS, 1 if selection.ALL else 3):
        branch = f"work/{step}"
        commit = place.commit(branch)
        with _propose(place, branch, commit, step) as process:
            code, _ = _ended(process)
        yield branch, commit
        if code == 0:
            return
    pytest.fail("it never came to its end")


def test_killed_at_any_step_it_is_finished_the_next_time(place: Place) -> None:
    """Law 3: nothing is lost, and no second pull request comes of it."""
    forge = place.open()
    numbers = []
    for branch, commit in _killed_at_every_step(place):
        assert len(place.proposed(branch)) <= 1
        found = forge.find(branch)
        pull = forge.propose(replace(place.proposal("other"), branch=branch, commit=commit))
        assert pull.commit == commit
        assert found is None or found == pull
        assert place.proposed(branch) == [pull.number]
        numbers.append(pull.number)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > (5 if selection.ALL else 2)


def test_many_at_once_open_one(place: Place) -> None:
    commit = place.commit("feature/one")
    with ExitStack() as stack:
        running = [stack.enter_context(_propose(place, "feature/one", commit)) for _ in range(6)]
        answers = [json.loads(_ended(process)[1]) for process in running]
    assert {(answer["number"], answer["commit"]) for answer in answers} == {(1, commit)}
    assert place.proposed("feature/one") == [1]


def test_many_at_once_take_different_numbers(place: Place) -> None:
    work = {branch: place.commit(branch) for branch in ("a/1", "a/2", "b/1", "b/2", "b/3", "c")}
    with ExitStack() as stack:
        running = [stack.enter_context(_propose(place, branch, commit)) for branch, commit in work.items()]
        answers = [json.loads(_ended(process)[1]) for process in running]
    assert sorted(answer["number"] for answer in answers) == [1, 2, 3, 4, 5, 6]
    assert {answer["branch"]: answer["commit"] for answer in answers} == work

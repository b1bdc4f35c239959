"""What GitHub Copilot CLI itself does, where its adapter rests on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.git.repos import git
from tests.real.calling import Caller, subjects

pytestmark = [pytest.mark.real_agents, pytest.mark.nightly]


@pytest.fixture
def call(caller: Callable[[str], Caller]) -> Caller:
    return caller("copilot")


def test_a_tool_that_is_denied_leaves_a_success_that_says_so(call: Caller) -> None:
    ended, reply = call("Add hello.py.", "denied", options=["--deny-tool=shell(git:*)"])
    assert ended.ok, ended.stderr
    assert (reply.trouble, reply.denied) == ("", ("bash",))
    assert subjects(call.worktree) == []


def test_a_session_goes_on_where_it_is_asked_to(call: Caller) -> None:
    """By itself it would go back to the folder in which the session began."""
    _, first = call("Add hello.py. MARK-one")
    other = call.worktree.parent / "other"
    git(call.worktree, "worktree", "add", "--quiet", "-b", "other", str(other))
    there = replace(call, worktree=other)
    _, second = there("QA says: mend it. MARK-two", session_id=first.session_id)
    assert second.result is not None
    assert second.result["markers"] == ["MARK-one", "MARK-two"]
    assert git(other, "log", "-1", "--format=%s") == "Fix hello.py per QA"
    assert subjects(call.worktree) == ["Add hello.py"]


def test_a_prompt_is_text_whatever_it_begins_with(call: Caller) -> None:
    for prompt in ("/clear MARK-one", "@README.md MARK-one", "!touch hacked MARK-one"):
        _, reply = call(prompt, "text")
        assert reply.result is not None
        assert prompt in call.questions[0].said
    assert not (call.worktree / "hacked").exists()

"""What opencode itself does, where its adapter rests on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.git.repos import git
from tests.real.calling import Caller, subjects

pytestmark = [pytest.mark.real_agents, pytest.mark.nightly]


@pytest.fixture
def call(caller: Callable[[str], Caller]) -> Caller:
    return caller("opencode")


def test_a_rule_of_the_user_that_denies_goes_before_our_approval(call: Caller) -> None:
    rule = '{"bash": {"*": "allow", "printf *": "deny"}}'
    ended, reply = call("Add hello.py.", "denied", env={"OPENCODE_PERMISSION": rule})
    assert ended.ok, ended.stderr
    assert (reply.trouble, reply.denied) == ("", ("bash",))
    assert subjects(call.worktree) == []


def test_a_session_of_another_folder_is_not_gone_on_with(call: Caller) -> None:
    """By itself it would work in that folder, print nothing and never end."""
    _, first = call("Add hello.py. MARK-one")
    other = call.worktree.parent / "other"
    git(call.worktree, "worktree", "add", "--quiet", "-b", "other", str(other))
    there = replace(call, worktree=other)
    ended, second = there("QA says: mend it. MARK-two", session_id=first.session_id)
    assert not ended.timed_out
    assert (second.trouble, second.session_id) == ("forgotten", None)
    assert there.questions == []
    assert subjects(call.worktree) == ["Add hello.py"]


def test_a_long_wait_for_a_limit_is_ours(call: Caller) -> None:
    begun = datetime.now(UTC)
    ended, reply = call("Add hello.py.", "429r3600", timeout=240.0)
    assert not ended.timed_out
    assert reply.trouble == "limit"
    assert reply.limit_reset_at is not None
    assert datetime.fromisoformat(reply.limit_reset_at) >= begun + timedelta(hours=1)
    assert len(call.questions) == 1


def test_a_model_that_does_not_exist_is_refused_by_name(call: Caller) -> None:
    _, reply = call("Add hello.py.", model="scripted/no-such-model")
    assert reply.trouble == "configuration"
    assert "no-such-model" in reply.detail
    assert call.questions == []

"""What is special to Codex, with the real one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from beads_ralph.bead.model import OUTPUT_SCHEMA
from tests.git.repos import git
from tests.real.calling import Caller, says, subjects
from tests.real.clis import MODEL

pytestmark = pytest.mark.real_agents
BYPASS = "--dangerously-bypass-approvals-and-sandbox"
# Or the worktrees of tests would be writable because they lie in /tmp.
NO_TMP = [
    "-c",
    "sandbox_workspace_write.exclude_slash_tmp=true",
    "-c",
    "sandbox_workspace_write.exclude_tmpdir_env_var=true",
]
COMMIT = "echo 1 > one.txt && git add one.txt && git commit --quiet -m One"


@pytest.fixture
def call(caller: Callable[[str], Caller]) -> Caller:
    return caller("codex")


def test_the_sandbox_lets_it_commit_and_no_more(call: Caller) -> None:
    common = call.worktree.parents[1] / "app" / ".git"
    outside = call.worktree.parent / "outside"
    commands = (
        COMMIT,
        "git branch other && git tag tagged",
        f"touch {outside}",
        f"echo '#!/bin/sh' > {common}/hooks/post-commit",
        "git config user.name Somebody",
    )
    ended, reply = call("Go on.", rules=says("Done.", *commands), options=NO_TMP)
    assert ended.ok, ended.stderr
    assert reply.trouble == ""
    assert subjects(call.worktree) == ["One"]
    assert git(call.worktree, "tag") == "tagged"
    assert not outside.exists()
    assert not (common / "hooks" / "post-commit").exists()
    assert "Somebody" not in (common / "config").read_text("utf-8")


def test_a_user_may_do_without_the_sandbox(call: Caller) -> None:
    outside = call.worktree.parent / "outside"
    _, reply = call("Go on.", rules=says("Done.", COMMIT, f"touch {outside}"), options=[*NO_TMP, BYPASS])
    assert reply.trouble == ""
    assert subjects(call.worktree) == ["One"]
    assert outside.exists()


@pytest.mark.parametrize(
    "options", [["-s", "read-only"], ["--sandbox=read-only"], ["-c", 'sandbox_mode="read-only"']]
)
def test_a_user_may_ask_for_a_tighter_one(call: Caller, options: list[str]) -> None:
    ended, reply = call("Go on.", rules=says("Done.", COMMIT), options=[*NO_TMP, *options])
    assert ended.ok, ended.stderr
    assert reply.trouble == ""
    assert not (call.worktree / "one.txt").exists()


def test_a_sandbox_that_cannot_start_is_no_work_done(call: Caller) -> None:
    """The CLI ends with 0 then, and its model may claim what it likes."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare to take the namespaces away")
    none_left = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    call.before = ("unshare", "--user", "--map-root-user", "sh", "-c", none_left, "sh")
    ended, reply = call("Add hello.py.", "denied")
    assert ended.ok, ended.stderr
    assert reply.trouble == "configuration"
    assert BYPASS in reply.detail
    assert subjects(call.worktree) == []


def test_a_used_up_plan_says_when_it_is_over(call: Caller) -> None:
    for seconds in (600, 200_000):
        before = datetime.now(UTC)
        _, reply = call("Add hello.py.", f"limitr{seconds}")
        assert reply.trouble == "limit"
        assert reply.limit_reset_at is not None
        until = datetime.fromisoformat(reply.limit_reset_at) - before
        assert timedelta(seconds=seconds - 1) <= until <= timedelta(seconds=seconds + 130)


def test_a_limit_that_it_waits_for_is_one_when_its_time_is_up(call: Caller) -> None:
    ended, reply = call("Add hello.py.", "429r600", timeout=5.0)
    assert ended.timed_out
    assert reply.trouble == "limit"


def test_the_form_of_a_verdict_is_sent_in_its_strict_variant(call: Caller) -> None:
    call("Judge.", "text", role="qa", output_schema=OUTPUT_SCHEMA)
    schema = call.questions[0].schema
    assert schema is not None
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["status", "message"]
    assert schema["properties"]["status"]["type"] == "string"


@pytest.mark.parametrize(
    ("model", "options", "asked"),
    [
        ("sonnet", [], MODEL),
        ("gpt-other", [], "gpt-other"),
        ("gpt-other", ["-m", "gpt-third"], "gpt-third"),
        ("gpt-other", ["--model=gpt-third", "--json", "--skip-git-repo-check"], "gpt-third"),
    ],
)
def test_the_users_model_goes_before_all(call: Caller, model: str, options: list[str], asked: str) -> None:
    ended, _ = call("Go on.", "text", model=model, options=options)
    assert ended.ok, ended.stderr
    assert call.questions[0].model == asked


def test_the_users_model_holds_in_a_resumed_session(call: Caller) -> None:
    options = ["-m", "gpt-third"]
    _, first = call("Go on. MARK-one", "text", options=options)
    ended, second = call("Go on. MARK-two", "text", options=options, session_id=first.session_id)
    assert ended.ok, ended.stderr
    assert call.questions[0].model == "gpt-third"
    assert second.result is not None
    assert second.result["markers"] == ["MARK-one", "MARK-two"]


def test_a_missing_key_is_named(call: Caller) -> None:
    _, reply = call("Go on.", "text", env={"SCRIPTED_KEY": ""})
    assert reply.trouble == "auth"
    assert "SCRIPTED_KEY" in reply.detail

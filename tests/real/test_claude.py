"""What is special to Claude Code, with the real one."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from beads_ralph.agents.adapters.claude import Claude
from beads_ralph.bead.personas import Persona
from tests.real.calling import Caller, subjects
from tests.real.users import unprivileged

pytestmark = pytest.mark.real_agents
BARE = {"PATH": os.environ["PATH"]}
SKIP = "--dangerously-skip-permissions"
SIGNED_IN = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "dummy"}


@pytest.fixture
def call(caller: Callable[[str], Caller]) -> Caller:
    return caller("claude")


@pytest.mark.parametrize("options", [[SKIP], ["--permission-mode", "bypassPermissions"]])
def test_root_gets_what_the_default_options_mean(call: Caller, options: list[str]) -> None:
    """Which the CLI itself would refuse."""
    ended, reply = call("Add hello.py.", options=options, adapter=Claude(BARE, as_root=True))
    assert ended.ok, ended.stderr
    assert (reply.trouble, reply.denied) == ("", ())
    assert subjects(call.worktree) == ["Add hello.py"]


@pytest.mark.parametrize("who", ["a user", "a sandbox"])
def test_others_get_the_default_options_as_they_are(call: Caller, who: str) -> None:
    call.before = unprivileged() if who == "a user" else ()
    env = {} if who == "a user" else {"IS_SANDBOX": "1"}
    adapter = Claude(BARE, as_root=who != "a user")
    if who == "a user" and not call.before:
        pytest.skip("only root can become another user, and only where there are user namespaces")
    ended, reply = call("Add hello.py.", options=[SKIP], adapter=adapter, env=env)
    assert ended.ok, ended.stderr
    assert reply.trouble == ""
    assert call.job is not None
    assert SKIP in call.job.argv
    assert subjects(call.worktree) == ["Add hello.py"]


@pytest.mark.parametrize(
    "form", [["--output-format", "json"], ["--output-format=text"], ["--allowedTools", "Bash"]]
)
def test_options_that_would_hide_the_answer_do_not(call: Caller, form: list[str]) -> None:
    ended, reply = call("Add hello.py. MARK-one", options=["--permission-mode=dontAsk", *form, "--verbose"])
    assert ended.ok, ended.stderr
    assert reply.result is not None
    assert reply.session_id


def test_a_tool_that_is_not_allowed_is_told(call: Caller) -> None:
    ended, reply = call("Add hello.py.", "denied", options=["--permission-mode=dontAsk"])
    assert ended.ok, ended.stderr
    assert reply.denied == ("Bash",)
    assert subjects(call.worktree) == []


def test_memory_timers_wake_ups_and_tasks_in_the_background_are_off(call: Caller) -> None:
    ended, _ = call("Go on.", "text")
    assert ended.ok, ended.stderr
    asked = call.questions[0]
    offered = {tool.name for tool in asked.tools}
    assert not offered & {"CronCreate", "CronDelete", "CronList", "Monitor", "ScheduleWakeup"}
    bash = asked.tool("Bash")
    assert bash is not None
    assert "run_in_background" not in bash.schema["properties"]
    assert ended.transcript is not None
    assert "memory_paths" not in ended.transcript.out.read_text("utf-8")


def test_the_persona_is_not_the_file_in_the_worktree(call: Caller) -> None:
    """Which an agent may have changed."""
    file = call.worktree / ".claude" / "agents" / "dev.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: dev\ndescription: x\n---\nMARK-changed", encoding="utf-8")
    persona = Persona("dev", "Builds.", "MARK-trusted", None, ("Read",))
    ended, _ = call("Go on.", "text", persona=persona)
    assert ended.ok, ended.stderr
    asked = call.questions[0]
    assert "MARK-trusted" in asked.system
    assert "MARK-changed" not in asked.system
    assert "Write" not in {tool.name for tool in asked.tools}


def test_a_used_up_subscription_says_when_it_is_over(call: Caller) -> None:
    before = datetime.now(UTC)
    _, reply = call("Add hello.py.", "limitr600", env=SIGNED_IN)
    assert reply.trouble == "limit"
    assert reply.limit_reset_at is not None
    until = datetime.fromisoformat(reply.limit_reset_at) - before
    assert timedelta(seconds=599) <= until <= timedelta(seconds=700)


def test_nobody_signed_in(call: Caller) -> None:
    _, reply = call("Add hello.py.", "text", env={"ANTHROPIC_API_KEY": ""})
    assert reply.trouble == "auth"
    assert "claude auth login" in reply.detail
    assert call.questions == []


def test_a_budget_ends_the_call(call: Caller) -> None:
    ended, reply = call("Add hello.py.", "loop", budget_usd=0.005)
    assert not ended.ok
    assert reply.trouble == "unfinished"
    assert "budget" in reply.detail
    assert (reply.usage + reply.session_usage).cost_usd


@pytest.mark.parametrize("budget", [0.0, 0.00001])
def test_a_budget_of_next_to_nothing_is_one_too(call: Caller, budget: float) -> None:
    _, reply = call("Add hello.py.", "loop", budget_usd=budget)
    assert (reply.trouble, "budget" in reply.detail) == ("unfinished", True)


def test_turns_are_capped_by_the_users_option(call: Caller) -> None:
    _, reply = call("Add hello.py.", "loop", options=["--max-turns=2"])
    assert reply.trouble == "unfinished"
    assert "turns" in reply.detail

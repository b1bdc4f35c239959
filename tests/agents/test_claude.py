"""Claude Code's command line, and what its events mean; with the real one: tests/real/test_claude.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.adapters.claude import Claude
from beads_ralph.bead.model import OUTPUT_SCHEMA
from beads_ralph.bead.personas import Persona
from beads_ralph.process.jobs import Exit, Job
from tests.agents import cassettes
from tests.agents.running import environment, spec, task, transcript

SKIP = "--dangerously-skip-permissions"
USER, ROOT = Claude({}, as_root=False), Claude({}, as_root=True)
PERSONA = Persona("qa one", "", "Judge.", "haiku", ("Read", "mcp__tests__run"))


def command(folder: Path, adapter: Claude = USER, options: list[str] | None = None, **fields: Any) -> Job:
    env = fields.pop("own", None)
    agent = spec(executable="claude", options=options, **({"env": env} if env else {}))
    return adapter.command(task(folder, agent, **fields), transcript(folder))


def value(job: Job, flag: str) -> str:
    """The last one, which is what the CLI takes."""
    return [word.partition("=")[2] for word in job.argv if word.startswith(f"{flag}=")][-1]


def test_a_new_session_has_an_id_that_is_ours_and_an_old_one_is_resumed(tmp_path: Path) -> None:
    job = command(tmp_path)
    assert value(job, "--session-id") == environment(job)["BEADS_RALPH_SESSION"]
    old = "0f0e0d0c-0b0a-4908-8706-050403020100"
    resumed = command(tmp_path, session_id=old)
    assert value(resumed, "--resume") == old
    assert not [word for word in resumed.argv if word.startswith("--session-id")]


def test_who_to_be_goes_along_with_its_tools_and_the_one_for_the_answer(tmp_path: Path) -> None:
    job = command(tmp_path, persona=PERSONA, output_schema=OUTPUT_SCHEMA, model="haiku")
    said = {"description": "qa one", "prompt": "Judge.", "tools": [*PERSONA.tools, "StructuredOutput"]}
    assert json.loads(value(job, "--agents")) == {"qa-one": said}
    assert value(job, "--agent") == "qa-one"
    assert value(job, "--model") == "haiku"
    assert json.loads(value(job, "--json-schema")) == OUTPUT_SCHEMA


@pytest.mark.parametrize("persona", [None, Persona("dev", "Builds.", "")])
def test_a_persona_that_says_nothing_is_the_plain_cli(tmp_path: Path, persona: Persona | None) -> None:
    job = command(tmp_path, persona=persona)
    assert not [word for word in job.argv if word.startswith("--agent")]


@pytest.mark.parametrize(
    "options",
    [[SKIP], ["--permission-mode", "bypassPermissions"], ["--permission-mode=bypassPermissions"]],
)
def test_root_asks_for_what_it_may_have(tmp_path: Path, options: list[str]) -> None:
    given = ["--effort=high", *options, "--max-turns", "9"]
    assert command(tmp_path, USER, given).argv[-6 - len(options) + 1 : -2] == tuple(given)
    argv = command(tmp_path, ROOT, given, persona=PERSONA).argv
    assert not set(options) & set(argv)
    assert "--permission-mode=dontAsk" in argv
    allowed = next(word for word in argv if word.startswith("--allowedTools=")).partition("=")[2].split(",")
    assert {"Bash", "Edit", "Write", "mcp__tests__run"} <= set(allowed)
    assert argv[-4:-2] == ("--max-turns", "9")


@pytest.mark.parametrize(("said", "kept"), [("1", True), ("yes", False), ("", False)])
def test_root_in_a_sandbox_is_left_to_the_cli_where_that_knows_it(
    tmp_path: Path, said: str, kept: bool
) -> None:
    assert (SKIP in command(tmp_path, ROOT, [SKIP], own={"IS_SANDBOX": said}).argv) is kept


@pytest.mark.parametrize(
    "options",
    [
        ["--permission-mode=plan"],
        ["--permission-mode", "acceptEdits"],
        ["--allowedTools", "Read", "Bash(git *)"],
    ],
)
def test_the_users_own_permissions_are_all_there_are(tmp_path: Path, options: list[str]) -> None:
    for adapter in (USER, ROOT):
        argv = command(tmp_path, adapter, options).argv
        assert not [word for word in argv if "dontAsk" in word or word.startswith("--allowedTools=")]


@pytest.mark.parametrize("options", [None, [], ["--max-turns=50"]])
def test_who_says_nothing_of_permissions_can_work_unattended(
    tmp_path: Path, options: list[str] | None
) -> None:
    argv = command(tmp_path, USER, options).argv
    assert "--permission-mode=dontAsk" in argv
    assert [word for word in argv if word.startswith("--allowedTools=") and "Bash" in word]


def test_credentials_of_a_cloud_come_only_for_its_models(tmp_path: Path) -> None:
    ours = {"AWS_SECRET_ACCESS_KEY": "x", "AZURE_CLIENT_SECRET": "x", "ANTHROPIC_API_KEY": "k"}
    env = environment(command(tmp_path, Claude(ours)))
    assert (env["ANTHROPIC_API_KEY"], "AWS_SECRET_ACCESS_KEY" in env) == ("k", False)
    env = environment(command(tmp_path, Claude({**ours, "CLAUDE_CODE_USE_BEDROCK": "1"})))
    assert ("AWS_SECRET_ACCESS_KEY" in env, "AZURE_CLIENT_SECRET" in env) == (True, False)
    env = environment(command(tmp_path, Claude(ours), own={"CLAUDE_CODE_USE_FOUNDRY": "1"}))
    assert ("AWS_SECRET_ACCESS_KEY" in env, "AZURE_CLIENT_SECRET" in env) == (False, True)


@pytest.mark.parametrize(
    "name",
    [
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_PID",
        "CLAUDE_EFFORT",
    ],
)
def test_it_does_not_learn_of_a_session_around_it(tmp_path: Path, name: str) -> None:
    assert name not in environment(command(tmp_path, Claude({name: "x"})))


# --- what it answers ----------------------------------------------------------------------------------


def result(**fields: Any) -> dict[str, Any]:
    plain = {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "result": "Done."}
    return {**plain, **fields}


def failed(status: int | None, kind: str = "", **fields: Any) -> list[dict[str, Any]]:
    return [
        {"type": "assistant", "error": kind, "message": {}},
        result(is_error=True, api_error_status=status, result="API Error", **fields),
    ]


@pytest.mark.parametrize(
    ("events", "code", "trouble"),
    [
        ([result()], 0, ""),
        (failed(429, "rate_limit"), 1, "limit"),
        (failed(529, "overloaded"), 1, "server"),
        (failed(None, "server_error"), 1, "server"),
        (failed(400, "invalid_request"), 1, "refused"),
        (failed(400, "billing_error"), 1, "credit"),
        (failed(402, "unknown"), 1, "credit"),
        (failed(404, "model_not_found"), 1, "configuration"),
        (failed(None, "authentication_failed"), 1, "auth"),
        (failed(None, "something new"), 1, "unfinished"),
        ([result(subtype="error_during_execution", is_error=True)], 0, "unfinished"),
        ([result(is_error=None)], 0, "unfinished"),
        ([result(subtype="error_max_turns", is_error=True)], 1, "unfinished"),
        ([result(subtype="error_max_structured_output_retries", is_error=True)], 1, "unreadable"),
        ([{"type": "system", "subtype": "init", "session_id": "s"}], 0, "unfinished"),
        ([{"type": "system", "subtype": "init", "session_id": "s"}], 143, ""),
    ],
)
def test_what_the_last_event_means(events: list[dict[str, Any]], code: int, trouble: str) -> None:
    reply = USER.reply(Exit(code), map(json.dumps, events))
    assert reply.trouble == trouble


def test_words_about_errors_are_only_words() -> None:
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "429 rate_limit"}]}}
    reply = USER.reply(
        Exit(0), map(json.dumps, [said, result(result='{"type": "result"} 401 No conversation')])
    )
    assert (reply.trouble, reply.limit_reset_at) == ("", None)


def test_several_results_are_counted_together_and_the_last_one_decides() -> None:
    used = {
        "input_tokens": 10,
        "output_tokens": 1,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2,
    }
    events = [result(usage=used, total_cost_usd=0.1, result="First."), result(usage=used, total_cost_usd=0.3)]
    reply = USER.reply(Exit(0), map(json.dumps, events))
    assert reply.text == "Done."
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cache_tokens) == (20, 2, 14)
    assert (reply.usage.cost_usd, reply.session_usage.cost_usd) == (None, 0.3)


def test_the_work_of_helpers_is_counted_too() -> None:
    each = {"inputTokens": 7, "outputTokens": 1, "cacheReadInputTokens": 1, "cacheCreationInputTokens": 1}
    models = {"model_usage_since_last_result": {"opus": each, "haiku": each}}
    reply = USER.reply(Exit(0), [json.dumps(result(usage={"input_tokens": 7}, **models))])
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cache_tokens) == (14, 2, 4)


def test_a_verdict_comes_in_its_form_or_in_the_text() -> None:
    verdict = {"status": "pass", "message": "green"}
    shaped = USER.reply(Exit(0), [json.dumps(result(structured_output=verdict))])
    told = USER.reply(Exit(0), [json.dumps(result(result=f"So:\n```json\n{json.dumps(verdict)}\n```"))])
    assert shaped.result == told.result == verdict
    broken = USER.reply(Exit(0), [json.dumps(result(result="```json\n{status: pass}\n```"))])
    assert (broken.result, broken.trouble) == (None, "unreadable")


@pytest.mark.parametrize(("at", "text"), [(1794748080, "2026-11-15T13:08:00Z"), (1e30, None), ("soon", None)])
def test_when_a_limit_ends(at: Any, text: str | None) -> None:
    info = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": at}}
    warning = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "resetsAt": 1}}
    reply = USER.reply(Exit(1), map(json.dumps, [info, warning, *failed(429, "rate_limit")]))
    assert reply.limit_reset_at == text
    passed = USER.reply(Exit(0), map(json.dumps, [info, result()]))
    assert (passed.trouble, passed.limit_reset_at) == ("", None)


# --- recorded runs ------------------------------------------------------------------------------------

TROUBLES = {
    "402": "credit",
    "credit": "credit",
    "toolong": "too_long",
    "unreachable": "server",
    **dict.fromkeys(("ok", "resumed", "prose", "killed", "denied"), ""),
    "400": "refused",
    "turn-limit": "unfinished",
    **dict.fromkeys(("404", "unknown-option"), "configuration"),
    "413": "too_long",
    **dict.fromkeys(("401", "403", "not-signed-in"), "auth"),
    **dict.fromkeys(("500", "529", "drop", "malformed"), "server"),
    **dict.fromkeys(("429", "quota", "subscription"), "limit"),
    "unknown-session": "forgotten",
}


def test_every_recorded_run_is_looked_at() -> None:
    assert cassettes.scenarios("claude") == set(TROUBLES)


@pytest.mark.parametrize(("scenario", "trouble"), TROUBLES.items())
def test_what_a_recorded_run_comes_to(scenario: str, trouble: str) -> None:
    reply = cassettes.reply("claude", scenario)
    assert reply.trouble == trouble
    assert bool(reply.detail) == bool(trouble)


def test_a_recorded_limit_tells_when_it_ends_and_a_recorded_refusal_of_what() -> None:
    assert re.fullmatch(r"2\d{3}-.*:\d\dZ", cassettes.reply("claude", "subscription").limit_reset_at or "")
    assert cassettes.reply("claude", "denied").denied == ("Bash",)


def test_what_a_recorded_run_cost() -> None:
    first, again = cassettes.reply("claude", "ok"), cassettes.reply("claude", "resumed")
    assert first.session_id == again.session_id
    assert (first.usage.input_tokens, first.usage.output_tokens, first.usage.cache_tokens) == (2100, 41, 700)
    assert (again.usage.input_tokens, again.usage.output_tokens, again.usage.cache_tokens) == (2300, 43, 700)
    cost = (again.session_usage - first.session_usage).cost_usd
    assert cost is not None
    assert first.session_usage.cost_usd is not None
    assert first.session_usage.cost_usd < cost < 1.2 * first.session_usage.cost_usd

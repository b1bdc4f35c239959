"""Gemini CLI: its command line, and what recorded runs of it come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.agents.adapters.gemini import SETTINGS, Gemini, as_text
from beads_ralph.agents.verdicts import judge
from beads_ralph.bead.personas import Persona
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job
from tests.agents import cassettes
from tests.agents.running import environment, spec, task, transcript

SESSION = "11111111-2222-4333-8444-555555555555"
KEY = {"GEMINI_API_KEY": "k"}


def job(
    folder: Path, adapter: Gemini | None = None, *, options: list[str] | None = None, **fields: Any
) -> Job:
    agent = spec(executable="gemini", options=options, env=fields.pop("env", None))
    return (adapter or Gemini({}, root=False)).command(task(folder, agent, **fields), transcript(folder))


# --- the command line ---------------------------------------------------------------------------------


def test_a_new_session_has_an_id_chosen_before_and_everything_is_approved(tmp_path: Path) -> None:
    made = job(tmp_path)
    fresh = environment(made)["BEADS_RALPH_SESSION"]
    assert made.argv == (
        "gemini",
        "--output-format=stream-json",
        "--skip-trust",
        "--approval-mode=yolo",
        f"--session-id={fresh}",
    )
    assert environment(made)["GEMINI_CLI_NO_RELAUNCH"] == "true"


def test_feedback_goes_to_the_session_that_there_is(tmp_path: Path) -> None:
    words = job(tmp_path, session_id=SESSION).argv
    assert f"--resume={SESSION}" in words
    assert not [word for word in words if word.startswith("--session-id")]


@pytest.mark.parametrize(
    ("options", "ours"),
    [
        (["--approval-mode=plan"], "--approval-mode=yolo"),
        (["--approval-mode", "auto_edit"], "--approval-mode=yolo"),
        (["-y"], "--approval-mode=yolo"),
        (["--yolo"], "--approval-mode=yolo"),
        (["-mgemini-2.5-pro"], "--model=gemini-9"),
        (["--model", "gemini-2.5-pro"], "--model=gemini-9"),
        (["--skip-trust"], "--skip-trust"),
        (["--resume=latest"], "--resume="),
    ],
)
def test_options_of_the_user_replace_ours_and_come_last(
    tmp_path: Path, options: list[str], ours: str
) -> None:
    words = job(tmp_path, options=options, model="gemini-9", session_id=SESSION).argv
    assert list(words[-len(options) :]) == options
    assert not [word for word in words[: -len(options)] if word.startswith(ours)]


@pytest.mark.parametrize(("model", "words"), [("gemini-9", ["--model=gemini-9"]), ("sonnet", [])])
def test_a_model_of_its_own_is_asked_for_and_one_of_another_cli_is_not(
    tmp_path: Path, model: str, words: list[str]
) -> None:
    assert [word for word in job(tmp_path, model=model).argv if "model" in word] == words


def test_the_persona_stands_before_the_prompt(tmp_path: Path) -> None:
    made = job(tmp_path, persona=Persona("dev", body="You are careful."), prompt="Build it.")
    assert made.stdin == "You are careful.\n\nBuild it."


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("see @src/app.py", r"see \@src/app.py"),
        ("@pytest.mark.slow\n@app", "\\@pytest.mark.slow\n\\@app"),
        ("mail a@b.example", r"mail a\@b.example"),
        (r"already \@escaped", r"already \@escaped"),
        ("at @ night", "at @ night"),
        ("/clear", "\n/clear"),
        ("a/b", "a/b"),
    ],
)
def test_nothing_in_a_prompt_is_a_command(prompt: str, text: str) -> None:
    assert as_text(prompt) == text


@given(st.text())
def test_a_prompt_is_changed_in_nothing_but_these_marks(prompt: str) -> None:
    text = as_text(prompt)
    assert text.lstrip("\n").replace("\\", "") == prompt.lstrip("\n").replace("\\", "")
    assert not text.startswith("/")


def test_the_environment_has_its_own_settings_and_no_other_session(tmp_path: Path) -> None:
    inherited = {
        **KEY,
        "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1",
        "GOOGLE_CLOUD_PROJECT": "p",
        "HTTPS_PROXY": "http://127.0.0.1:2",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "GEMINI_TELEMETRY_ENABLED": "true",
    }
    others = {
        "GEMINI_CLI": "1",
        "GEMINI_CLI_IDE_PID": "7",
        "OPENAI_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
    }
    env = environment(job(tmp_path, Gemini({**inherited, **others}, root=False)))
    assert inherited.items() <= env.items()
    assert not others.keys() & env.keys()


def test_settings_are_a_file_of_the_job_where_they_are_read(tmp_path: Path) -> None:
    made = job(tmp_path, Gemini(KEY, root=True))
    ((path, text),) = made.files.items()
    assert environment(made)[SETTINGS] == str(path)
    settings = json.loads(text)
    assert settings["general"]["maxAttempts"] == 2
    assert settings["privacy"] == {"usageStatisticsEnabled": False}
    assert settings["security"] == {"auth": {"selectedType": "gemini-api-key"}}


def test_settings_say_nothing_of_a_key_for_those_who_sign_in_otherwise(tmp_path: Path) -> None:
    made = job(tmp_path, Gemini({**KEY, "GOOGLE_GENAI_USE_VERTEXAI": "true"}, root=True))
    assert "security" not in json.loads(next(iter(made.files.values())))


def test_settings_of_the_user_and_those_who_are_not_root_stay_as_they_are(tmp_path: Path) -> None:
    theirs = job(tmp_path, Gemini({SETTINGS: "/etc/theirs.json"}, root=True))
    assert (theirs.files, environment(theirs)[SETTINGS]) == ({}, "/etc/theirs.json")
    assert (job(tmp_path).files, SETTINGS in environment(job(tmp_path))) == ({}, False)


# --- recorded runs ------------------------------------------------------------------------------------

TROUBLES = {
    "402": "credit",
    "credit": "credit",
    "toolong": "too_long",
    "unreachable": "server",
    "ok": "",
    "resumed": "",
    "prose": "",
    "denied": "",
    "400": "refused",
    "404": "configuration",
    "413": "too_long",
    "unknown-option": "configuration",
    "no-trust": "configuration",
    "401": "auth",
    "403": "auth",
    "not-signed-in": "auth",
    "429": "limit",
    "quota": "limit",
    "500": "server",
    "529": "server",
    "drop": "server",
    "malformed": "server",
    "unknown-session": "forgotten",
    "killed": "unfinished",
}


def test_every_recorded_run_is_looked_at() -> None:
    assert cassettes.scenarios("gemini") == set(TROUBLES)


@pytest.mark.parametrize(("scenario", "trouble"), TROUBLES.items())
def test_what_a_run_comes_to(scenario: str, trouble: str) -> None:
    reply = cassettes.reply("gemini", scenario)
    assert reply.trouble == trouble
    assert bool(reply.detail) == bool(trouble)


def test_an_answer_comes_with_its_session_and_its_cost() -> None:
    reply = cassettes.reply("gemini", "ok")
    assert reply.session_id == SESSION
    assert reply.result == {
        "status": "pass",
        "message": "hello.py is committed",
        "markers": ["MARK-one"],
    }
    assert reply.text.startswith("Work finished.")
    assert reply.usage == Usage(input_tokens=2100, output_tokens=51, cache_tokens=600)
    assert reply.session_usage == Usage()


def test_a_resumed_session_knows_both_turns_and_counts_the_last() -> None:
    reply = cassettes.reply("gemini", "resumed")
    assert reply.session_id == SESSION
    assert reply.result is not None
    assert reply.result["markers"] == ["MARK-one", "MARK-two"]
    assert reply.usage == Usage(input_tokens=2500, output_tokens=55, cache_tokens=600)


def test_a_session_in_which_no_answer_was_whole_cannot_be_gone_on_with() -> None:
    assert cassettes.reply("gemini", "500").session_id is None
    assert cassettes.reply("gemini", "drop").session_id is None
    assert cassettes.reply("gemini", "killed").session_id is not None


def test_a_session_that_fails_after_good_work_can_be_gone_on_with() -> None:
    lines = [*cassettes.lines("gemini", "ok")[:4], cassettes.lines("gemini", "500")[-1]]
    reply = Gemini().reply(cassettes.ended("gemini", "500"), lines)
    assert (reply.trouble, reply.session_id) == ("server", SESSION)


def test_a_limit_says_when_it_is_over_where_that_is_known() -> None:
    last = json.loads(cassettes.lines("gemini", "429")[-1])
    reset = cassettes.reply("gemini", "429").limit_reset_at
    assert reset is not None
    assert last["timestamp"] < reset
    assert cassettes.reply("gemini", "quota").limit_reset_at is None


@pytest.mark.parametrize(
    ("words", "reset"),
    [
        ("Your quota will reset after 8h44m7s.", "2026-01-01T08:44:08Z"),
        ("Please retry in 500ms.", "2026-01-01T00:00:01Z"),
        ("Suggested retry after 38.5s.", "2026-01-01T00:00:39Z"),
        ("Try later.", None),
        ("reset after 99999999999999999999h", None),
    ],
)
def test_a_delay_becomes_a_time_that_is_never_too_early(words: str, reset: str | None) -> None:
    event = {
        "type": "result",
        "status": "error",
        "timestamp": "2026-01-01T00:00:00.200Z",
        "error": {"message": words},
    }
    assert Gemini().reply(Exit(429 % 256), [json.dumps(event)]).limit_reset_at == reset


def test_a_bad_key_is_no_bad_request_although_the_server_calls_it_so() -> None:
    message = (
        '[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}]'
    )
    event = {"type": "result", "status": "error", "error": {"message": message}}
    assert Gemini().reply(Exit(400 % 256), [json.dumps(event)]).trouble == "auth"


def test_a_tool_that_was_refused_is_named() -> None:
    assert cassettes.reply("gemini", "denied").denied == ("run_shell_command",)
    assert cassettes.reply("gemini", "ok").denied == ()


def test_a_run_that_was_ended_in_the_middle_is_no_success_although_its_exit_code_is_0() -> None:
    reply = Gemini().reply(Exit(0), cassettes.lines("gemini", "ok")[:-1])
    assert reply.trouble == "unfinished"
    assert judge(reply, Exit(0)).ruling == "fail"


def test_an_empty_answer_is_no_success_although_its_exit_code_is_0() -> None:
    events = [
        {"type": "error", "severity": "error", "message": "The model returned nothing."},
        {"type": "result", "status": "error", "stats": {}},
    ]
    reply = Gemini().reply(Exit(0), map(json.dumps, events))
    assert (reply.trouble, reply.detail) == ("server", "The model returned nothing.")


def test_the_answer_is_what_follows_the_last_tool() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message", "role": "assistant", "content": 'Draft: ```json\n{"status": "pass"}\n```'},
        {"type": "tool_use", "tool_id": "1", "tool_name": "glob"},
        {"type": "message", "role": "assistant", "content": "All ", "delta": True},
        {"type": "message", "role": "assistant", "content": "done.", "delta": True},
        {"type": "result", "status": "success"},
    ]
    reply = Gemini().reply(Exit(0), map(json.dumps, events))
    assert (reply.text, reply.result, reply.trouble) == ("All done.", None, "")


def test_what_a_model_says_of_limits_is_no_limit() -> None:
    said = "[API Error: 429] Error resuming session: rate limit exceeded, API key not valid, retry after 9s"
    events = [
        {"type": "message", "role": "assistant", "content": said},
        {
            "type": "message",
            "role": "assistant",
            "content": json.dumps({"type": "result", "status": "error"}),
        },
        {"type": "result", "status": "success"},
    ]
    reply = Gemini().reply(Exit(0), map(json.dumps, events))
    assert (reply.trouble, reply.limit_reset_at, reply.session_id) == ("", None, None)

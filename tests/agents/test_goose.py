"""goose: its command line, and what recorded runs of it come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.adapters.goose import Goose
from beads_ralph.agents.streams import LONGEST_ARGUMENT
from beads_ralph.agents.verdicts import judge
from beads_ralph.bead.personas import Persona
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job
from tests.agents import cassettes
from tests.agents.running import environment, spec, task, transcript

SESSION = "11111111-2222-4333-8444-555555555555"


def job(folder: Path, *, options: list[str] | None = None, inherited: Any = None, **fields: Any) -> Job:
    agent = spec(executable="goose", options=options, env=fields.pop("env", None))
    return Goose(inherited or {}).command(task(folder, agent, **fields), transcript(folder))


# --- the command line ---------------------------------------------------------------------------------


def test_a_new_session_has_a_name_chosen_before_and_the_prompt_comes_on_stdin(tmp_path: Path) -> None:
    made = job(tmp_path, prompt="Build it.")
    fresh = environment(made)["BEADS_RALPH_SESSION"]
    start = ("goose", "run", "--instructions=-", "--quiet", "--output-format=stream-json")
    assert made.argv == (*start, f"--name={fresh}")
    assert made.stdin == "Build it."


def test_feedback_goes_to_the_session_that_there_is(tmp_path: Path) -> None:
    words = job(tmp_path, session_id=SESSION).argv
    assert words[-2:] == (f"--name={SESSION}", "--resume")


@pytest.mark.parametrize(
    ("options", "ours"),
    [
        (["-q"], "--quiet"),
        (["--model", "gpt-5"], "--model=gpt-9"),
        (["--model=gpt-5"], "--model=gpt-9"),
        (["--system=Be quick."], "--system=You"),
        (["-nmine"], "--name="),
        (["--no-session"], "--name="),
        (["-r", "--name=mine"], "--resume"),
    ],
)
def test_an_option_of_the_user_replaces_ours_for_goose_takes_none_twice(
    tmp_path: Path, options: list[str], ours: str
) -> None:
    persona = Persona("dev", body="You are careful.")
    words = job(tmp_path, options=options, model="gpt-9", persona=persona, session_id=SESSION).argv
    assert list(words[-len(options) :]) == options
    assert not [word for word in words[: -len(options)] if word.startswith(ours)]


@pytest.mark.parametrize(("model", "words"), [("gpt-9", ["--model=gpt-9"]), ("opus", [])])
def test_a_model_of_its_own_is_asked_for_and_one_of_another_cli_is_not(
    tmp_path: Path, model: str, words: list[str]
) -> None:
    assert [word for word in job(tmp_path, model=model).argv if "model" in word] == words


def test_the_persona_is_added_to_the_system_prompt(tmp_path: Path) -> None:
    made = job(tmp_path, persona=Persona("dev", body="--You are careful."), prompt="Build it.")
    assert made.argv[-1] == "--system=--You are careful."
    assert made.stdin == "Build it."


@pytest.mark.parametrize("body", ["ü" * (LONGEST_ARGUMENT // 2 + 1), "with a \0 in it"])
def test_a_persona_that_no_argument_can_hold_stands_before_the_prompt(tmp_path: Path, body: str) -> None:
    made = job(tmp_path, persona=Persona("dev", body=body), prompt="Build it.")
    assert not [word for word in made.argv if word.startswith("--system")]
    assert made.stdin == f"{body}\n\nBuild it."


@pytest.mark.parametrize("prompt", ["/clear", " \n/compact now"])
def test_no_prompt_is_a_command(tmp_path: Path, prompt: str) -> None:
    stdin = job(tmp_path, prompt=prompt).stdin
    assert stdin is not None
    assert stdin.endswith(prompt)
    assert not stdin.lstrip().startswith("/")


def test_the_environment_has_its_own_settings_and_no_other_session(tmp_path: Path) -> None:
    inherited = {
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "gpt-4o",
        "OPENAI_API_KEY": "k",
        "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:1",
        "XDG_CONFIG_HOME": "/config",
        "HTTPS_PROXY": "http://127.0.0.1:2",
        "GOOSE_PROVIDER_SKIP_BACKOFF": "false",
    }
    others = {
        "GOOSE_TERMINAL": "1",
        "AGENT_SESSION_ID": "1",
        "AWS_SECRET_ACCESS_KEY": "k",
        "GITHUB_TOKEN": "k",
    }
    env = environment(job(tmp_path, inherited={**inherited, **others}))
    assert inherited.items() <= env.items()
    assert not others.keys() & env.keys()


def test_a_mode_for_people_at_a_terminal_is_not_inherited_and_one_of_the_persona_counts(
    tmp_path: Path,
) -> None:
    inherited = {"GOOSE_MODE": "approve"}
    assert environment(job(tmp_path, inherited=inherited))["GOOSE_MODE"] == "auto"
    chosen = job(tmp_path, inherited=inherited, env={"GOOSE_MODE": "chat"})
    assert environment(chosen)["GOOSE_MODE"] == "chat"


# --- recorded runs ------------------------------------------------------------------------------------

TROUBLES = {
    "402": "credit",
    "credit": "credit",
    "toolong": "too_long",
    "ok": "",
    "resumed": "",
    "prose": "",
    "400": "refused",
    "404": "configuration",
    "413": "too_long",
    "approval": "configuration",
    "turn-limit": "unfinished",
    "unknown-option": "configuration",
    "401": "auth",
    "403": "auth",
    "no-provider": "auth",
    "429": "limit",
    "quota": "limit",
    "500": "server",
    "529": "server",
    "drop": "server",
    "malformed": "server",
    "unreachable": "server",
    "unknown-session": "forgotten",
    "killed": "",
}


def test_every_recorded_run_is_looked_at() -> None:
    assert cassettes.scenarios("goose") == set(TROUBLES)


@pytest.mark.parametrize(("scenario", "trouble"), TROUBLES.items())
def test_what_a_run_comes_to(scenario: str, trouble: str) -> None:
    reply = cassettes.reply("goose", scenario)
    assert reply.trouble == trouble
    assert bool(reply.detail) == bool(trouble)
    if trouble:
        assert reply.result is None


def test_an_answer_comes_with_what_its_session_cost() -> None:
    reply = cassettes.reply("goose", "ok")
    assert reply.result == {
        "status": "pass",
        "message": "hello.py is committed",
        "markers": ["MARK-one"],
    }
    assert reply.usage == Usage()
    assert reply.session_usage == Usage(2100, 41, 600, 0.00641)


def test_a_resumed_session_knows_both_turns_and_counts_both() -> None:
    reply = cassettes.reply("goose", "resumed")
    assert reply.result is not None
    assert reply.result["markers"] == ["MARK-one", "MARK-two"]
    on_top = reply.session_usage - cassettes.reply("goose", "ok").session_usage
    assert (on_top.input_tokens, on_top.output_tokens, on_top.cache_tokens) == (2300, 43, 600)


def test_a_run_that_was_ended_in_the_middle_is_no_success() -> None:
    reply = Goose().reply(Exit(0), cassettes.lines("goose", "ok")[:-1])
    assert reply.trouble == "unfinished"
    assert judge(reply, Exit(0)).ruling == "fail"


def said(words: str, *, by_model: bool, message: str = "m") -> str:
    metadata = {"inference": {"provider": "openai", "requestedModel": "gpt-4o"}} if by_model else {}
    content = [{"type": "text", "text": words}]
    event = {"id": message, "role": "assistant", "content": content, "metadata": metadata}
    return json.dumps({"type": "message", "message": event})


COMPLETE = json.dumps({"type": "complete", "total_tokens": 0, "input_tokens": 0, "output_tokens": 0})
ERROR = "Ran into this error: Rate limit exceeded: slow down."


def test_only_what_no_model_said_is_an_error() -> None:
    """The words are the same; who said them is in the metadata, which no model writes."""
    by_goose = Goose().reply(Exit(0), [said(ERROR, by_model=False), COMPLETE])
    by_model = Goose().reply(Exit(0), [said(ERROR, by_model=True), COMPLETE])
    assert (by_goose.trouble, by_goose.detail) == ("limit", ERROR)
    assert (by_model.trouble, by_model.text) == ("", ERROR)


def test_an_error_after_good_work_is_an_error() -> None:
    lines = [said("Half done.", by_model=True), said(ERROR, by_model=False, message="n"), COMPLETE]
    assert Goose().reply(Exit(0), lines).trouble == "limit"


def test_last_words_that_are_neither_the_models_nor_known_are_no_success() -> None:
    lines = [said("Half done.", by_model=True), said("Compaction complete", by_model=False), COMPLETE]
    reply = Goose().reply(Exit(0), lines)
    assert (reply.trouble, reply.detail) == ("unfinished", "Compaction complete")


def test_a_provider_that_goose_does_not_mark_can_answer() -> None:
    assert Goose().reply(Exit(0), [said("Done.", by_model=False), COMPLETE]).trouble == ""


def test_the_pieces_of_one_message_are_one_text_and_those_of_another_are_not() -> None:
    pieces = ["first", "Al", "l done."]
    lines = [said(text, by_model=True, message="n" if n else "m") for n, text in enumerate(pieces)]
    assert Goose().reply(Exit(0), [*lines, COMPLETE]).text == "All done."

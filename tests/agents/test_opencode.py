"""opencode: its command line, and what recorded runs of it come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.adapters.opencode import CONFIG, PLUGIN, OpenCode
from beads_ralph.agents.verdicts import judge
from beads_ralph.bead.personas import Persona
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job
from tests.agents import cassettes
from tests.agents.running import environment, spec, task, transcript

ALWAYS = ("--format=json", "--print-logs", "--log-level=ERROR")
SESSION = "ses_e2092e23affeMxs8C8FwtaYnAr"


def job(folder: Path, *, options: list[str] | None = None, inherited: Any = None, **fields: Any) -> Job:
    agent = spec(executable="opencode", options=options, env=fields.pop("env", None))
    return OpenCode(inherited or {}).command(task(folder, agent, **fields), transcript(folder))


def config(made: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(environment(made)[CONFIG])
    return found


# --- the command line ---------------------------------------------------------------------------------


def test_a_new_session_has_a_title_and_what_is_not_denied_is_approved(tmp_path: Path) -> None:
    made = job(tmp_path, prompt="Build it.")
    assert made.argv == ("opencode", "run", *ALWAYS, "--auto", "--title=bd-1-1-setup")
    assert made.stdin == "Build it."


@pytest.mark.parametrize("session", [SESSION, "11111111-2222-4333-8444-555555555555", "ses_--help"])
def test_feedback_goes_to_the_session_that_there_is_and_no_other(tmp_path: Path, session: str) -> None:
    word = job(tmp_path, session_id=session).argv[-1]
    assert word.startswith("--session=ses_")
    assert (word == f"--session={session}") == (session == SESSION)


@pytest.mark.parametrize(
    ("options", "ours"),
    [
        (["--no-auto"], "--auto"),
        (["-m", "anthropic/claude-opus-5"], "--model=openai/gpt-9"),
        (["--session=ses_mine"], f"--session={SESSION}"),
        (["--continue"], "--session"),
    ],
)
def test_an_option_of_the_user_replaces_ours(tmp_path: Path, options: list[str], ours: str) -> None:
    words = job(tmp_path, options=options, model="openai/gpt-9", session_id=SESSION).argv
    assert list(words[-len(options) :]) == options
    assert not [word for word in words[: -len(options)] if word.startswith(ours)]


@pytest.mark.parametrize(("model", "words"), [("openai/gpt-9", ["--model=openai/gpt-9"]), ("opus", [])])
def test_a_model_of_its_own_is_asked_for_and_one_of_another_cli_is_not(
    tmp_path: Path, model: str, words: list[str]
) -> None:
    assert [word for word in job(tmp_path, model=model).argv if "model" in word] == words


def test_plugin_and_persona_lie_beside_the_transcript(tmp_path: Path) -> None:
    made = job(tmp_path, persona=Persona("dev", body="You are careful."), prompt="Build it.")
    plugin, persona = tmp_path / "call.out.opencode.js", tmp_path / "call.out.persona.md"
    assert made.files == {plugin: PLUGIN, persona: "You are careful."}
    assert config(made) == {"plugin": [plugin.as_uri()], "instructions": [str(persona)]}
    assert made.stdin == "Build it."


def test_what_the_user_has_configured_stays(tmp_path: Path) -> None:
    own = {"provider": {"mine": {}}, "permission": {"bash": "deny"}, "plugin": ["p"], "instructions": ["i"]}
    made = job(tmp_path, inherited={CONFIG: json.dumps(own)}, persona=Persona("dev", body="Be careful."))
    found = config(made)
    assert found["plugin"][0] == "p"
    assert found["instructions"][0] == "i"
    assert [len(found[name]) for name in ("plugin", "instructions")] == [2, 2]
    assert {name: found[name] for name in ("provider", "permission")} == {
        name: own[name] for name in ("provider", "permission")
    }


@pytest.mark.parametrize("given", ["// a comment\n{}", "[]", '{"plugin": "one"}', "{" * 100_000])
def test_a_configuration_that_we_cannot_read_is_left_as_it_is(tmp_path: Path, given: str) -> None:
    made = job(
        tmp_path, inherited={CONFIG: given}, persona=Persona("dev", body="Be careful."), prompt="Build."
    )
    assert environment(made)[CONFIG] == given
    assert (made.stdin, made.files) == ("Be careful.\n\nBuild.", {})


def test_the_environment_has_its_own_settings_and_no_other_session(tmp_path: Path) -> None:
    inherited = {"OPENCODE_PERMISSION": "{}", "ANTHROPIC_API_KEY": "k", "OPENCODE_DISABLE_SHARE": "0"}
    others = dict.fromkeys(("OPENCODE", "OPENCODE_PID", "OPENCODE_CLIENT", "OPENCODE_SERVER_PASSWORD"), "s")
    env = environment(job(tmp_path, inherited={**inherited, **others}))
    assert inherited.items() <= env.items()
    assert not others.keys() & env.keys()
    assert env["OPENCODE_DISABLE_AUTOUPDATE"] == "1"


# --- recorded runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "trouble", "detail"),
    [
        ("ok", "", ""),
        ("prose", "", ""),
        ("denied", "", ""),
        ("402", "credit", ""),
        ("credit", "credit", ""),
        ("toolong", "too_long", ""),
        ("unreachable", "server", ""),
        ("401", "auth", ""),
        ("403", "auth", ""),
        ("429", "limit", "scripted 429"),
        ("quota", "limit", ""),
        ("500", "server", "scripted 500"),
        ("529", "server", ""),
        ("drop", "server", ""),
        ("malformed", "server", "JSON parsing failed"),
        ("400", "refused", "scripted 400"),
        ("404", "configuration", "scripted 404"),
        ("413", "too_long", ""),
        ("unknown-model", "configuration", "Model not found: scripted/no-such-model"),
        ("unknown-option", "configuration", "it did not understand its command line"),
        ("unknown-session", "forgotten", "Session not found"),
        ("nobody-to-ask", "unfinished", "it stopped when bash was refused"),
        ("killed", "", ""),
    ],
)
def test_what_recorded_runs_come_to(scenario: str, trouble: str, detail: str) -> None:
    reply = cassettes.reply("opencode", scenario)
    assert reply.trouble == trouble
    assert reply.detail.startswith(detail)
    assert bool(reply.detail) == bool(trouble)
    assert (reply.result is not None) == (scenario in ("ok", "denied"))


def test_every_recorded_run_is_looked_at() -> None:
    marks = test_what_recorded_runs_come_to.pytestmark  # type: ignore[attr-defined]
    assert cassettes.scenarios("opencode") == {row[0] for row in marks[0].args[1]}


def test_one_that_was_ended_has_a_session_to_go_on_with_and_no_result() -> None:
    ended, reply = cassettes.ended("opencode", "killed"), cassettes.reply("opencode", "killed")
    assert ended.timed_out
    assert reply.session_id
    assert judge(reply, ended).ruling == "fail"


def test_a_call_counts_all_its_steps_and_thoughts_as_output() -> None:
    usage = cassettes.reply("opencode", "ok").usage
    assert usage == Usage(2100, 41, 600, usage.cost_usd)
    assert usage.cost_usd == pytest.approx(0.002305)


@pytest.mark.parametrize("scenario", ["denied", "nobody-to-ask"])
def test_a_refused_tool_is_named(scenario: str) -> None:
    assert cassettes.reply("opencode", scenario).denied == ("bash",)


def test_a_limit_is_over_when_the_server_says_so() -> None:
    (event,) = [json.loads(line) for line in cassettes.lines("opencode", "429") if "gave_up" in line]
    reset = cassettes.reply("opencode", "429").limit_reset_at
    told = OpenCode({}).reply(Exit(1), [json.dumps({**event, "next": 1_800_000_000_001})])
    silent = OpenCode({}).reply(Exit(1), [json.dumps({**event, "next": None})])
    assert reset is not None
    assert (told.limit_reset_at, silent.limit_reset_at) == ("2027-01-15T08:00:01Z", None)
    assert (told.trouble, silent.trouble) == ("limit", "limit")


@pytest.mark.parametrize(("reason", "trouble"), [("stop", ""), ("other", ""), ("length", "unfinished")])
def test_a_model_that_was_cut_off_has_not_finished(reason: str, trouble: str) -> None:
    lines = [
        line.replace('"reason":"stop"', f'"reason":"{reason}"') for line in cassettes.lines("opencode", "ok")
    ]
    assert OpenCode({}).reply(Exit(0), lines).trouble == trouble


def test_a_session_of_another_folder_is_forgotten() -> None:
    reply = OpenCode({}).reply(Exit(1), ['{"type": "elsewhere", "directory": "/other"}'])
    assert (reply.trouble, reply.detail) == ("forgotten", "its session belongs to /other")

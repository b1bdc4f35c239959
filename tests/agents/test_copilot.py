"""GitHub Copilot CLI: its command line, and what recorded runs of it come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.adapters.copilot import Copilot
from beads_ralph.agents.reply_reader import output_of
from beads_ralph.agents.verdicts import judge
from beads_ralph.bead.personas import Persona
from beads_ralph.bead.usage import Usage
from beads_ralph.process.jobs import Exit, Job
from tests.agents import cassettes
from tests.agents.running import environment, spec, task, transcript

SESSION = "11111111-2222-4333-8444-555555555555"
ALWAYS = ("--output-format=json", "--stream=off", "--no-ask-user", "--disable-client-telemetry")


def job(folder: Path, *, options: list[str] | None = None, inherited: Any = None, **fields: Any) -> Job:
    agent = spec(executable="copilot", options=options, env=fields.pop("env", None))
    return Copilot({"HOME": "/home/x", **(inherited or {})}).command(
        task(folder, agent, **fields), transcript(folder)
    )


# --- the command line ---------------------------------------------------------------------------------


def test_a_new_session_has_an_id_chosen_before_and_everything_is_allowed(tmp_path: Path) -> None:
    made = job(tmp_path, prompt="Build it.")
    fresh = environment(made)["BEADS_RALPH_SESSION"]
    assert made.argv == ("copilot", *ALWAYS, "--allow-all", f"--session-id={fresh}")
    assert made.stdin == "Build it."
    assert made.report is not None
    assert made.report.path == Path(f"/home/x/.copilot/session-state/{fresh}/events.jsonl")


def test_feedback_goes_to_the_session_that_there_is(tmp_path: Path) -> None:
    made = job(tmp_path, session_id=SESSION, inherited={"COPILOT_HOME": "/copilot"})
    assert made.argv[-1] == f"--resume={SESSION}"
    assert made.report is not None
    assert made.report.path == Path(f"/copilot/session-state/{SESSION}/events.jsonl")


def test_an_id_of_another_cli_is_one_that_it_does_not_know(tmp_path: Path) -> None:
    (word,) = [word for word in job(tmp_path, session_id="my feature").argv if word.startswith("--resume=")]
    assert "feature" not in word


@pytest.mark.parametrize(
    ("options", "ours"),
    [
        (["--allow-tool=shell(git:*)"], "--allow-all"),
        (["--yolo"], "--allow-all"),
        (["--model", "gpt-5"], "--model=gpt-9"),
        (["--stream=on"], "--stream=off"),
        (["--agent=mine"], "--agent=beads-ralph"),
        (["--continue"], "--resume"),
    ],
)
def test_an_option_of_the_user_replaces_ours(tmp_path: Path, options: list[str], ours: str) -> None:
    persona = Persona("dev", body="You are careful.")
    words = job(tmp_path, options=options, model="gpt-9", persona=persona, session_id=SESSION).argv
    assert list(words[-len(options) :]) == options
    assert not [word for word in words[: -len(options)] if word.startswith(ours)]


def test_what_is_denied_is_denied_of_everything(tmp_path: Path) -> None:
    assert "--allow-all" in job(tmp_path, options=["--deny-tool=shell(git push)"]).argv


def test_the_persona_is_an_agent_of_a_plugin_beside_the_transcript(tmp_path: Path) -> None:
    made = job(
        tmp_path, persona=Persona("my dev", 'Says "---"\nand more', "You are careful."), prompt="Build."
    )
    folder = tmp_path / "call.out.copilot"
    assert made.argv[-2:] == (f"--plugin-dir={folder}", "--agent=beads-ralph:my-dev")
    assert json.loads(made.files[folder / "plugin.json"])["name"] == "beads-ralph"
    file = made.files[folder / "agents" / "my-dev.md"]
    assert file.startswith(
        '---\nname: my-dev\ndescription: "Says \\"---\\"\\nand more"\n---\n\nYou are careful.'
    )
    assert made.stdin == "Build."


def test_where_the_user_names_an_agent_the_persona_stands_before_the_prompt(tmp_path: Path) -> None:
    made = job(
        tmp_path, persona=Persona("dev", body="You are careful."), prompt="B.", options=["--agent", "x"]
    )
    assert (made.stdin, made.files) == ("You are careful.\n\nB.", {})


def test_the_environment_has_its_own_settings_and_no_other_session(tmp_path: Path) -> None:
    inherited = {
        "COPILOT_GITHUB_TOKEN": "t",
        "COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1",
        "COPILOT_MODEL": "gpt-5",
        "HTTPS_PROXY": "http://127.0.0.1:2",
    }
    others = dict.fromkeys(
        ("COPILOT_AGENT_SESSION_ID", "COPILOT_LOADER_PID", "COPILOT_ALLOW_ALL", "GH_TOKEN", "GITHUB_TOKEN"),
        "s",
    )
    env = environment(job(tmp_path, inherited={**inherited, **others}))
    assert inherited.items() <= env.items()
    assert not others.keys() & env.keys()
    assert env["COPILOT_DISABLE_RESUME_AUTO_CD"] == "true"


# --- recorded runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "trouble", "detail"),
    [
        ("ok", "", ""),
        ("resumed", "", ""),
        ("prose", "", ""),
        ("denied", "", ""),
        ("402", "credit", ""),
        ("credit", "credit", ""),
        ("toolong", "too_long", ""),
        ("unreachable", "server", ""),
        ("401", "auth", ""),
        ("403", "auth", ""),
        ("not-signed-in", "auth", ""),
        ("429", "limit", ""),
        ("quota", "limit", ""),
        ("500", "server", ""),
        ("529", "server", ""),
        ("drop", "server", ""),
        ("malformed", "server", ""),
        ("400", "refused", "400"),
        ("404", "configuration", "Model 'mock-model' not found"),
        ("413", "too_long", "The provider rejected the prompt as too long"),
        ("unknown-option", "configuration", "error: unexpected argument '--no-such-option'"),
        ("unknown-agent", "configuration", "No such agent: nobody"),
        ("unknown-session", "forgotten", "No session, task, or name matched"),
        ("killed", "unfinished", ""),
    ],
)
def test_what_recorded_runs_come_to(scenario: str, trouble: str, detail: str) -> None:
    reply = cassettes.reply("copilot", scenario)
    assert reply.trouble == trouble
    assert reply.detail.startswith(detail)
    assert bool(reply.detail) == bool(trouble)
    assert (reply.result is not None) == (scenario in ("ok", "resumed", "denied"))


def test_every_recorded_run_is_looked_at() -> None:
    marks = test_what_recorded_runs_come_to.pytestmark  # type: ignore[attr-defined]
    assert cassettes.scenarios("copilot") == {row[0] for row in marks[0].args[1]}


def test_the_counts_are_those_of_the_session_and_cached_input_apart() -> None:
    first, second = (cassettes.reply("copilot", name).session_usage for name in ("ok", "resumed"))
    assert first == Usage(2100, 41, 600)
    assert second - first == Usage(2300, 43, 600)


def test_a_call_that_was_ended_counts_what_it_had_asked_by_then() -> None:
    assert cassettes.reply("copilot", "killed").session_usage == Usage(1000, 20, 300)


def test_without_its_report_the_counts_are_unknown_and_nothing_else_is() -> None:
    reply = Copilot({}).reply(Exit(0), cassettes.lines("copilot", "ok"))
    assert reply.session_usage == Usage()
    assert reply.result == cassettes.reply("copilot", "ok").result


def test_a_refused_tool_is_named() -> None:
    assert cassettes.reply("copilot", "denied").denied == ("bash",)


def test_one_that_was_ended_from_outside_has_not_finished_though_its_result_says_zero() -> None:
    """SIGTERM: exit code 0, and mostly a result of 0 too."""
    lines = [*cassettes.lines("copilot", "killed"), '{"type": "result", "sessionId": "s", "exitCode": 0}']
    reply = Copilot({}).reply(Exit(0), lines)
    assert reply.trouble == "unfinished"
    assert judge(reply, Exit(0)).ruling == "fail"


def test_only_the_lines_of_the_report_that_count_are_read(tmp_path: Path) -> None:
    """The session's file tells all that was ever said in it, and errors of calls that are over."""
    made = job(tmp_path, env={"COPILOT_HOME": str(tmp_path)})
    assert made.report is not None
    made.report.path.parent.mkdir(parents=True)
    counted = cassettes.report("copilot", "ok")
    told = ['{"type":"session.error","data":{"errorType":"rate_limit","statusCode":429}}', *counted]
    made.report.path.write_text("\n".join(told), encoding="utf-8")
    assert list(output_of(made)) == counted

"""What every agent adapter promises, over all of them."""

from __future__ import annotations

import json
import re
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beads_ralph.agents.protocol import AGENTS, AgentCLI, AgentTask, Reply, select
from beads_ralph.agents.reply_reader import explained
from beads_ralph.agents.verdicts import judge
from beads_ralph.bead.model import OUTPUT_SCHEMA, AgentSpec
from beads_ralph.bead.personas import Persona
from beads_ralph.process.jobs import Exit
from tests.agents import cassettes, classes, running
from tests.agents.running import executable, spec, task, transcript

TRICKY = (
    "--help\n-rf /\n$(touch hacked) `touch hacked` ; touch hacked\n'quoted' \"twice\" \\ \u00fc \U0001f600\n"
)
PROMPT = TRICKY + "x" * 600_000 + "\r\n\n  last line"

MUCH = 8_000_000
FACTS = {"BEAD", "ROLE", "AGENT", "ATTEMPT", "WORKTREE", "BRANCH", "RUN_ID", "MODEL", "SESSION", "RESUME"}
ALLOWED = {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "TZ", "SHELL", "USER", "LOGNAME"}


@dataclass(frozen=True)
class Act:
    """What a program is to do when it is called: the same for every adapter under test."""

    say: str = ""
    code: int = 0
    hang: bool = False


Rig = Callable[[Path, Act], AgentSpec]


def scripted(folder: Path, act: Act) -> AgentSpec:
    steps: list[dict[str, Any]] = [{"prompt": "prompt.txt"}, {"say": act.say}]
    steps += [{"hang": True}] if act.hang else [{"crash": act.code}]
    path = folder / "script.yaml"
    path.write_text(yaml.safe_dump({"beads": {"*": {"qa": steps}}}), encoding="utf-8")
    return spec(executable="scripted", env={"BEADS_RALPH_SCRIPT": str(path)})


def program(folder: Path, act: Act) -> AgentSpec:
    (folder / "said").write_text(act.say + "\n", encoding="utf-8")
    end = "sleep 60" if act.hang else f"exit {act.code}"
    path = executable(folder / "agent", f"#!/bin/sh\ncat > prompt.txt\ncat said\n{end}\n")
    return spec(executable=str(path))


RIGS: dict[str, Rig] = {"scripted": scripted, "command": program}
"""How the adapters that need no model are made to act; the others do so in tests/real, with a model."""


@pytest.fixture(params=sorted(AGENTS))
def agent(request: pytest.FixtureRequest) -> AgentCLI:
    return AGENTS[request.param]


@pytest.fixture(params=sorted(RIGS))
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def asked(folder: Path, name: str, act: Act, **fields: Any) -> AgentTask:
    return task(folder, RIGS[name](folder, act), **{"role": "qa", "timeout": 20.0, **fields})


def test_every_adapter_says_what_it_is(agent: AgentCLI) -> None:
    assert isinstance(agent, AgentCLI)
    assert AGENTS[agent.name] is agent
    assert agent.profile.title
    if agent.profile.executable:
        assert select(agent.profile.executable) is agent
        assert select(f"/opt/tools/{agent.profile.executable}") is agent
        assert agent.profile.tested
        assert agent.profile.install
        assert agent.profile.sign_in


@pytest.mark.parametrize("name", [name for name, agent in sorted(AGENTS.items()) if agent.profile.tested])
def test_whoever_is_not_let_in_is_told_what_to_do_once(name: str) -> None:
    """By one place for all of them: the adapter says what its program said."""
    profile = AGENTS[name].profile
    found = [cassettes.reply(name, scenario) for scenario in sorted(cassettes.scenarios(name))]
    not_let_in = [reply for reply in found if reply.trouble == "auth"]
    assert len(not_let_in) >= 2
    for reply in found:
        assert profile.sign_in not in reply.detail
        told = explained(explained(reply, profile, {}), profile, {})
        assert told.detail.count(profile.sign_in) == (reply.trouble == "auth")
        assert reply.detail in told.detail
        key = profile.keys[-1]
        keyed = explained(reply, profile, {key: "secret"}).detail
        assert (f"{key} is set, and was not accepted" in keyed) == (reply.trouble == "auth")
        assert profile.sign_in not in keyed


# --- the command line ---------------------------------------------------------------------------------


def test_no_text_of_others_is_taken_for_a_flag_and_the_prompt_is_no_argument(
    agent: AgentCLI, tmp_path: Path
) -> None:
    """A prompt may be longer than an argument can be; anybody on the machine can read arguments."""
    strange = "--evil $(touch hacked)"
    asked = task(
        tmp_path,
        spec(agent=strange, context=strange, agent_id=strange),
        prompt=f"The prompt: {strange}",
        persona=Persona(strange, strange, strange, strange, (strange,)),
        model=strange,
        session_id=strange,
        branch=strange,
        bead_id=strange,
        run_id=strange,
    )
    job = agent.command(asked, transcript(tmp_path))
    assert [word for word in job.argv if word.startswith("--evil") or "The prompt" in word] == []
    assert job.stdin is not None
    assert asked.prompt in job.stdin


def test_the_environment_holds_the_task_and_nothing_that_is_not_allowed(
    agent: AgentCLI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "BD_ACTOR", "BEADS_DB", "SSH_AUTH_SOCK", "CLAUDECODE", "SECRET"):
        monkeypatch.setenv(name, "secret")
    env = running.environment(agent.command(task(tmp_path, env={"PORT": "1"}), transcript(tmp_path)))
    assert "secret" not in env.values()
    ours = {name.removeprefix("BEADS_RALPH_") for name in env if name.startswith("BEADS_RALPH_")}
    assert ours == FACTS
    others = {name for name in env if not name.startswith(("BEADS_RALPH_", "LC_", "GIT_AUTHOR", "GIT_COMM"))}
    assert {"PATH", "HOME", "PORT"} <= others
    passed = {name for name in others if re.fullmatch(agent.profile.passes, name)}
    assert others - passed - running.set_by_itself(agent, tmp_path) <= ALLOWED | {"PORT"}


def test_a_job_has_a_name_a_place_a_limit_and_a_transcript(agent: AgentCLI, tmp_path: Path) -> None:
    files = transcript(tmp_path)
    job = agent.command(task(tmp_path, timeout=12.5), files)
    assert (job.cwd, job.timeout, job.transcript) == (tmp_path, 12.5, files)
    assert job.name == "agent-bd-1-1-setup"


def test_asking_twice_gives_the_same_job(agent: AgentCLI, tmp_path: Path) -> None:
    first, second = (agent.command(task(tmp_path), transcript(tmp_path)) for _ in range(2))
    assert first == second


@pytest.fixture(params=sorted(name for name, each in AGENTS.items() if each.profile.executable))
def real(request: pytest.FixtureRequest) -> AgentCLI:
    """One with a CLI of its own."""
    return AGENTS[request.param]


OPTIONS = ["--some-flag", "value with spaces", "-c", "key=$(x)", "--other=1"]


@pytest.mark.parametrize("session", [None, "0f0e0d0c-0b0a-4908-8706-050403020100"])
def test_the_users_program_and_options_are_used_as_they_are(
    real: AgentCLI, tmp_path: Path, session: str | None
) -> None:
    agent = spec(executable=f"/opt/bin/{real.profile.executable}", options=OPTIONS)
    argv = real.command(task(tmp_path, agent, session_id=session), transcript(tmp_path)).argv
    assert argv[0] == agent.executable
    at = argv.index(OPTIONS[0])
    assert list(argv[at : at + len(OPTIONS)]) == OPTIONS


def test_the_env_of_an_agent_goes_before_the_switches_of_its_adapter(real: AgentCLI, tmp_path: Path) -> None:
    ours = running.set_by_itself(real, tmp_path) - ALLOWED
    names = {name for name in ours if not name.startswith(("BEADS_RALPH_", "GIT_"))}
    agent = spec(env=dict.fromkeys(names, "the user's"))
    env = running.environment(real.command(task(tmp_path, agent), transcript(tmp_path)))
    assert {env[name] for name in names} <= {"the user's"}


@pytest.mark.parametrize("size", [20, 300_000])
def test_who_to_be_is_said_however_long_it_is(real: AgentCLI, tmp_path: Path, size: int) -> None:
    body = "You are MARK-persona. " + "\u00fc" * size
    asked = task(tmp_path, persona=Persona("dev", "builds", body, None, ()))
    job = real.command(asked, transcript(tmp_path))
    assert max(len(word.encode()) for word in job.argv) < 128 * 1024
    assert max(len(value.encode()) for value in running.environment(job).values()) < 128 * 1024
    places = (*job.argv, job.stdin or "", *job.files.values(), *running.environment(job).values())
    assert any("MARK-persona" in place and "\u00fc" * size in place for place in places)


def test_files_lie_beside_the_transcript_where_no_other_call_has_any(real: AgentCLI, tmp_path: Path) -> None:
    asked = task(tmp_path, role="qa", output_schema=OUTPUT_SCHEMA, persona=Persona("q", "", "x" * 300_000))
    jobs = [real.command(asked, transcript(tmp_path / "runs", name)) for name in ("one", "two")]
    for job in jobs:
        assert all(path.is_relative_to(tmp_path / "runs") for path in job.files)
    assert not set(jobs[0].files) & set(jobs[1].files)


# --- real calls ---------------------------------------------------------------------------------------


def play(name: str, folder: Path, act: Act, **fields: Any) -> tuple[Exit, Reply]:
    return running.call(AGENTS[name], asked(folder, name, act, **fields), folder)


def test_a_prompt_arrives_whole(name: str, tmp_path: Path) -> None:
    ended, _ = play(name, tmp_path, Act(), prompt=PROMPT)
    assert ended.ok, ended.stderr
    assert (tmp_path / "prompt.txt").read_bytes().decode() == PROMPT
    assert not (tmp_path / "hacked").exists()


def block(**result: Any) -> str:
    return f"My verdict:\n\n```json\n{json.dumps(result)}\n```"


@pytest.mark.parametrize(
    ("act", "ruling", "message"),
    [
        (Act(block(status="pass", message="all green")), "pass", "all green"),
        (Act(block(status="fail", message="2 red")), "fail", "2 red"),
        (Act(block(status="fail", message="2 red"), code=1), "fail", "2 red"),
        (Act(block(status="stop", message="a secret")), "stop", "a secret"),
        (Act("Everything is fine, trust me."), "fail", "no JSON: "),
        (Act(), "fail", "no JSON: "),
        (Act("```json\n{status: pass}\n```"), "fail", "bad JSON: "),
        (Act("```json\n{"), "fail", "bad JSON: "),
        (Act(block(status="pass")), "fail", "missing field: "),
        (Act(block(status="passed", message="x")), "fail", "wrong value: "),
        (Act(block(status="pass", message="x"), code=7), "fail", "crash: said pass, but exited with code 7"),
        (Act(code=7), "fail", "crash: exited with code 7"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_call_comes_to(name: str, tmp_path: Path, act: Act, ruling: str, message: str) -> None:
    ended, reply = play(name, tmp_path, act)
    found = judge(reply, ended)
    assert found.ruling == ruling
    assert found.message.startswith(message)


def test_a_call_that_takes_too_long_is_a_time_out_whatever_it_said(name: str, tmp_path: Path) -> None:
    act = Act(block(status="pass", message="x"), hang=True)
    ended, reply = play(name, tmp_path, act, timeout=1.5)
    assert ended.timed_out
    assert judge(reply, ended).message.startswith("time-out: ")


@pytest.mark.parametrize("lines", [[], [""], ["\x00\xff"], ["```json"], ["{" * 1000]])
def test_no_output_is_too_strange_to_be_read(agent: AgentCLI, lines: list[str]) -> None:
    for ended in (Exit(0), Exit(-11, stderr="\x00"), Exit(0, timed_out=True), Exit(0, flooded=True)):
        assert agent.reply(ended, lines).result is None


@pytest.mark.parametrize(
    "lines", [[], ["Done, all green."], ["{}"], ['{"type": "strange"}'], [block(status="pass")]]
)
def test_silence_is_no_success(real: AgentCLI, lines: list[str]) -> None:
    """Exit code 0 proves nothing: without its CLI's own last word a call has not been finished."""
    found = real.reply(Exit(0), lines)
    assert found.trouble == "unfinished"
    assert found.result is None
    assert judge(found, Exit(0)).ruling == "fail"


words = st.sampled_from(
    [
        "type",
        "result",
        "error",
        "message",
        "item",
        "usage",
        "is_error",
        "subtype",
        "turn.completed",
        "success",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=5),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(values.map(json.dumps) | st.text(max_size=60), max_size=8),
    code=st.sampled_from([0, 1, 2, 143, -9]),
    stderr=st.text(max_size=80),
)
def test_reading_never_raises(real: AgentCLI, lines: list[str], code: int, stderr: str) -> None:
    found = real.reply(Exit(code, stderr=stderr), lines)
    assert isinstance(found, Reply)
    assert isinstance(found.text, str)


def test_the_scripted_agent_runs_on_this_python(tmp_path: Path) -> None:
    assert AGENTS["scripted"].command(task(tmp_path), transcript(tmp_path)).argv[0] == sys.executable


# --- recorded runs ------------------------------------------------------------------------------------

RECORDED = sorted(name for name in AGENTS if cassettes.of(name).is_dir())
Damage = st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=6)), max_size=8)


@pytest.mark.parametrize("recorded", RECORDED)
@given(data=st.data())
def test_no_damaged_stream_raises_or_passes_for_success(recorded: str, data: st.DataObject) -> None:
    """Cut short, garbled, in another order: what is left of a run that ended with its last event may be an
    answer; what is left without it never is."""
    scenario = data.draw(st.sampled_from(sorted(cassettes.scenarios(recorded))))
    lines = (
        data.draw(st.permutations(cassettes.lines(recorded, scenario)))
        if data.draw(st.booleans())
        else (cassettes.lines(recorded, scenario))
    )
    kept = lines[: data.draw(st.integers(0, len(lines)))]
    for at, garbage in data.draw(Damage) if kept else ():
        number = at % len(kept)
        line, place = kept[number], at % (len(kept[number]) + 1)
        kept[number] = line[:place] + garbage.decode("utf-8", "replace") + line[place + len(garbage) :]
    reply = AGENTS[recorded].reply(cassettes.ended(recorded, scenario), kept)
    assert isinstance(reply, Reply)
    if not kept:
        assert judge(reply, Exit(0)).ruling == "fail"


@pytest.mark.parametrize("recorded", RECORDED)
def test_no_beginning_of_a_good_run_is_a_good_run(recorded: str) -> None:
    lines = cassettes.lines(recorded, "ok")
    for end in range(len(lines)):
        assert AGENTS[recorded].reply(Exit(0), lines[:end]).trouble == "unfinished"
    assert AGENTS[recorded].reply(Exit(0), lines).trouble == ""


# --- every class of trouble, by recorded runs; with the real CLIs it is in tests/real -------------------


@pytest.mark.parametrize(("cli", "scenario", "trouble"), classes.CASES)
def test_a_class_of_trouble_is_the_same_for_every_cli(cli: str, scenario: str, trouble: str) -> None:
    reply = cassettes.reply(cli, scenario)
    assert reply.trouble == trouble, reply
    assert reply.detail
    assert reply.result is None


def test_the_table_of_classes_is_that_of_the_recorded_runs() -> None:
    """`python -m tests.agents.classes` writes it anew."""
    assert classes.PAGE.read_text("utf-8") == classes.page()


# --- much output --------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cli", [name for name in sorted(AGENTS) if cassettes.scenarios(name)])
def test_what_a_cli_prints_for_hours_is_read_once_and_in_little_memory(cli: str) -> None:
    """All events of a good call again and again, and its last one at the end."""
    *rows, last = cassettes.lines(cli, "ok")
    times = MUCH // sum(map(len, rows))
    source = chain(chain.from_iterable(repeat(rows, times)), [last], cassettes.report(cli, "ok"))
    tracemalloc.start()
    try:
        reply = AGENTS[cli].reply(cassettes.ended(cli, "ok"), source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reply.trouble == ""
    assert reply.session_id == cassettes.reply(cli, "ok").session_id
    assert next(source, None) is None
    assert peak < MUCH // 2, f"{peak} bytes"

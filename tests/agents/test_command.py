"""Any program as an agent: its command line, its environment, and real programs that answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from beads_ralph.agents import environment
from beads_ralph.agents.adapters.command import PlainCommand
from beads_ralph.agents.protocol import AGENTS, select
from beads_ralph.bead.personas import Persona
from beads_ralph.bead.usage import Usage
from beads_ralph.errors import Code, RalphError
from beads_ralph.process.jobs import Job
from tests.agents import running
from tests.agents.running import call, executable, spec, task, transcript

INHERITED = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "LANG": "de_DE.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TERM": "xterm",
    "TMPDIR": "/tmp/me",
    "TZ": "UTC",
    "SHELL": "/bin/sh",
    "USER": "me",
    "LOGNAME": "me",
    "GIT_AUTHOR_NAME": "Me",
    "GIT_AUTHOR_EMAIL": "me@example.com",
    "GIT_COMMITTER_NAME": "Me",
    "GIT_COMMITTER_EMAIL": "me@example.com",
}
WITHHELD = {
    "GH_TOKEN": "secret",
    "GITHUB_TOKEN": "secret",
    "BD_DB": "/store",
    "BEADS_DIR": "/store",
    "BEADS_RALPH_RUN_ID": "an outer run",
    "BEADS_RALPH_JOB": "an outer job",
    "SSH_AUTH_SOCK": "/run/agent",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_SESSION_ID": "outer",
    "GIT_DIR": "/elsewhere",
    "GIT_INDEX_FILE": "/elsewhere/index",
    "LD_PRELOAD": "/evil.so",
    "PYTHONPATH": "/evil",
    "TMUX": "/tmp/tmux",
    "LCX": "no",
    "GIT_AUTHOR_NAME_": "no",
}


def command(tmp_path: Path, **fields: object) -> Job:
    agent = spec(executable="./agent.sh", env={"FLAVOUR": "plain", "BEADS_RALPH_ROLE": "mayor"})
    asked = task(tmp_path, agent, **{"env": {"PORT": "4001"}, **fields})
    return PlainCommand({**INHERITED, **WITHHELD}).command(asked, transcript(tmp_path))


# --- which adapter ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("scripted", "scripted"),
        ("/opt/bin/scripted", "scripted"),
        ("command", "command"),
        ("./tools/my-agent.sh", "command"),
        ("python3", "command"),
        ("scripted/run", "command"),
        ("", "command"),
    ],
)
def test_an_adapter_is_chosen_by_the_name_of_the_program(word: str, name: str) -> None:
    assert select(word).name == name


def test_the_registry_names_adapters_as_they_name_themselves() -> None:
    assert {name: agent.name for name, agent in AGENTS.items()} == {name: name for name in AGENTS}


# --- the command line ---------------------------------------------------------------------------------


def test_the_command_line_is_the_program_and_its_options(tmp_path: Path) -> None:
    agent = spec(executable="/opt/agent", options=["--fast", "--level=3"])
    job = PlainCommand({}).command(task(tmp_path, agent, timeout=77.0), transcript(tmp_path))
    assert job.argv == ("/opt/agent", "--fast", "--level=3")
    assert (job.cwd, job.timeout, job.transcript) == (tmp_path, 77.0, transcript(tmp_path))


def test_without_a_program_it_is_the_default_one(tmp_path: Path) -> None:
    job = PlainCommand({}).command(task(tmp_path, spec(executable=None)), transcript(tmp_path))
    assert job.argv == ("claude",)


def test_a_command_line_is_a_plain_function_of_its_task(tmp_path: Path) -> None:
    assert command(tmp_path) == command(tmp_path)


def test_the_persona_is_told_before_the_prompt(tmp_path: Path) -> None:
    assert command(tmp_path, prompt="Build it.").stdin == "Build it."
    told = command(tmp_path, persona=Persona("dev", body="You are careful."), prompt="Build it.").stdin
    assert told == "You are careful.\n\nBuild it."


def test_names_tell_apart_what_may_run_at_the_same_time(tmp_path: Path) -> None:
    assert command(tmp_path).name == "agent-bd-1-1-setup"
    assert command(tmp_path, role="merge", attempt=2).name == "agent-bd-1-1-setup"
    asked = task(tmp_path, spec(executable="x"), role="qa")
    names = {PlainCommand({}).command(asked, transcript(tmp_path, name)).name for name in ("qa-1", "qa-2")}
    assert len(names) == 2
    assert all(name.startswith("agent-bd-1-1-setup-qa-") for name in names)


# --- the environment ----------------------------------------------------------------------------------


def test_the_environment_is_exact(tmp_path: Path) -> None:
    job = command(tmp_path, session_id="s-1")
    assert job.env == {
        **INHERITED,
        "FLAVOUR": "plain",
        "PORT": "4001",
        "BEADS_RALPH_BEAD": "bd-1-1-setup",
        "BEADS_RALPH_ROLE": "dev",
        "BEADS_RALPH_AGENT": "dev",
        "BEADS_RALPH_ATTEMPT": "1",
        "BEADS_RALPH_WORKTREE": str(tmp_path),
        "BEADS_RALPH_BRANCH": "main/1-1-setup",
        "BEADS_RALPH_RUN_ID": "run-7",
        "BEADS_RALPH_MODEL": "sonnet",
        "BEADS_RALPH_SESSION": "s-1",
        "BEADS_RALPH_RESUME": "1",
    }


def test_a_new_session_has_an_id_that_no_other_call_has(tmp_path: Path) -> None:
    calls = [
        (task(tmp_path, attempt=attempt, run_id=run), transcript(tmp_path, name))
        for attempt in (1, 2)
        for run in ("a", "b")
        for name in ("x", "y")
    ]
    ids = {PlainCommand({}).command(*each).env["BEADS_RALPH_SESSION"] for each in calls}  # type: ignore[index]
    assert len(ids) == len(calls)
    assert environment.fresh_session(*calls[0]) in ids


@pytest.mark.parametrize("name", ["BD_DB", "BEADS_DIR", "BEADS_ACTOR", "GH_TOKEN", "GITHUB_TOKEN", "A=B", ""])
def test_a_variable_that_agents_may_not_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RalphError) as raised:
        PlainCommand({}).command(task(tmp_path, spec(env={name: "x"})), transcript(tmp_path))
    assert raised.value.code is Code.CONSTRAINT
    assert repr(name) in raised.value.message


def test_a_value_that_no_process_can_be_given_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="env 'A'"):
        PlainCommand({}).command(task(tmp_path, spec(env={"A": "x\0y"})), transcript(tmp_path))


def test_a_scrum_master_may_be_given_a_token_since_it_opens_the_pull_request(tmp_path: Path) -> None:
    asked = task(tmp_path, spec(env={"GH_TOKEN": "given on purpose"}), role="scrum-master")
    job = PlainCommand({}).command(asked, transcript(tmp_path))
    assert running.environment(job)["GH_TOKEN"] == "given on purpose"


# --- real programs ------------------------------------------------------------------------------------

SHELL_AGENT = """\
#!/bin/sh
cat > prompt.txt
printf '%s\\n' "$@" > arguments.txt
env > environment.txt
echo "BEADS_RALPH_SESSION $BEADS_RALPH_SESSION" >&2
echo 'BEADS_RALPH_USAGE {"input_tokens": 12, "cost_usd": 0.5}' >&2
echo 'I looked at everything.'
echo '```json'
echo '{"status": "fail", "message": "no tests"}'
echo '```'
exit 1
"""


def test_a_shell_script_can_be_an_agent(tmp_path: Path) -> None:
    program = executable(tmp_path / "my-agent", SHELL_AGENT)
    agent = spec(executable=str(program), options=["--strict"])
    asked = task(tmp_path, agent, role="qa", prompt="Check it.\n", session_id="s-9")
    ended, reply = call(select(str(program)), asked, tmp_path)
    assert ended.code == 1
    assert (tmp_path / "prompt.txt").read_text(encoding="utf-8") == "Check it.\n"
    assert (tmp_path / "arguments.txt").read_text(encoding="utf-8") == "--strict\n"
    assert reply.result == {"status": "fail", "message": "no tests"}
    assert (reply.session_id, reply.usage) == ("s-9", Usage(input_tokens=12, cost_usd=0.5))


def test_nothing_of_ours_reaches_a_real_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WITHHELD.items():
        if name != "LD_PRELOAD":
            monkeypatch.setenv(name, value)
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    agent = spec(executable=sys.executable, options=["-c", show])
    _, reply = call(select(sys.executable), task(tmp_path, agent), tmp_path)
    assert reply.result is not None
    assert {name for name in WITHHELD if name in reply.result} == {"BEADS_RALPH_RUN_ID"}
    assert reply.result["BEADS_RALPH_RUN_ID"] == "run-7"
    assert reply.result["PWD" if "PWD" in reply.result else "BEADS_RALPH_WORKTREE"] == str(tmp_path)


def test_a_program_that_does_not_read_its_prompt_is_no_trouble(tmp_path: Path) -> None:
    program = executable(tmp_path / "deaf", '#!/bin/sh\necho \'{"status": "pass", "message": "ok"}\'\n')
    asked = task(tmp_path, spec(executable=str(program)), prompt="x" * 600_000)
    ended, reply = call(select(str(program)), asked, tmp_path)
    assert (ended.code, reply.result) == (0, {"status": "pass", "message": "ok"})


def test_what_a_program_prints_in_prose_is_no_limit(tmp_path: Path) -> None:
    words = json.dumps("You've hit your limit; resets at 14:30")
    program = executable(tmp_path / "reader", f"#!/bin/sh\necho {words}\necho {words} >&2\n")
    _, reply = call(select(str(program)), task(tmp_path, spec(executable=str(program))), tmp_path)
    assert (reply.trouble, reply.limit_reset_at) == ("", None)

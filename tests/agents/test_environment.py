"""What agents inherit: what they need and what the user names, never a credential or another's session."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.agents import environment
from beads_ralph.config.model import Config
from beads_ralph.errors import Code, RalphError
from beads_ralph.session import confinement
from tests.agents.running import spec, task, transcript

STORE = ["BD_DB", "BD_ACTOR", "BEADS_DIR", "BEADS_DB"]
FORGE = ["GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITLAB_TOKEN"]
SESSIONS = [
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID"),
    *("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID"),
    *("GEMINI_CLI", "GEMINI_CLI_IDE_SERVER_PORT", "OPENCODE", "OPENCODE_PID", "OPENCODE_SESSION_ID"),
    *("GOOSE_TERMINAL", "AGENT_SESSION_ID", "COPILOT_CLI", "COPILOT_AGENT_SESSION_ID", "CURSOR_TRACE_ID"),
    *("TMUX", "TMUX_PANE"),
]
OURS = ["BEADS_RALPH_RUN_ID", "BEADS_RALPH_JOB", "BEADS_RALPH_CONFIG"]
ADMINISTRATORS = ["ANTHROPIC_ADMIN_KEY", "ANTHROPIC_ADMIN_API_KEY", "OPENAI_ADMIN_KEY"]
SETTINGS = [
    *("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "OPENAI_API_KEY"),
    *("CODEX_API_KEY", "GEMINI_API_KEY", "OPENCODE_CONFIG_CONTENT", "GOOSE_PROVIDER"),
    *("COPILOT_GITHUB_TOKEN", "COPILOT_MODEL", "HTTPS_PROXY", "XDG_CONFIG_HOME"),
]


def made(folder: Path, inherited: dict[str, str], passes: str = "", **fields: object) -> dict[str, str]:
    asked = task(folder, fields.pop("agent", spec()), env={}, **fields)  # type: ignore[arg-type]
    return environment.of_task(asked, transcript(folder), inherited, passes)


@pytest.mark.parametrize("name", [*STORE, *FORGE, *SESSIONS, *OURS, *ADMINISTRATORS])
def test_what_is_withheld_comes_by_no_way(tmp_path: Path, name: str) -> None:
    env = made(tmp_path, {name: "from outside"}, passes=".*", inherits=(name,))
    assert "from outside" not in env.values()


@pytest.mark.parametrize("name", SETTINGS)
def test_keys_and_settings_come_where_the_program_or_the_user_asks_for_them(
    tmp_path: Path, name: str
) -> None:
    assert name not in made(tmp_path, {name: "x"})
    assert made(tmp_path, {name: "x"}, passes=name)[name] == "x"
    assert made(tmp_path, {name: "x"}, inherits=(name,))[name] == "x"
    assert name not in made(tmp_path, {name: "x"}, inherits=(name.lower(), name[:-1]))


def test_home_is_as_configured_and_settings_that_lie_elsewhere_do_not_lead_back(tmp_path: Path) -> None:
    ours = {"HOME": "/home/me", "XDG_CONFIG_HOME": "/home/me/.c", "CODEX_HOME": "/home/me/x", "PATH": "/bin"}
    assert made(tmp_path, ours, passes=".*")["HOME"] == "/home/me"
    env = made(tmp_path, ours, passes=".*", home=tmp_path / "agents")
    assert {name: env.get(name) for name in ours} == {
        "HOME": str(tmp_path / "agents"),
        "XDG_CONFIG_HOME": None,
        "CODEX_HOME": None,
        "PATH": "/bin",
    }
    named = made(tmp_path, ours, passes=".*", home=tmp_path, inherits=("CODEX_HOME",))
    assert named["CODEX_HOME"] == "/home/me/x"


def test_the_env_of_an_agent_goes_before_the_configured_home(tmp_path: Path) -> None:
    env = made(tmp_path, {}, home=tmp_path, agent=spec(env={"HOME": "/its/own"}))
    assert env["HOME"] == "/its/own"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (None, None),
        ("~/agents", "{home}/agents"),
        ("~", "{home}"),
        ("/opt/agents", "/opt/agents"),
        ("agents", "{root}/agents"),
        ("../agents", "{root.parent}/agents"),
        ("~nobody-of-that-name/x", "{root}/~nobody-of-that-name/x"),
    ],
)
def test_where_the_home_of_agents_is(tmp_path: Path, said: str | None, meant: str | None) -> None:
    found = confinement.home_of(Config(agent_home=said), tmp_path)
    assert found == (Path(meant.format(home=Path.home(), root=tmp_path)) if meant else None)


def test_a_home_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="agent_home") as caught:
        confinement.require(Config(agent_home="nowhere"), tmp_path)
    assert caught.value.code is Code.CONFIG_INVALID
    assert "mkdir" in caught.value.suggested_action
    confinement.require(Config(agent_home="."), tmp_path)


def test_every_name_that_may_not_be_passed_on_is_named(tmp_path: Path) -> None:
    names = ["JAVA_HOME", "BD_DB", "GH_TOKEN", "CLAUDECODE", "BEADS_RALPH_JOB", "A=B"]
    with pytest.raises(RalphError) as caught:
        confinement.require(Config(agent_env=names), tmp_path)
    assert caught.value.code is Code.CONFIG_INVALID
    assert [fault.message.split("'")[1] for fault in caught.value.faults] == names[1:]
    confinement.require(Config(agent_env=names[:1]), tmp_path)

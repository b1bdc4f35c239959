"""agents: which programs are here, which version, signed in or not; doctor says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.protocol import AGENTS
from tests.agents.running import executable
from tests.cli.running import ralph
from tests.conftest import need_bwrap
from tests.loop.plans import Project, sprint

KNOWN = [cli for cli in AGENTS.values() if cli.profile.executable]


def stand_in(folder: Path, name: str, version: str) -> dict[str, str]:
    """An environment whose PATH has a program of that name, which can say its version and nothing else."""
    folder.mkdir(exist_ok=True)
    executable(folder / name, f"#!/bin/sh\n[ $# = 1 ] && echo 'This is {name} {version}'\n")
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def found(repo: Path, name: str, env: dict[str, str]) -> dict[str, Any]:
    rows = ralph("agents", "--json", cwd=repo, env=env).data["agents"]
    assert [row["name"] for row in rows] == [cli.name for cli in KNOWN]
    return dict(next(row for row in rows if row["name"] == name))


@pytest.mark.parametrize("cli", KNOWN, ids=lambda cli: cli.name)
def test_a_program_that_is_not_here_comes_with_what_to_do(cli: Any, repo: Path) -> None:
    row = found(repo, cli.name, {"PATH": "/usr/bin:/bin"})
    assert (row["path"], row["version"], row["signed_in"]) == (None, None, "unknown")
    assert row["action"] == cli.profile.install


@pytest.mark.parametrize("cli", KNOWN, ids=lambda cli: cli.name)
def test_a_program_that_is_here_says_its_version_and_whether_one_is_signed_in(
    cli: Any, repo: Path, tmp_path: Path
) -> None:
    env = stand_in(tmp_path / "bin", cli.profile.executable, cli.profile.tested)
    row = found(repo, cli.name, env)
    assert (row["path"], row["version"]) == (
        str(tmp_path / "bin" / cli.profile.executable),
        cli.profile.tested,
    )
    assert (row["signed_in"], row["action"], row["warning"]) == ("no", cli.profile.sign_in, "")
    assert row["smoke_test"] == f"beads-ralph agents --smoke {cli.name}"
    for key in cli.profile.keys if cli.name != "goose" else ():
        signed = found(repo, cli.name, {**env, key: "secret"})
        assert (signed["signed_in"], signed["action"]) == ("yes", "")


def test_files_that_a_sign_in_leaves_count_too(repo: Path, tmp_path: Path) -> None:
    cli = next(cli for cli in KNOWN if cli.profile.credentials)
    env = stand_in(tmp_path / "bin", cli.profile.executable, cli.profile.tested)
    home = tmp_path / "home of another"
    file = home / cli.profile.credentials[0]
    file.parent.mkdir(parents=True)
    file.write_text("{}", encoding="utf-8")
    assert found(repo, cli.name, {**env, "HOME": str(home)})["signed_in"] == "yes"


@pytest.mark.parametrize(("version", "warns"), [("99.0.1", True), ("{tested}", False)])
def test_a_version_that_was_not_tested_is_named(
    repo: Path, tmp_path: Path, version: str, warns: bool
) -> None:
    cli = KNOWN[0]
    version = version.format(tested=cli.profile.tested)
    env = stand_in(tmp_path / "bin", cli.profile.executable, version)
    warning = found(repo, cli.name, env)["warning"]
    assert (version in warning and cli.profile.tested in warning) is warns
    assert ("was not tested" in ralph("agents", cli.name, cwd=repo, env=env).out) is warns


def test_one_that_was_named_and_is_not_here_is_a_failure(repo: Path) -> None:
    env = {"PATH": "/usr/bin:/bin"}
    assert ralph("agents", cwd=repo, env=env).code == 0
    ran = ralph("agents", KNOWN[0].name, cwd=repo, env=env)
    assert ran.code == 1
    assert "not on PATH" in ran.out


def test_a_name_that_nobody_has_is_a_mistake_in_use(repo: Path) -> None:
    ran = ralph("agents", "clod", "--json", cwd=repo)
    assert (ran.code, ran.error["code"]) == (2, "USAGE.INVALID")
    assert KNOWN[0].name in ran.error["suggested_action"]


def test_a_program_that_does_not_answer_fails_its_smoke_test(repo: Path, tmp_path: Path) -> None:
    cli = KNOWN[0]
    env = stand_in(tmp_path / "bin", cli.profile.executable, cli.profile.tested)
    ran = ralph("agents", cli.name, "--smoke", "--json", cwd=repo, env=env)
    (row,) = ran.data["smoke_tests"]
    assert (ran.code, row["name"], row["ok"]) == (1, cli.name, False)
    assert row["message"]


# --- what is used here --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "config", "secrets", "signed", "action"),
    [
        ({"ANTHROPIC_API_KEY": "secret"}, "", "", "no", "goose configure"),
        ({"ANTHROPIC_API_KEY": "secret", "GOOSE_PROVIDER": "anthropic"}, "", "", "yes", ""),
        ({"ANTHROPIC_API_KEY": "secret"}, "GOOSE_PROVIDER: openai\n", "", "no", "Set OPENAI_API_KEY"),
        ({}, "active_provider: openai\n", "OPENAI_API_KEY: secret\n", "yes", ""),
        ({}, "GOOSE_PROVIDER: ollama\n", "", "unknown", ""),
    ],
)
def test_goose_is_signed_in_by_the_key_of_its_provider(
    repo: Path, tmp_path: Path, env: dict[str, str], config: str, secrets: str, signed: str, action: str
) -> None:
    home = tmp_path / "home of another"
    (home / ".config" / "goose").mkdir(parents=True)
    (home / ".config" / "goose" / "config.yaml").write_text(config, encoding="utf-8")
    (home / ".config" / "goose" / "secrets.yaml").write_text(secrets, encoding="utf-8")
    where = {**stand_in(tmp_path / "bin", "goose", "1.52.0"), "HOME": str(home), **env}
    row = found(repo, "goose", {**where, "XDG_CONFIG_HOME": str(home / ".config")})
    assert row["signed_in"] == signed
    assert action in row["action"]
    assert bool(row["action"]) is bool(action)


def test_codex_is_signed_in_by_the_key_of_its_own_provider_where_agents_get_it(
    repo: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home of another"
    (home / ".codex").mkdir(parents=True)
    settings = 'model_provider = "mine"\n[model_providers.mine]\nname = "mine"\nenv_key = "MINE_KEY"\n'
    (home / ".codex" / "config.toml").write_text(settings, encoding="utf-8")
    env = {**stand_in(tmp_path / "bin", "codex", "0.163.0"), "HOME": str(home), "CODEX_API_KEY": "other"}
    row = found(repo, "codex", env)
    assert (row["signed_in"], row["provider"]) == ("no", "mine")
    assert row["action"].startswith("Set MINE_KEY")
    row = found(repo, "codex", {**env, "MINE_KEY": "secret"})
    assert (row["signed_in"], row["action"].startswith("Add MINE_KEY to agent_env")) == ("no", True)
    (repo / "beads-ralph.yaml").write_text("agent_env: [MINE_KEY]\n", encoding="utf-8")
    assert found(repo, "codex", {**env, "MINE_KEY": "secret"})["signed_in"] == "yes"


def test_doctor_and_agents_look_at_what_the_open_beads_use(repo: Path, tmp_path: Path) -> None:
    own = executable(tmp_path / "my-agent", "#!/bin/sh\n")
    agents = [
        {"agent": "claude", "executable": "codex", "model": "gpt-6-sol", "fallback": ["aider:gpt-5"]},
        {"agent": "claude", "executable": str(own)},
    ]
    project = Project.make(repo, sprint("1.1", "One"), plan_settings={"dev_agents": agents})
    project.ralph("mason", "plan.md", "--json")
    env = stand_in(tmp_path / "bin", "codex", "99.0.1")
    rows = {row["name"]: row for row in project.ralph("agents", "--json", env=env).data["agents"]}
    assert {name for name, row in rows.items() if row["used"]} == {"codex", "aider", str(own)}
    assert (rows["codex"]["models"], rows["aider"]["models"]) == (["gpt-6-sol"], ["gpt-5"])
    assert (rows["aider"]["path"], rows[str(own)]["path"]) == (None, str(own))
    seen = {row["name"]: row for row in project.ralph("doctor", "--json", env=env).data["checks"]}
    assert "used here with gpt-6-sol, not signed in" in seen["codex"]["detail"]
    assert "was not tested" in seen["codex"]["detail"]
    assert seen["aider"]["status"] == "missing"
    assert seen["goose"]["detail"].endswith("not used)")


@pytest.mark.parametrize(
    ("settings", "program"),
    [("", "claude"), ("agent_defaults: {default_executable: aider}\n", "aider")],
)
def test_doctor_fails_where_no_program_can_play_an_agent(
    repo: Path, tmp_path: Path, settings: str, program: str
) -> None:
    (repo / "beads-ralph.yaml").write_text(settings, encoding="utf-8")
    env = {"PATH": "/usr/bin:/bin"}
    ran = ralph("doctor", "--json", cwd=repo, env=env)
    seen = {row["name"]: row for row in ran.data["checks"]}
    assert (ran.code, seen[program]["status"], seen["agents"]["required"]) == (1, "missing", True)
    assert f"there is no program {program} on PATH" in seen["agents"]["detail"]
    stand_in(tmp_path / "bin", program, "1.0.0")
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    assert ralph("doctor", "--json", cwd=repo, env=env).code == 0


WRITES = """\
#!/bin/sh
cat > /dev/null
touch {outside} 2> /dev/null && said=open || said=closed
printf '```json\\n{{"status": "pass", "message": "%s, %s"}}\\n```\\n' "$said" "$BEADS_RALPH_MODEL"
"""


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_the_question_is_asked_in_the_sandbox_of_the_settings(
    repo: Path, tmp_path: Path, sandbox: str
) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    own = executable(tmp_path / "my-agent", WRITES.format(outside=repo / "outside"))
    settings = f"sandbox: {sandbox}\nagent_defaults:\n  default_executable: {own}\n  default_model: mine\n"
    (repo / "beads-ralph.yaml").write_text(settings, encoding="utf-8")
    ran = ralph("agents", "--smoke", "--json", cwd=repo)
    (row,) = ran.data["smoke_tests"]
    said = "open, mine" if sandbox == "none" else "closed, mine"
    assert (ran.code, row["ok"], row["message"], row["model"], row["sandbox"]) == (
        *(0, True, said, "mine", sandbox),
    )
    assert (repo / "outside").exists() is (sandbox == "none")


def test_doctor_looks_at_every_agent_program(repo: Path) -> None:
    names = {row["name"] for row in ralph("doctor", "--json", cwd=repo).data["checks"]}
    assert {cli.profile.executable for cli in KNOWN} <= names


# --- a run --------------------------------------------------------------------------------------------

# Long enough at work for the version to be told meanwhile.
PROGRAM = """\
#!/bin/sh
echo "$*" >> {calls}
case $* in --version) echo 99.0.1; exit;; esac
sleep 2
exit 1
"""


@pytest.mark.parametrize(("name", "asked"), [("codex", True), ("own-agent", False)])
def test_a_run_warns_of_a_version_that_was_not_tested_and_asks_nobody_elses_program(
    repo: Path, tmp_path: Path, name: str, asked: bool
) -> None:
    calls = tmp_path / "calls"
    program = executable(tmp_path / name, PROGRAM.format(calls=calls))
    agent = {"agent": "claude", "executable": str(program)}
    project = Project.make(
        repo, sprint("1.1", "One"), plan_settings={"dev_agents": [agent], "max_retry_attempts": 1}
    )
    assert project.run().data["ended"] != "done"
    warnings = [row["message"] for row in project.events("warning_given")]
    assert any("99.0.1 was not tested" in text for text in warnings) is asked
    assert ("--version" in calls.read_text("utf-8").splitlines()) is asked

"""agents: which programs are here, which version, signed in or not; doctor says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.protocol import AGENTS
from tests.agents.running import executable
from tests.cli.running import ralph
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
    for key in cli.profile.keys:
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

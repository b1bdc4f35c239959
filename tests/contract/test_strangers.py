"""A stranger adds an agent CLI, an executor or a forge in one file each.

The program is copied, the stranger's files are put into it, and a plan is run with nothing else changed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli.running import PROJECT, ralph
from tests.git.repos import git
from tests.loop.plans import Project, sprint

HERE = Path(__file__).parent / "strangers"
AGENT = {"agent": "claude", "executable": "mynah"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a program that holds the stranger's files."""
    program = tmp_path / "program" / "beads_ralph"
    shutil.copytree(PROJECT / "src" / "beads_ralph", program, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "agent.py", program / "agents" / "adapters" / "mynah.py")
    shutil.copy(HERE / "executor.py", program / "process" / "executors" / "nice.py")
    shutil.copy(HERE / "forge.py", program / "forge" / "adapters" / "ledger.py")
    return {"PYTHONPATH": str(program.parent)}


def test_a_plan_is_run_with_all_three(repo: Path, env: dict[str, str]) -> None:
    project = Project.make(
        repo,
        sprint("1.1", "One"),
        plan_settings={"dev_agents": [AGENT], "qa_agents": [AGENT]},
        executor="nice",
        forge="ledger",
    )
    ran = project.run(env=env)
    assert ran.data["closed"] == ["bd-1-1-one"]
    (row,) = (project.root.parent / "ledger.txt").read_text("utf-8").splitlines()
    branch, target = row.split()
    assert target == "main"
    assert git(project.root, "show", f"{branch}:mynah.txt") == "mynah"
    (told,) = {event["program"] for event in project.events("agent_ended")}
    assert told == "mynah"
    assert project.metadata("bd-1-1-one")["pull_request"]["url"].endswith("ledger.txt#1")


def test_the_names_are_known_wherever_names_are_listed(repo: Path, env: dict[str, str]) -> None:
    shown = ralph("run", "--help", cwd=repo, env={**env, "COLUMNS": "200"}).out
    assert "nice" in shown
    assert "ledger" in shown
    keys = json.loads(ralph("schema", "Config", cwd=repo, env=env).out)["$defs"]["Keys"]["properties"]
    assert keys["executor"]["enum"] == ["local", "nice", "tmux"]
    assert keys["forge"]["enum"] == ["auto", "github", "ledger", "local", "none"]
    assert "Mynah" in ralph("agents", cwd=repo, env=env).out


@pytest.mark.parametrize("key", ["executor", "forge"])
def test_a_name_that_no_file_has_is_refused_with_those_that_there_are(
    repo: Path, env: dict[str, str], key: str
) -> None:
    (repo / "beads-ralph.yaml").write_text(yaml.safe_dump({key: "smoke"}), encoding="utf-8")
    ran = ralph("list", "--json", cwd=repo, env=env)
    assert ran.code == 1
    assert {"executor": "nice", "forge": "ledger"}[key] in ran.out

"""The smoke test, with the real programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from beads_ralph.agents.protocol import AGENTS
from tests.cli.running import ralph
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import DEFAULT, NIGHTLY, Cli

READY = '```json\n{"status": "pass", "message": "ready"}\n```'
NAMES = [
    *(pytest.param(name, marks=pytest.mark.real_agents) for name in DEFAULT),
    *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_answers_or_says_why_not(
    name: str, cli: Callable[[str, str], Cli], model_server: ModelServer, repo: Path
) -> None:
    run = f"smoke-{name}"
    ready = cli(name, model_server.play(run, [Rule("whether you can be reached", say=READY)]))
    (repo / "beads-ralph.yaml").write_text("agent_env: [SCRIPTED_KEY]\n", encoding="utf-8")
    env = {**ready.env, "PATH": f"{ready.program.parent}{os.pathsep}{os.environ['PATH']}"}
    ran = ralph("agents", name, "--smoke", "--json", cwd=repo, env=env)
    (row,) = ran.data["smoke_tests"]
    assert (ran.code, row["ok"], row["message"]) == (0, True, "ready"), row
    (found,) = ran.data["agents"]
    assert (found["version"], found["warning"]) == (AGENTS[name].profile.tested, "")

    refused = cli(name, model_server.base("401", f"{run}-refused"))
    ran = ralph("agents", name, "--smoke", "--json", cwd=repo, env={**env, **refused.env})
    (row,) = ran.data["smoke_tests"]
    assert (ran.code, row["ok"]) == (1, False)
    assert row["message"].startswith("auth: "), row

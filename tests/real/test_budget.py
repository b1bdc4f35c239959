"""A budget in dollars with the real programs that tell no price."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loop.plans import Project, sprint
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import Cli

pytestmark = pytest.mark.real_agents
WORK = ("echo hello > greeting.txt", "git add --all", "git commit --quiet --message begun")
RULES = [Rule(r"You are the developer", WORK, "Done.")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "model"), [("codex", "mock-model"), ("gemini", "gemini-2.5-flash")])
def test_a_budget_in_dollars_binds_a_program_that_tells_tokens_alone(
    name: str, model: str, cli: Callable[[str, str], Cli], model_server: ModelServer, repo: Path
) -> None:
    ready = cli(name, model_server.play(f"budget-{name}", RULES))
    unnamed = {key: value for key, value in ready.env.items() if key != "GEMINI_MODEL"}
    agent: dict[str, Any] = {"agent": "claude", "executable": str(ready.program), "env": unnamed}
    sprints = sprint("1.1", "Greeting"), sprint("1.2", "More")

    project = Project.make(repo, *sprints, plan_settings={"dev_agents": [agent]}, budget_usd=0.0001)
    ran = project.run()
    assert (ran.code, project.events()) == (1, [])
    assert "budget_usd of 0.0001 cannot be kept" in ran.error["message"]
    assert f"{ready.program}:MODEL" in ran.error["suggested_action"]

    own = {"mock-*": {"input": 1, "output": 5}}
    settings = {"dev_agents": [{**agent, "model": model}]}
    (repo / "plan.md").unlink()
    project = Project.make(repo, *sprints, plan_settings=settings, budget_usd=0.0001, prices=own)
    ran = project.run()
    assert (ran.data["ended"], ran.data["closed"]) == ("stopped", ["bd-1-1-greeting"]), ran.out
    (used,) = [row for row in ran.data["programs"] if row["program"] == str(ready.program)]
    assert (used["calls"], used["cost_computed"], used["usage"]["cost_usd"] > 0.0001) == (1, True, True)
    assert "the cost budget (USD) of 0.0001 is used up" in ran.data["reason"]

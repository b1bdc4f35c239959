"""Real CLIs that stand in for one another: at a limit, without a sign-in, and when a server is down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loop.plans import Project, fails, git, passes, sprint
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import Cli
from tests.real.record import address

pytestmark = pytest.mark.real_agents
BEAD = "bd-1-1-greeting"
MENDING = "What was found and is still open"
RULES = [
    Rule(
        MENDING,
        ("echo HELLO > greeting.txt", "git add --all", "git commit --quiet --message mended"),
        "Mended.",
    ),
    Rule(
        r"You are the developer",
        ("echo hello > greeting.txt", "git add --all", "git commit --quiet --message begun"),
        "Begun.",
    ),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "second", "scenario", "trouble"),
    [
        ("claude", "codex", "limitr3600", "limit"),
        ("codex", "claude", "limitr3600", "limit"),
        ("gemini", "goose", "401", "auth"),
        ("goose", "gemini", "500", "server"),
        ("codex", "goose", "unreachable", "server"),
        ("codex", "goose", "429r300", "limit"),
    ],
)
def test_one_real_cli_stands_in_for_another(
    first: str,
    second: str,
    scenario: str,
    trouble: str,
    cli: Callable[[str, str], Cli],
    model_server: ModelServer,
    repo: Path,
) -> None:
    run = f"stands-in-{first}-{second}-{scenario}"
    cannot = cli(first, address(model_server, scenario, f"{run}-cannot"))
    able = cli(second, model_server.play(run, RULES))
    # Whoever plays it, an agent has one environment.
    agent: dict[str, Any] = {
        "agent": "claude",
        "executable": str(cannot.program),
        "fallback": [str(able.program)],
        "env": {**cannot.env, **able.env},
    }
    reviewer = {
        "agent": "claude",
        "executable": "scripted",
        "env": {"BEADS_RALPH_SCRIPT": str(repo.parent / "script.yaml")},
    }
    project = Project.make(
        repo,
        sprint("1.1", "Greeting", tasks=["Write greeting.txt"]),
        script={"*": {"qa": [fails("MARK-finding: say it in capitals"), passes()]}},
        plan_settings={"dev_agents": [agent], "qa_agents": [reviewer]},
    )
    ran = project.run()
    assert (ran.code, ran.data.get("closed"), ran.data.get("attempts")) == (0, [BEAD], 2), ran.data
    gone = project.events("program_unavailable")
    assert {(row["program"], row["trouble"]) for row in gone} == {(str(cannot.program), trouble)}
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert (rows[0]["program"], rows[0]["trouble"]) == (str(cannot.program), trouble)
    begun, mended = (row for row in rows if row["program"] == str(able.program))
    assert begun["session_id"] == mended["session_id"] is not None
    mending = next(one for one in model_server.questions(run) if MENDING in one.asked)
    assert "MARK-finding" in mending.asked
    assert "You are the developer" in mending.said, "the session that did the work"
    assert git(repo, "show", "feature/1-1-greeting:greeting.txt") == "HELLO"
    assert project.strays() == []

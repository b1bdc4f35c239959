"""What real CLIs meet on the way to their model, and what a run does about it: no attempt is spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.loop.run_settings import Ended
from beads_ralph.process.calls import Retry
from tests.loop.plans import Project, loop_of, sprint
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import Cli

pytestmark = [pytest.mark.real_agents, pytest.mark.full]
BEAD = "bd-1-1-greeting"
GREETS = Rule(
    r"You are the developer",
    ("echo hello > greeting.txt", "git add --all", "git commit --quiet --message begun"),
    "Begun.",
)
Make = Callable[[str, str], Cli]


def project_of(repo: Path, dev: dict[str, Any], *sprints: str, **settings: Any) -> Project:
    """Developed by a real CLI, reviewed by the scripted agent."""
    env = {"BEADS_RALPH_SCRIPT": str(repo.parent / "script.yaml")}
    reviewer = {"agent": "claude", "executable": "scripted", "env": env}
    plan = sprints or (sprint("1.1", "Greeting", tasks=["Write greeting.txt"]),)
    agents = {"dev_agents": [dev], "qa_agents": [reviewer]}
    return Project.make(repo, *plan, plan_settings=agents, **settings)


def played_by(first: Cli, *others: Cli) -> dict[str, Any]:
    env = {name: value for one in (first, *others) for name, value in one.env.items()}
    fallback = [str(one.program) for one in others]
    return {"agent": "claude", "executable": str(first.program), "fallback": fallback, "env": env}


def ran_through(project: Project) -> Ended:
    with loop_of(project, server_retry=Retry(tries=2, first=0.05)) as loop:
        loop.programs.outage_seconds = 0.1
        return asyncio.run(loop.run())


@pytest.mark.parametrize(
    ("first", "second", "scenario", "trouble"),
    [
        ("codex", "goose", "429r300", "limit"),
        ("gemini", "goose", "500", "server"),
        ("claude", "codex", "402", "credit"),
        ("goose", "codex", "402", "credit"),
        ("claude", "codex", "404", "configuration"),
        ("codex", "claude", "404", "configuration"),
        ("gemini", "codex", "404", "configuration"),
        ("goose", "claude", "404", "configuration"),
        ("claude", "goose", "413", "too_long"),
    ],
)
def test_another_cli_stands_in(
    first: str, second: str, scenario: str, trouble: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    run = f"fault-{first}-{second}-{scenario}"
    cannot = cli(first, model_server.base(scenario, f"{run}-cannot"))
    able = cli(second, model_server.play(run, [GREETS]))
    project = project_of(repo, played_by(cannot, able))
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1), ended.reason
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert {(row["program"], row["trouble"]) for row in rows} == {
        (str(cannot.program), trouble),
        (str(able.program), ""),
    }


@pytest.mark.parametrize(("name", "refused"), [("claude", 8), ("codex", 10), ("gemini", 6), ("goose", 10)])
def test_an_outage_at_the_first_call_of_a_run_is_waited_for(
    name: str, refused: int, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    """It lasts longer than what a CLI tries by itself, twice."""
    run = f"outage-{name}"
    model_server.play(run, [GREETS])
    player = cli(name, model_server.base(f"500x{refused}", run))
    project = project_of(repo, played_by(player))
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1), ended.reason
    assert len(model_server.questions(run)) > refused
    (first, *_) = project.events("program_unavailable")
    assert first["trouble"] == "server"
    assert "address" in first["todo"]


def test_an_account_without_credit_ends_the_run_and_no_bead(
    cli: Make, model_server: ModelServer, repo: Path
) -> None:
    player = cli("claude", model_server.base("402", "no-credit"))
    project = project_of(repo, played_by(player), sprint("1.1", "One"), sprint("1.1a", "Other"))
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("stopped", 0)
    assert "has no credit left" in ended.reason
    assert "signed in" not in ended.reason
    assert set(project.statuses().values()) == {"open"}


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "goose"])
def test_a_model_that_is_not_known_is_asked_for_once(
    name: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    player = cli(name, model_server.base("404", f"no-model-{name}"))
    plan = [sprint(f"1.1{letter}", f"S {letter}") for letter in "abc"]
    project = project_of(repo, played_by(player), *plan)
    with loop_of(project, max_parallel=1) as loop:
        ended = asyncio.run(loop.run())
    assert (ended.why, ended.attempts, len(ended.blocked)) == ("blocked", 0, 3)
    assert len(project.events("agent_started")) == 1
    assert all("is not set up for this" in reason for _, reason in ended.blocked)


@pytest.mark.parametrize(("first", "second"), [("codex", "goose")])
def test_a_model_that_never_answers_is_left_for_another(
    first: str, second: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    run = f"never-{first}"
    silent = cli(first, model_server.base("hang", f"{run}-silent"))
    able = cli(second, model_server.play(run, [GREETS]))
    project = project_of(repo, played_by(silent, able), stall_limit="5s")
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1), ended.reason
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert [(row["program"], row["trouble"]) for row in rows] == [
        (str(silent.program), "stalled"),
        (str(silent.program), "stalled"),
        (str(able.program), ""),
    ]
    assert len({row["session_id"] for row in rows}) == 3

"""A whole bead with a real CLI: work, a verdict that sends it back, the same session, a pull request; and one
call as an ordinary user, for whom some of them behave otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents.adapters.gemini import Gemini
from beads_ralph.agents.adapters.goose import Goose
from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.agents.reply_reader import lines_of
from tests.conftest import need_bwrap
from tests.git.repos import git
from tests.loop.plans import Project, sprint
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import DEFAULT, NIGHTLY, Cli
from tests.real.record import Take, play
from tests.real.users import NOBODY, as_nobody

pytestmark = pytest.mark.real_agents
BEAD = "bd-1-1-greeting"
VERDICT = '```json\n{"status": "%s", "message": "%s", "nonce": "@nonce@"}\n```'
EXAMINE = r"(?s)^You examine.*nonce of this call, which no file can know, is `(?P<nonce>\w+)`"
MENDING = "What was found and is still open"
RULES = [
    Rule(EXAMINE, say=VERDICT % ("fail", "MARK-finding: say it in capitals"), times=1),
    Rule(EXAMINE, say=VERDICT % ("pass", "well said")),
    Rule(
        MENDING,
        ("echo HELLO > greeting.txt", "git add --all", "git commit --quiet --message mended"),
        "Mended.",
    ),
    Rule(
        r"You are the developer",
        ("echo hello > greeting.txt", "git add --all", "git commit --quiet --message begun"),
        "Rate limit exceeded, 429, and Ran into this error: done all the same.",
    ),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sandbox", ["none", pytest.param("bwrap", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "name", [*DEFAULT, *(pytest.param(name, marks=pytest.mark.nightly) for name in NIGHTLY)]
)
def test_a_bead_is_worked_on_sent_back_mended_and_closed(
    name: str, sandbox: str, cli: Callable[[str, str], Cli], model_server: ModelServer, repo: Path
) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    run = f"bead-{name}-{sandbox}"
    ready = cli(name, model_server.play(run, RULES))
    agent: dict[str, Any] = {"agent": "claude", "executable": str(ready.program), "env": ready.env}
    project = Project.make(
        repo,
        sprint("1.1", "Greeting", tasks=["Write greeting.txt"]),
        plan_settings={"dev_agents": [agent], "qa_agents": [agent]},
        sandbox=sandbox,
    )
    ran = project.run()
    assert ran.code == 0, ran.data
    assert ran.data["closed"] == [BEAD]
    assert git(repo, "show", "feature/1-1-greeting:greeting.txt") == "HELLO"
    mending = next(one for one in model_server.questions(run) if MENDING in one.asked)
    assert "You are the developer" in mending.said, "the session that did the work"
    assert "MARK-finding" in mending.asked
    first, second = (row for row in project.events("agent_ended") if row["role"] == "dev")
    assert first["session_id"] == second["session_id"] is not None
    assert project.strays() == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("adapter", [Gemini(root=False), Goose()], ids=lambda adapter: adapter.name)
def test_an_ordinary_user_gets_the_work_done_too(
    adapter: AgentCLI,
    cli: Callable[[str, str], Cli],
    model_server: ModelServer,
    repo: Path,
    tmp_path: Path,
) -> None:
    before = as_nobody()
    if not before:
        pytest.skip("this machine does not let one become another user")
    ready = cli(adapter.name, model_server.base("ok", f"nobody-{adapter.name}"))
    for path in (repo, *repo.rglob("*"), ready.home, *ready.home.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    ended = play(ready, Take(), repo, tmp_path / "call", adapter, before)
    assert ended.transcript
    reply = adapter.reply(ended, lines_of(ended.transcript.out))
    assert (ended.code, reply.trouble) == (0, ""), ended.stderr
    assert (repo / "hello.py").stat().st_uid == NOBODY
    assert reply.result is not None
    assert reply.result["markers"] == ["MARK-one"]

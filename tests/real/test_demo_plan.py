"""The plan of the demonstration with real CLIs, mixed in one run: the same repairs, the same code at the end.

The model tells each CLI to run the steps that the demonstration's script has for the bead, through the CLI's
own shell tool; the verdicts it gives itself, as text.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from beads_ralph.demo import demonstration
from tests.cli.running import ralph
from tests.git.repos import git
from tests.loop.plans import Project
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import Cli

MIXED = {"claude": "sonnet", "codex": "mock-model", "goose": "gpt-4o"}
REPAIRED = "bd-1-2b-command-line"
LIAR = "bd-2a-1-reminders"
VERDICT = '```json\n{"status": "%s", "message": "%s", "nonce": "@nonce@"}\n```'
NONCE = r".*nonce of this call, which no file can know, is `(?P<nonce>\w+)`"
PLAYER = f"{shlex.quote(sys.executable)} -P -m beads_ralph.agents.script_player"


def rules(script: Path) -> list[Rule]:
    plays = f"BEADS_RALPH_SCRIPT={shlex.quote(str(script))} {PLAYER} < /dev/null"
    mends = plays.replace("< /dev/null", "<<< 'nothing was changed; the overdue ones first'")
    return [
        Rule(
            rf"(?s)^You examine the work on bead `{REPAIRED}`{NONCE}",
            say=VERDICT % ("fail", "overdue ones first"),
            times=1,
        ),
        Rule(rf"(?s)^You examine{NONCE}", say=VERDICT % ("pass", "all there")),
        Rule(r"How the last attempt ended.*(nothing was changed|overdue ones first)", (mends,), "Mended."),
        Rule(r"You are the developer|You resolve a merge conflict", (plays,), "Done."),
    ]


def with_agents(text: str) -> str:
    """Every sprint gets a developer of its own, the CLIs in turn."""
    turns = iter(range(100))

    def agent(match: re.Match[str]) -> str:
        name, model = list(MIXED.items())[next(turns) % len(MIXED)]
        return f"{match[0]}\n**Dev Agents**:\n- developer ({name}:{model})\n"

    return re.sub(r"^### Sprint .*$\n", agent, text, flags=re.MULTILINE)


@pytest.mark.full
@pytest.mark.real_agents
@pytest.mark.timeout(600)
def test_the_plan_of_the_demonstration_with_three_real_clis(
    cli: Callable[[str, str], Cli], model_server: ModelServer, tmp_path: Path
) -> None:
    root = tmp_path / "todo-app"
    shown = ralph("demo", "--dir", root, "--plan-only", "--json", cwd=tmp_path).data
    base = model_server.play("demo", rules(root / "plans" / "todo-app.agents.yaml"))
    ready = [cli(name, base) for name in MIXED]
    settings = yaml.safe_load((root / "beads-ralph.yaml").read_text("utf-8"))
    reviewer = {"agent": "reviewer", "executable": "claude", "model": "haiku"}
    settings["plan"] |= {"qa_agents": [reviewer]}
    settings |= {"agent_env": ["SCRIPTED_KEY"], "max_parallel_sessions": 2}
    (root / "beads-ralph.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    plan = root / demonstration.PLAN
    plan.write_text(with_agents(plan.read_text("utf-8")), encoding="utf-8")
    for name in ("developer", "reviewer"):
        path = root / ".claude" / "agents" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"You are the {name} of the to-do list.\n", encoding="utf-8")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Real agents")

    paths = [*(str(one.program.parent) for one in ready), os.environ["PATH"]]
    env = {key: value for one in ready for key, value in one.env.items()} | {"PATH": os.pathsep.join(paths)}
    assert ralph("mason", plan, "--update", cwd=root).code == 0
    ran = ralph("run", plan, "--json", cwd=root, env=env)
    assert ran.code == 0, ran.out + ran.err
    assert sorted(ran.data["closed"]) == sorted(shown["bead_ids"])

    project = Project(root)
    attempts = {bead: project.metadata(bead)["attempt_count"] for bead in shown["bead_ids"]}
    assert {bead for bead, count in attempts.items() if count > 1} == {REPAIRED, LIAR}
    programs = {row["program"] for row in project.events("agent_ended") if row["role"] != "qa"}
    assert programs == set(MIXED)
    last = git(root, "rev-parse", project.bead(shown["bead_ids"][-1]).metadata.branch)
    git(root, "merge", "--quiet", "--ff-only", last)
    tested = [sys.executable, "-m", "unittest", "discover", "--start-directory", "tests", "-t", "."]
    subprocess.run(tested, cwd=root, check=True, capture_output=True, timeout=60)
    assert project.strays() == []

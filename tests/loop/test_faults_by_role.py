"""Faults of programs that resolve a merge, or that play a scrum-master of the user's own: no attempt is spent
on them either, and each has the answer that it has for a developer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loop.plans import Project, sprint, work
from tests.loop.test_faults import BEAD, ONE, agent, calls, meets, ran_through, stand_in

MERGED = "title\nleft one\nleft two\nright one\nright two\nend\n"
RESULT = {"bead_id": BEAD, "success": True, "pr_url": None, "pr_number": None}
Made = Callable[[Path, list[dict[str, Any]], list[str]], tuple[Project, str]]


def merged(repo: Path, steps: list[dict[str, Any]], fallback: list[str]) -> tuple[Project, str]:
    """Two sprints that change the same lines; git cannot merge them, `steps` are the merge agent's."""
    (repo / "app.txt").write_text("title\nbody\nend\n", encoding="utf-8")
    script = {
        "1.1a": {"dev": work("app.txt", "title\nleft one\nleft two\nend\n")},
        "1.1b": {"dev": work("app.txt", "title\nright one\nright two\nend\n")},
        "1.2": {"merge": [*steps, *work("app.txt", MERGED)]},
    }
    both = sprint("1.2", "Both", type="merge", tasks=())
    plan = (sprint("1.1a", "Left"), sprint("1.1b", "Right"), both)
    settings = {"dev_agents": [agent(repo, fallback=fallback)], "qa_agents": [agent(repo, stand_in(repo))]}
    return Project.make(repo, *plan, script=script, plan_settings=settings), "bd-1-2-both"


def led(repo: Path, steps: list[dict[str, Any]], fallback: list[str]) -> tuple[Project, str]:
    """A bead that names a scrum-master agent file; `steps` are that agent's."""
    (repo / ".claude" / "agents").mkdir(parents=True)
    (repo / ".claude" / "agents" / "my-master.md").write_text("You lead.\n", encoding="utf-8")
    script = {"scrum-master": [*steps, *work(), {"json": RESULT}], "dev": [{"crash": 1}]}
    master = agent(repo, fallback=fallback) | {"agent": "my-master"}
    settings = {"scrum_master": master, "qa_agents": [agent(repo, stand_in(repo))]}
    return Project.make(repo, ONE, script={"*": script}, plan_settings=settings), BEAD


PLAYED = pytest.mark.parametrize(
    ("role", "made"), [("merge", merged), ("scrum-master", led)], ids=["merge", "scrum-master"]
)


def able_program(repo: Path) -> str:
    """A program that resolves the conflict, and leads any bead."""
    said, text, path = repo.parent / "said.md", repo.parent / "merged.txt", repo.parent / "able.sh"
    said.write_text(f"```json\n{json.dumps(RESULT)}\n```\n", encoding="utf-8")
    text.write_text(MERGED, encoding="utf-8")
    steps = ("cat > /dev/null", f"cp {text} app.txt", "git add --all", "git commit -qm able", f"cat {said}")
    path.write_text("\n".join(("#!/bin/sh -e", *steps, "")), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def assert_no_attempt_was_spent_on_it(project: Project, bead: str) -> None:
    kept = project.metadata(bead)
    assert (kept["attempt_count"], kept["open_findings"]) == (1, [])
    assert set(project.feedback(bead)) == {None}, "nobody is told of it as of a finding"
    assert [row["ruling"] for row in project.events("verdict_given", bead=bead)] == ["pass"]


@pytest.mark.sampled(1)
@PLAYED
def test_an_outage_at_a_merge_or_of_a_scrum_master_is_waited_for(repo: Path, role: str, made: Made) -> None:
    """It lasts longer than what one call tries by itself."""
    down = [{"once": meets("server", f"connection refused, {number}")} for number in range(4)]
    project, bead = made(repo, down, [])
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("done", len(project.statuses())), ended.reason
    gone = project.events("program_unavailable")
    assert {(row["program"], row["trouble"], row["bead"]) for row in gone} == {("scripted", "server", bead)}
    (parked, *_) = project.events("bead_parked")
    assert f"nobody can play the {role} agent" in parked["reason"]
    assert len([row for row in calls(project) if row[0] == role]) == len(down) + 1
    assert_no_attempt_was_spent_on_it(project, bead)


@PLAYED
def test_a_merge_or_a_scrum_master_with_an_unknown_model_blocks_its_bead(
    repo: Path, role: str, made: Made
) -> None:
    project, bead = made(repo, [{"once": meets("configuration", "404: no such model")}], [])
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("blocked", len(project.statuses()) - 1)
    ((blocked, reason),) = ended.blocked
    assert blocked == bead
    assert "is not set up for this: 404: no such model. Correct the agent's model" in reason
    assert project.events("bead_blocked")[0]["failure_reason"] == "agent-configuration"
    assert len([row for row in calls(project) if row[0] == role]) == 1
    assert project.metadata(bead)["attempt_count"] == 0
    assert project.ralph("retry", bead, "--json").code == 0
    assert ran_through(project).closed == (bead,)
    assert_no_attempt_was_spent_on_it(project, bead)


@pytest.mark.sampled(2)
@PLAYED
@pytest.mark.parametrize("kind", ["server", "configuration"])
def test_another_program_stands_in_for_a_merge_or_a_scrum_master(
    repo: Path, role: str, made: Made, kind: str
) -> None:
    able = able_program(repo)
    project, bead = made(repo, meets(kind), [able])
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("done", len(project.statuses())), ended.reason
    (replaced,) = project.events("program_replaced", bead=bead)
    assert (replaced["role"], replaced["by"]) == (role, able)
    assert_no_attempt_was_spent_on_it(project, bead)

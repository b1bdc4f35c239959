"""A run that is killed pays nobody again for a stage that ended well: developed, reviewed, proposed."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.run_state import RunState, StageReached
from beads_ralph.session.history import subject_of
from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, Steps, fails, git, passes, soon, sprint, work
from tests.loop.test_crash_points import Stage, staged

BEAD, BRANCH = "bd-1-1-one", "feature/1-1-one"
RIGHT = f"`test -e {BEAD}.txt`"
ONE = sprint("1.1", "One", verify=RIGHT)
ENDED = "after journal agent_ended"


def reviewers(root: Path) -> dict[str, Any]:
    """Two of them, told apart by their personas."""
    (root / ".claude" / "agents").mkdir(parents=True)
    for name in ("careful", "quick"):
        (root / ".claude" / "agents" / f"{name}.md").write_text(f"You are {name}.\n", encoding="utf-8")
    env = {"BEADS_RALPH_SCRIPT": str(Project(root).script)}
    return {
        "qa_agents": [{"agent": one, "executable": "scripted", "env": env} for one in ("careful", "quick")]
    }


def asked(project: Project) -> dict[str, int]:
    """How often each agent was asked, in all runs."""
    told = project.events("agent_started", bead=BEAD)
    return dict(Counter(row["agent"].removeprefix(".claude/agents/").removesuffix(".md") for row in told))


def waits_once(mark: Path, then: Steps) -> Steps:
    """An agent that never ends the first time."""
    return [{"run": f"test -e {mark} || {{ touch {mark}; sleep 600; }}"}, *then]


def killed_at(project: Project, mark: Path) -> None:
    with project.running() as process:
        soon(mark.exists)
        process.kill()
        process.wait()


# --- killed at exact points ----------------------------------------------------------------------------


def killed_at_points(stage: Stage) -> None:
    """After each of the lines of the journal that ends a stage, and before the next change."""
    stage.set_up(ONE, script={"*": {"dev": work()}}, plan_settings=reviewers(stage.root))
    names = stage.points()
    points = {name.partition(" ")[2]: int(name.partition(" ")[0]) for name in reversed(names)}
    developed = points[ENDED]
    assert {"after journal review_given", "after journal verdict_given"} <= points.keys()
    last_review = max(at for at, name in enumerate(names, 1) if name.endswith("after journal review_given"))
    ends = [developed, last_review, points["after journal verdict_given"]]
    for point in (*ends, points["after journal pull_request_opened"]):
        assert stage.killed_at(point) == [], names[point - 1]
        told = asked(stage.project)
        assert told["claude"] == 1, names[point - 1]
        if point >= last_review:
            assert told == {"claude": 1, "careful": 1, "quick": 1}, names[point - 1]


def test_a_stage_that_had_ended_is_not_paid_again(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with staged(tmp_path / "stage", repo, "embedded", monkeypatch) as stage:
        killed_at_points(stage)


@pytest.mark.full
@pytest.mark.bd
def test_a_stage_that_had_ended_is_not_paid_again_with_bd(
    bd_repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with staged(tmp_path / "stage", bd_repo, "bd", monkeypatch) as stage:
        stage.set_up(ONE, script={"*": {"dev": work()}}, plan_settings=reviewers(stage.root))
        names = stage.points()
        point = next(at for at, name in enumerate(names, 1) if name.endswith(ENDED))
        assert stage.killed_at(point) == []
        assert asked(stage.project) == {"claude": 1, "careful": 1, "quick": 1}


# --- killed while somebody is at work ------------------------------------------------------------------


def test_killed_while_a_verifier_runs_nobody_is_asked_to_develop_again(repo: Path) -> None:
    mark = repo.parent / "mark"
    verify = f"`test ! -e {BEAD}.txt || test -e {mark} || {{ touch {mark}; sleep 600; }}`"
    project = Project.make(repo, sprint("1.1", "One", verify=verify))
    killed_at(project, mark)
    assert project.run().data["closed"] == [BEAD]
    assert [row["role"] for row in project.events("agent_started")] == ["dev", "qa"]
    assert len(project.metadata(BEAD)["dev_agent_executions"]) == 1
    assert project.metadata(BEAD)["reached"] is None


def test_only_the_reviewer_who_was_at_work_is_asked_again(repo: Path) -> None:
    """Killed twice, so that the verdict of one comes from the run before the last."""
    mark = repo.parent / "mark"
    script = {"*": {"dev": work(), "qa:careful": passes(), "qa:quick": waits_once(mark, passes())}}
    project = Project.make(repo, ONE, script=script, plan_settings=reviewers(repo), max_interruptions=9)
    with project.running() as process:
        soon(lambda: mark.exists() and project.events("review_given"))
        process.kill()
        process.wait()
    mark.unlink()
    killed_at(project, mark)
    assert project.run().data["closed"] == [BEAD]
    assert asked(project) == {"claude": 1, "careful": 1, "quick": 3}
    rows = project.metadata(BEAD)["qa_agent_executions"]
    assert sorted(row["agent_path"] for row in rows) == [
        ".claude/agents/careful.md",
        ".claude/agents/quick.md",
    ]
    checks = {row["name"] for row in project.metadata(BEAD)["last_verdict"]["evidence"]}
    assert {"careful", "quick"} <= checks


def test_a_reviewers_objection_outlives_a_kill(repo: Path) -> None:
    mark = repo.parent / "mark"
    script = {
        "*": {
            "dev": [work(), [{"expect": "unsafe"}, *work()]],
            "qa:careful": [fails("unsafe"), passes()],
            "qa:quick": [waits_once(mark, passes()), passes(), passes()],
        }
    }
    project = Project.make(repo, ONE, script=script, plan_settings=reviewers(repo))
    with project.running() as process:
        soon(lambda: mark.exists() and project.events("review_given"))
        process.kill()
        process.wait()
    ran = project.run()
    assert (ran.data["closed"], project.metadata(BEAD)["attempt_count"]) == ([BEAD], 2), ran.out
    assert asked(project) == {"claude": 2, "careful": 2, "quick": 3}


def test_a_run_that_a_person_ends_at_once_pays_nobody_again(repo: Path) -> None:
    """The second Ctrl-C, while a reviewer is at work: what the developer did and cost is kept."""
    mark = repo.parent / "mark"
    cost = {"usage": {"cost_usd": 0.5}}
    script = {"*": {"dev": [cost, *work()], "qa": waits_once(mark, passes())}}
    project = Project.make(repo, ONE, script=script)
    with project.running() as process:
        soon(mark.exists)
        process.send_signal(signal.SIGINT)
        soon(lambda: project.events("run_draining"))
        process.send_signal(signal.SIGINT)
        assert project.finished(process).data["ended"] == "interrupted"
    left = project.metadata(BEAD)
    assert (left["attempt_count"], left["spent"]["cost_usd"], left["reached"]["developers"]) == (0, 0.5, 1)
    assert project.run().data["closed"] == [BEAD]
    assert [row["role"] for row in project.events("agent_started")] == ["dev", "qa", "qa"]
    assert project.metadata(BEAD)["spent"]["cost_usd"] == 0.5


# --- what a stage rests on ------------------------------------------------------------------------------


def cut_after_development(repo: Path) -> Project:
    mark = repo.parent / "mark"
    script = {"*": {"dev": work(), "qa": waits_once(mark, passes())}}
    project = Project.make(repo, ONE, script=script)
    killed_at(project, mark)
    return project


def test_other_tasks_are_developed_again(repo: Path) -> None:
    project = cut_after_development(repo)
    text = (repo / "plan.md").read_text("utf-8").replace("Do the work", "Do other work")
    (repo / "plan.md").write_text(text, encoding="utf-8")
    assert project.ralph("release", BEAD, "--json").code == 0
    assert project.ralph("mason", "plan.md", "--update", "--json").code == 0
    assert project.run().data["closed"] == [BEAD]
    assert asked(project)["claude"] == 4, "both were asked twice"


def test_work_that_is_gone_is_done_again(repo: Path) -> None:
    project = cut_after_development(repo)
    git(project.worktree(BRANCH), "reset", "--hard", "--quiet", "main")
    assert project.run().data["closed"] == [BEAD]
    assert [row["role"] for row in project.events("agent_started")] == ["dev", "qa", "dev", "qa"]


def test_a_reviewer_with_other_instructions_is_asked_again(repo: Path) -> None:
    mark = repo.parent / "mark"
    script = {"*": {"dev": work(), "qa:careful": passes(), "qa:quick": waits_once(mark, passes())}}
    project = Project.make(repo, ONE, script=script, plan_settings=reviewers(repo))
    with project.running() as process:
        soon(lambda: mark.exists() and project.events("review_given"))
        process.kill()
        process.wait()
    (repo / ".claude" / "agents" / "careful.md").write_text("Look at every line.\n", encoding="utf-8")
    assert project.run().data["closed"] == [BEAD]
    assert asked(project) == {"claude": 1, "careful": 2, "quick": 2}


def test_a_stage_that_is_written_into_the_store_during_a_run_counts_for_nothing(repo: Path) -> None:
    """Nobody had ended when a run was killed; in the next one somebody writes that the second bead had."""
    first, other = "bd-1-1a-one", "bd-1-1b-two"
    ready = repo.parent / "ready"
    held = [{"run": f"until test -e {ready}; do sleep 0.05; done"}, *work()]
    both = sprint("1.1a", "One"), sprint("1.1b", "Two")
    project = Project.make(repo, *both, script={"*": {"dev": held}})
    with project.running("--max-parallel", "2") as process:
        soon(lambda: len(project.events("agent_started")) == 2)
        process.kill()
        process.wait()
    with project.running("--max-parallel", "1") as process:
        soon(lambda: len(project.events("agent_started", bead=first)) == 2)
        stage = {"attempt": 1, "of": subject_of(project.bead(other)), "developers": 1, "commit": ""}
        said = RunState(reached=StageReached.model_validate(stage)).to_metadata()
        project.store.update(other, Changes(metadata=said))
        ready.touch()
        process.wait()
    assert (project.statuses()[other], project.metadata(other)["attempt_count"]) == ("closed", 1)
    assert [row["role"] for row in project.events("agent_started", bead=other)] == ["dev", "dev", "qa"]

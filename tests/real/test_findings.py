"""What whole runs with real CLIs remember and forget: a finding lasts until it is settled, a fresh session is
told all of the work, and a reviewer's trouble is none of the developer's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loop.plans import Project, fails, git, names, passes, sprint
from tests.model.exchange import Question
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import Cli
from tests.real.test_faults import played_by, project_of, ran_through

pytestmark = [pytest.mark.real_agents, pytest.mark.full]
BEAD, BRANCH = "bd-1-1-brightness", "feature/1-1-brightness"
GREETING = sprint("1.1", "Brightness", tasks=["Write greeting.txt"], remark="It has to shine.")
WHOLE = ("Brightness", "It has to shine.", "Write greeting.txt")
FINDING = "FINDING-42"
DEVELOPER = "You are the developer"
EXAMINE = r"(?s)^You examine.*nonce of this call, which no file can know, is `(?P<nonce>\w+)`"
PASSES = Rule(EXAMINE, say='```json\n{"status": "pass", "message": "fine", "nonce": "@nonce@"}\n```')
Make = Callable[[str, str], Cli]


def writes(word: str, when: str = DEVELOPER, **more: Any) -> Rule:
    steps = (f"echo {word} > greeting.txt", "git add --all", f"git commit --quiet --message {word}")
    return Rule(when, steps, f"Said {word}.", **more)


def attempt(number: int) -> str:
    return rf"Attempt: `?{number}`? of"


def question_of(questions: list[Question], number: int) -> Question:
    """The last one of the developer's attempt of that number."""
    return [one for one in questions if re.search(attempt(number), one.asked)][-1]


def assert_told_everything(fresh: Question) -> None:
    assert fresh.said.count(DEVELOPER) == 1, "a session that knows nothing of the first attempt"
    wanted = (FINDING, *WHOLE, "begun before you", "greeting.txt", "Said hello.")
    assert [word for word in wanted if word not in fresh.asked] == []


def sent_back(*then: dict[str, Any]) -> dict[str, Any]:
    """A scripted reviewer who finds something once; `then` is what else happens in that review."""
    return {"*": {"qa": [[*then, *fails(FINDING)], passes()]}}


# --- what the developer is told -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["claude", "goose"])
def test_a_crash_between_makes_nobody_forget_what_the_reviewer_found(
    name: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    run = f"crash-between-{name}"
    crash = Rule(attempt(2), ("kill -9 $PPID",))
    player = cli(name, model_server.play(run, [writes("HELLO", attempt(3)), crash, writes("hello")]))
    project = project_of(repo, played_by(player), GREETING, script=sent_back())
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 3), ended.reason
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert [(row["attempt"], row["status"]) for row in rows] == [
        (1, "completed"),
        (2, "failed"),
        (3, "completed"),
    ]
    prompt = question_of(model_server.questions(run), 3).asked.rpartition(DEVELOPER)[2]
    assert [word for word in (FINDING, *WHOLE) if word not in prompt] == [], "in the prompt itself"
    assert git(repo, "show", f"{BRANCH}:greeting.txt") == "HELLO"
    assert project.metadata(BEAD)["open_findings"] == [], "the pass has settled it"


@pytest.mark.parametrize(("name", "sessions"), [("claude", ".claude/projects"), ("codex", ".codex/sessions")])
def test_a_fresh_session_in_a_later_attempt_is_told_all_of_the_work(
    name: str, sessions: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    """The program's own memory of the first attempt is gone."""
    run = f"fresh-later-{name}"
    player = cli(name, model_server.play(run, [writes("HELLO", attempt(2)), writes("hello")]))
    memory = player.home / sessions
    script = sent_back({"run": f"test -d {memory} && rm -r {memory}"})
    project = project_of(repo, played_by(player), GREETING, script=script)
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 2), ended.reason
    assert_told_everything(question_of(model_server.questions(run), 2))


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_session_that_is_too_long_is_left_for_a_fresh_one_with_an_account(
    name: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    """However often the session of the first attempt were asked, it would be too long, and so is whatever its
    program would like to have summed up of it."""
    run = f"too-long-{name}"
    overlong, summary = Rule("", earlier=DEVELOPER, trouble="toolong"), Rule("", trouble="toolong")
    rules = [overlong, writes("HELLO", attempt(2)), writes("hello"), summary]
    player = cli(name, model_server.play(run, rules))
    project = project_of(repo, played_by(player), GREETING, script=sent_back())
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 2), ended.reason
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert [row["trouble"] for row in rows] == ["", "too_long", ""]
    first, second, third = (row["session_id"] for row in rows)
    assert first == second != third
    assert_told_everything(question_of(model_server.questions(run), 2))


# --- what is the reviewer's alone ---------------------------------------------------------------------


def reviewed(repo: Path, *reviewers: Cli, **settings: Any) -> Project:
    """Developed by the scripted agent, reviewed by a real CLI, or by one that stands in for it."""
    return Project.make(repo, GREETING, plan_settings={"qa_agents": [played_by(*reviewers)]}, **settings)


def assert_nobody_was_blamed(project: Project) -> None:
    kept = project.metadata(BEAD)
    assert (kept["attempt_count"], kept["open_findings"]) == (1, [])
    assert project.feedback(BEAD) == [None], "one developer, who was told of no finding"
    assert [row["ruling"] for row in project.events("verdict_given")] == ["pass"]


@pytest.mark.parametrize(("name", "refused"), [("claude", 8), ("codex", 10)])
def test_an_outage_of_the_reviewers_program_is_waited_for(
    name: str, refused: int, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    run = f"qa-outage-{name}"
    model_server.play(run, [PASSES])
    project = reviewed(repo, cli(name, model_server.base(f"500x{refused}", run)))
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1), ended.reason
    assert {row["trouble"] for row in project.events("program_unavailable")} == {"server"}
    assert_nobody_was_blamed(project)


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_reviewers_program_that_is_set_up_wrongly_is_no_finding(
    name: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    run = f"qa-404-{name}"
    project = reviewed(repo, cli(name, model_server.play(run, [Rule(EXAMINE, trouble="404")])))
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("blocked", 0)
    ((_, reason),) = ended.blocked
    assert "is not set up for this" in reason
    kept = project.metadata(BEAD)
    assert (kept["attempt_count"], kept["open_findings"]) == (0, [])
    model_server.play(run, [PASSES])
    assert project.ralph("retry", BEAD, "--json").code == 0
    assert ran_through(project).closed == (BEAD,)
    assert names(project.events("agent_started"), "role") == ["dev", "qa", "qa"], "the work has stood"
    assert_nobody_was_blamed(project)


@pytest.mark.parametrize(
    ("first", "second", "scenario"), [("claude", "codex", "404"), ("codex", "goose", "limitr3600")]
)
def test_another_cli_stands_in_for_a_reviewer(
    first: str, second: str, scenario: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    run = f"qa-stands-in-{first}-{second}"
    cannot = cli(first, model_server.base(scenario, f"{run}-cannot"))
    able = cli(second, model_server.play(run, [PASSES]))
    project = reviewed(repo, cannot, able)
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1), ended.reason
    (replaced,) = project.events("program_replaced")
    assert (replaced["role"], replaced["by"]) == ("qa", str(able.program))
    assert_nobody_was_blamed(project)


@pytest.mark.parametrize(
    ("name", "first", "flaw"),
    [
        ("codex", Rule(EXAMINE, trouble="hang", times=1), "time-out: did not answer in time"),
        ("claude", Rule(EXAMINE, say="All is well.", times=1), "no JSON: "),
        ("goose", Rule(EXAMINE, say="All is well.", times=1), "no JSON: "),
    ],
)
def test_a_reviewer_without_a_verdict_is_asked_again_in_its_own_session(
    name: str, first: Rule, flaw: str, cli: Make, model_server: ModelServer, repo: Path
) -> None:
    run = f"qa-silent-{name}"
    reviewer = cli(name, model_server.play(run, [first, PASSES]))
    project = reviewed(repo, reviewer, qa_agent_timeout="30s" if first.trouble else "10m")
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1), ended.reason
    assert flaw in project.events("warning_given")[-1]["message"]
    asked = [row for row in project.events("agent_ended") if row["role"] == "qa"]
    assert len(asked) == 2
    assert asked[0]["session_id"] == asked[1]["session_id"] is not None
    assert flaw in model_server.questions(run)[-1].asked, "and told what was wrong with its answer"
    assert_nobody_was_blamed(project)

"""Beads of one team follow one another in one session; nothing but a bead at work holds a team."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.agents import protocol
from beads_ralph.agents.adapters.scripted import Scripted
from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.bead.agent_call import DevCall, Session
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import DevExecution, RunState
from beads_ralph.bead.usage import Usage
from beads_ralph.loop.teams import Teams
from tests.beads import make_bead
from tests.loop.plans import Project, loop_of, names, soon, sprint, work
from tests.loop.test_crash import kill_after

X_FIRST, Y, X_STUCK, X_LAST = "bd-1-1a-first", "bd-1-1b-other", "bd-1-1c-stuck", "bd-1-1d-last"
XYXX = (
    sprint("1.1a", "First", team="x", priority="0"),
    sprint("1.1b", "Other", team="y"),
    sprint("1.1c", "Stuck", team="x", priority="2"),
    sprint("1.1d", "Last", team="x", priority="3"),
)


def dev_sessions(project: Project) -> dict[str, tuple[str, str | None]]:
    """By bead, the session of its developer and the bead that it was begun for."""
    rows = project.events("agent_started")
    return {row["bead"]: (row["session_id"], row["session_of"]) for row in rows if row["role"] == "dev"}


def most_of_a_team(project: Project) -> dict[str, int]:
    """By team, how many of its beads were at work at once at most."""
    now: dict[str, set[str]] = defaultdict(set)
    most: dict[str, int] = defaultdict(int)
    for row in project.events("bead_claimed", "bead_closed", "bead_blocked", "bead_released"):
        (now[row["team"]].add if row["kind"] == "bead_claimed" else now[row["team"]].discard)(row["bead"])
        most[row["team"]] = max(most[row["team"]], len(now[row["team"]]))
    return dict(most)


def test_s0_tg1_s0_tg2_a_team_works_on_one_bead_at_a_time_in_one_session(repo: Path) -> None:
    """Whatever else runs beside it, and although one of its beads gets nowhere."""
    next_one = {"expect": "next piece of work of your team"}
    script = {
        "1.1a": {"dev": [{"say": "The tables are in schema.sql"}, *work()]},
        "1.1c": {"dev": [next_one, {"lie": True}]},
        "1.1d": {"dev": [next_one, {"expect": "The tables are in schema.sql"}, *work()]},
        "*": {"dev": work()},
    }
    project = Project.make(repo, *XYXX, script=script, plan_settings={"max_retry_attempts": 1})
    ran = project.run("--max-parallel", "4")
    assert (ran.code, sorted(ran.data["closed"])) == (1, [X_FIRST, Y, X_LAST]), ran.out
    assert project.statuses()[X_STUCK] == "blocked"
    assert most_of_a_team(project) == {"x": 1, "y": 1}
    sessions = dev_sessions(project)
    assert {bead: of for bead, (_, of) in sessions.items()} == {
        X_FIRST: None, Y: None, X_STUCK: X_FIRST, X_LAST: X_FIRST,
    }  # fmt: skip
    assert sessions[X_FIRST][0] == sessions[X_STUCK][0] == sessions[X_LAST][0] != sessions[Y][0]
    waited = {(row["bead"], row["by"]) for row in project.events("team_awaited")}
    assert {(X_STUCK, X_FIRST), (X_LAST, X_FIRST), (X_LAST, X_STUCK)} == waited
    assert f"x (went on in the session of {X_FIRST})" in project.ralph("show", X_LAST).out


def test_who_waits_for_the_team_is_told_while_it_lasts(repo: Path) -> None:
    script = {"1.1a": {"dev": [{"run": "while [ ! -e go ]; do sleep 0.05; done; rm go"}, *work()]}}
    first, second = sprint("1.1a", "First", team="x"), sprint("1.1b", "Second", team="x")
    project = Project.make(repo, first, second, script=script | {"*": {"dev": work()}})
    with project.running() as process:
        soon(lambda: project.events("team_awaited") and project.events("agent_started"))
        told = project.ralph("status", "--json").data
        assert told["awaiting_team"] == [{"bead": "bd-1-1b-second", "team": "x", "by": X_FIRST}]
        words = f"in which {X_FIRST} is worked on"
        assert words in project.ralph("status").out
        assert words in project.ralph("show", "bd-1-1b-second").out
        (project.worktree("feature/1-1a-first") / "go").touch()
        assert project.finished(process).code == 0
    assert project.ralph("status", "--json").data["awaiting_team"] == []


def test_the_next_run_goes_on_in_the_session_after_a_kill(repo: Path) -> None:
    project = Project.make(
        repo, sprint("1.1", "First", team="x"), sprint("1.2", "Second", team="x"), sprint("1.3", "Third")
    )
    kill_after(project, "bead_closed")
    assert project.run().code == 0
    (first, _), (second, of) = (dev_sessions(project)[bead] for bead in ("bd-1-1-first", "bd-1-2-second"))
    assert (first, of) == (second, "bd-1-1-first")
    rows = project.metadata("bd-1-2-second")["dev_agent_executions"]
    assert names(rows, "session_of") == ["bd-1-1-first"] * len(rows)


class BoundToItsFolder(Scripted):
    profile = replace(Scripted.profile, resumes_elsewhere=False)


@pytest.mark.parametrize("shared", [True, False])
def test_a_program_that_is_bound_to_its_folder_starts_afresh_elsewhere(repo: Path, *, shared: bool) -> None:
    """And is told what the team has done; in the same folder it goes on."""
    branch: dict[str, Any] = {"branch": "`feature/shared`"} if shared else {}
    known = "This session goes on from there" if shared else "this is a fresh session"
    script = {
        "1.1": {"dev": [{"say": "It is in schema.sql"}, *work()]},
        "1.2": {"dev": [{"expect": known}, {"expect": "It is in schema.sql"}, *work()]},
    }
    sprints = (sprint("1.1", "First", team="x", **branch), sprint("1.2", "Second", team="x", **branch))
    project = Project.make(repo, *sprints, script=script)

    def select(executable: str) -> AgentCLI:
        return BoundToItsFolder() if executable == "scripted" else protocol.select(executable)

    with loop_of(project, select=select) as loop:
        assert len(asyncio.run(loop.run()).closed) == 2
    (first, _), (second, of) = dev_sessions(project).values()
    assert ((first == second), of) == ((True, "bd-1-1-first") if shared else (False, None))
    told = [row["message"] for row in project.events("warning_given", bead="bd-1-2-second")]
    assert any("takes up no session of another folder" in text for text in told) is not shared


# --- what it costs ------------------------------------------------------------------------------------


def worked(bead_id: str, *calls: tuple[str, int, int], status: str = "closed") -> Bead:
    """A bead of team x with calls: session, hour, and tokens since the session began."""
    rows = [
        DevCall(
            attempt=1,
            role="dev",
            agent="a.md",
            program="claude",
            session_id=session,
            session_usage=Usage(counted),
            started_at=f"2026-01-01T{hour:02}:00:00Z",
            status="completed",
        )
        for session, hour, counted in calls
    ]
    state = RunState(dev_agent_executions=[DevExecution.made(**row.to_row()) for row in rows])
    found = make_bead(bead_id, status=status, metadata={"team_name": "x"})
    return found.model_copy(update={"metadata": found.metadata.changed(state)})


def test_the_session_of_the_last_finished_bead_goes_on_and_each_call_is_counted_once() -> None:
    """Also where beads that are not done, or are worked on again, had their part in it."""
    first = worked("bd-1", ("s", 1, 10))
    stuck = worked("bd-2", ("s", 2, 30), status="blocked")
    alone = worked("bd-3", ("t", 3, 5), status="blocked")
    teams = Teams()
    teams.begin([stuck, alone, first])
    (before,) = teams.before(make_bead("bd-4", metadata={"team_name": "x"}))
    assert (before.bead, before.session) == ("bd-1", Session("s", Usage(30), "bd-1"))
    later = worked("bd-4", ("s", 4, 70))
    teams.note(later, later.metadata, finished=True)
    assert [one.bead for one in teams.before(first)] == ["bd-4"]
    assert teams.own(stuck) == (Session("s", Usage(70)),)
    assert teams.own(alone) == (Session("t", Usage(5)),)
    assert teams.before(make_bead("bd-9", metadata={"team_name": "y"})) == ()

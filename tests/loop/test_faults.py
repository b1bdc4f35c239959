"""Faults of programs cost nobody an attempt: each has one answer, whoever meets it and whenever."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.loop.run_settings import Ended
from beads_ralph.process.calls import Retry
from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, fails, loop_of, names, passes, soon, sprint, work

BEAD, OTHER = "bd-1-1-one", "bd-1-1a-other"
ONE = sprint("1.1", "One")
TWO = (ONE, sprint("1.1a", "Other"))
EIGHT = [sprint(f"1.1{letter}", f"S {letter}") for letter in "abcdefgh"]
SOON = Retry(tries=2, first=0.01)


def meets(kind: str, detail: str = "so it goes") -> list[dict[str, Any]]:
    return [{"trouble": {"kind": kind, "detail": detail}}]


def once(kind: str) -> list[dict[str, Any]]:
    return [{"once": meets(kind)}]


def agent(root: Path, program: str = "scripted", **more: Any) -> dict[str, Any]:
    env = {"BEADS_RALPH_SCRIPT": str(root.parent / "script.yaml")}
    return {"agent": "claude", "executable": program, "env": env, **more}


def stand_in(root: Path, name: str = "other.sh") -> str:
    """A program that does the work of any bead, and passes any."""
    path = root.parent / name
    path.write_text(
        """\
#!/bin/sh
cat > "$0.$BEADS_RALPH_ROLE.prompt"
if [ "$BEADS_RALPH_ROLE" = qa ]; then
    printf '```json\\n{"status": "pass", "message": "fine"}\\n```\\n'
else
    echo other >> "$BEADS_RALPH_BEAD.txt"
    git add --all && git commit --quiet --message other
fi
""",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return str(path)


def ran_through(project: Project, **settings: Any) -> Ended:
    """A run with short pauses; every attempt that it spends is in what it returns."""
    with loop_of(project, server_retry=SOON, **settings) as loop:
        loop.programs.outage_seconds = 0.1
        return asyncio.run(loop.run())


def calls(project: Project, *more: str) -> list[tuple[str, ...]]:
    keys = ("role", "program", *more)
    return [tuple(Path(row[key]).name for key in keys) for row in project.events("agent_started")]


# --- the answers, by class ----------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["server", "auth", "credit", "configuration", "refused", "too_long"])
@pytest.mark.parametrize("role", ["dev", "qa"])
def test_another_program_stands_in_whatever_the_fault(repo: Path, kind: str, role: str) -> None:
    other = stand_in(repo)
    settings = {"dev_agents": [agent(repo, other)], "qa_agents": [agent(repo, other)]}
    settings[f"{role}_agents"] = [agent(repo, fallback=[other])]
    script = {"dev": work(), "qa": passes()} | {role: meets(kind)}
    project = Project.make(repo, ONE, script={"*": script}, plan_settings=settings)
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1)
    assert project.feedback(BEAD)[-1] is None, "nobody is told of it as of a finding"
    (replaced,) = project.events("program_replaced")
    assert (replaced["role"], replaced["by"]) == (role, other)
    assert "so it goes" in replaced["reason"]
    assert [row["ruling"] for row in project.events("verdict_given")] == ["pass"]


@pytest.mark.parametrize(
    ("kind", "says", "todo"),
    [
        ("auth", "scripted is not signed in: so it goes", "Sign in"),
        ("credit", "the account of scripted has no credit left: so it goes", "Add credit"),
    ],
)
@pytest.mark.parametrize("role", ["dev", "qa"])
def test_what_stops_everybody_ends_the_run_with_the_one_thing_to_do(
    repo: Path, role: str, kind: str, says: str, todo: str
) -> None:
    project = Project.make(repo, *TWO, script={"*": {"dev": work(), "qa": passes()} | {role: meets(kind)}})
    ended = ran_through(project, max_parallel=1)
    assert (ended.why, ended.attempts) == ("stopped", 0)
    assert f"{says}. {todo}" in ended.reason
    assert "beads-ralph run" in ended.reason
    assert set(project.statuses().values()) == {"open"}
    assert len([row for row in calls(project) if row[0] == role]) == 1, "the other bead is spared the same"


@pytest.mark.parametrize("role", ["dev", "qa"])
def test_a_refusal_blocks_one_bead_and_no_other(repo: Path, role: str) -> None:
    fine = {"dev": work(), "qa": passes()}
    project = Project.make(repo, *TWO, script={"1.1": fine | {role: meets("refused", "not that")}, "*": fine})
    ended = ran_through(project)
    assert (ended.why, ended.closed, ended.attempts) == ("blocked", (OTHER,), 1)
    ((bead, reason),) = ended.blocked
    assert bead == BEAD
    assert "scripted refuses this: not that" in reason
    assert f"beads-ralph retry {BEAD}" in reason
    assert project.metadata(BEAD)["attempt_count"] == 0
    assert project.events("bead_blocked")[0]["failure_reason"] == "agent-refused"
    assert len([row for row in calls(project) if row[0] == role]) == 2, "one for each bead"
    project.write_script({"*": fine})
    assert project.ralph("retry", BEAD, "--json").code == 0
    assert project.run().data["closed"] == [BEAD]


def test_a_program_that_is_set_up_wrongly_is_called_once_in_a_run(repo: Path) -> None:
    """For all beads that it would play with the same model; the same program with another one goes on."""
    wrong = agent(repo, model="no-such-model")
    plan = [*TWO, sprint("1.1b", "Third")]
    script = {"1.1b": {"dev": work()}, "*": {"dev": meets("configuration", "404: no such model")}}
    project = Project.make(repo, *plan, script=script, plan_settings={"dev_agents": [wrong]})
    with loop_of(project, server_retry=SOON, max_parallel=1) as loop:
        able = project.store.show("bd-1-1b-third").metadata.to_json()["dev_agents"]
        able[0]["model"] = "good-model"
        project.store.update("bd-1-1b-third", Changes(metadata={"dev_agents": able}))
        ended = asyncio.run(loop.run())
    assert (ended.why, ended.closed, ended.attempts) == ("blocked", ("bd-1-1b-third",), 1)
    assert {bead for bead, _ in ended.blocked} == {BEAD, OTHER}
    for _, reason in ended.blocked:
        assert "scripted with no-such-model is not set up for this: 404: no such model" in reason
        assert "Correct the agent's model" in reason
    developers = [row for row in calls(project, "model") if row[0] == "dev"]
    assert sorted(model for *_, model in developers) == ["good-model", "no-such-model"]
    blocked = project.events("bead_blocked")
    assert {row["failure_reason"] for row in blocked} == {"agent-configuration"}


def test_a_session_that_is_too_long_is_left_for_a_fresh_one_with_an_account(repo: Path) -> None:
    """The second attempt goes on in the session of the first, which has become too long."""
    again = repo.parent / "account.txt"
    begun = [*work(), {"say": "MARK-words"}]
    overlong = {"once": [{"say": "so it goes"}, *meets("too_long")]}
    script = {
        "dev": [begun, [overlong, {"prompt": str(again)}, *work()]],
        "qa": [fails("MARK-finding"), passes()],
    }
    project = Project.make(repo, ONE, script={"*": script})
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("done", 2)
    first, second, third = (row["session_id"] for row in project.metadata(BEAD)["dev_agent_executions"])
    assert first == second != third
    said = again.read_text("utf-8")
    assert "begun before you" in said
    assert "MARK-finding" in said
    assert "MARK-words" in said, "the agent's last words, not those of its program about the fault"
    assert "so it goes" not in said


def test_what_is_too_long_for_a_fresh_session_is_refused(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": meets("too_long")}})
    ended = ran_through(project)
    assert (ended.why, ended.attempts, len(calls(project))) == ("blocked", 0, 1)
    assert "too long for the model of scripted" in ended.blocked[0][1]


@pytest.mark.parametrize("role", ["dev", "qa"])
def test_one_that_gives_no_sign_of_life_is_asked_once_more_in_a_fresh_session(repo: Path, role: str) -> None:
    well = {"dev": work(), "qa": passes()}
    project = Project.make(repo, ONE, script={"*": well | {role: [*once("stalled"), *well[role]]}})
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("done", 1)
    asked = [row["session_id"] for row in project.events("agent_ended") if row["role"] == role]
    assert len(set(asked)) == 2
    assert project.events("bead_parked") == []


def test_one_that_stalls_again_is_waited_for_like_a_server(repo: Path) -> None:
    stalls = [*once("stalled"), {"once": [*once("stalled"), *meets("stalled")]}, *work()]
    project = Project.make(repo, ONE, script={"*": {"dev": stalls}})
    ended = ran_through(project)
    assert (ended.why, ended.attempts) == ("done", 1)
    assert {row["trouble"] for row in project.events("program_unavailable")} == {"stalled"}


# --- outages ------------------------------------------------------------------------------------------


def down_while(path: Path) -> str:
    said = json.dumps({"kind": "server", "detail": "connection refused"})
    return f"if [ -e {path} ]; then echo 'BEADS_RALPH_TROUBLE {said}' >&2; exit 1; fi\n"


def restored(root: Path, calls: int) -> str:
    """Shell commands of a program whose server is down, and is up again after so many calls."""
    down, count = root.parent / "down", root.parent / "calls"
    return f"[ -e {down} ] && echo >> {count} && [ $(wc -l < {count}) -gt {calls} ] && rm -f {down}\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("when", ["start", "middle", "end"])
def test_eight_beads_survive_an_outage_whenever_it_comes(repo: Path, when: str) -> None:
    """All calls of some seconds fail, those of developers and reviewers; nobody loses an attempt by it."""
    program = Path(stand_in(repo))
    down = repo.parent / "down"
    begins = {"start": 0, "middle": 7, "end": 15}[when]
    seen = repo.parent / "seen"
    outage = f"""\
echo >> {seen}
[ $(wc -l < {seen}) -eq {begins + 1} ] && touch {down}
{restored(repo, 12)}{down_while(down)}"""
    head, rest = program.read_text("utf-8").split("\n", 1)
    program.write_text(f"{head}\n{outage}{rest}", encoding="utf-8")
    player = {"agent": "claude", "executable": str(program)}
    project = Project.make(repo, *EIGHT, plan_settings={"dev_agents": [player], "qa_agents": [player]})
    ended = ran_through(project, max_parallel=4)
    assert (ended.why, len(ended.closed), ended.attempts) == ("done", 8, 8)
    gone = project.events("program_unavailable")
    assert gone, "there was an outage"
    assert {row["trouble"] for row in gone} == {"server"}
    assert "connection refused" in gone[0]["reason"]
    assert "address" in gone[0]["todo"]
    for name in project.statuses():
        rows = project.metadata(name)
        assert rows["attempt_count"] == 1
        assert {row["feedback_from_qa"] for row in rows["dev_agent_executions"]} == {None}


def test_while_a_program_is_down_no_bead_calls_it_and_others_go_on(repo: Path) -> None:
    able = stand_in(repo)
    plan = (sprint("1.1", "One"), sprint("1.1a", "Other"), sprint("1.1b", "Third"))
    project = Project.make(
        repo, *plan, script={"*": {"dev": meets("server")}}, plan_settings={"qa_agents": [agent(repo, able)]}
    )
    with project.running("--max-parallel", "1") as process:
        soon(lambda: project.events("bead_parked"))
        shown = project.ralph("status", "--json").data
        said = project.ralph("status").out
        told = project.ralph("events").out
        process.send_signal(signal.SIGINT)
        ran = project.finished(process)
    assert (ran.code, ran.data["attempts"]) == (130, 0)
    (row,) = shown["unavailable"]
    assert f"waited for until {row['gives_up_at']}" in " ".join(said.split())
    told = " ".join(told.split())
    assert "the server of scripted cannot be reached: so it goes; not asked before" in told
    assert "If its address, proxy or network is set up wrongly, stop the run" in told
    assert "nobody can play the dev agent now: the server of scripted" in told
    assert (row["program"], row["trouble"]) == ("scripted", "server")
    assert row["gives_up_at"] > row["until"]
    assert names(project.events("bead_claimed")) == [BEAD], "the others are not sent into the same"


# --- the first Ctrl-C ---------------------------------------------------------------------------------


def waits(root: Path) -> list[dict[str, Any]]:
    """Be at work until somebody says go."""
    up, go = root.parent / "up", root.parent / "go"
    return [{"run": f"touch {up}; while [ ! -e {go} ]; do sleep 0.05; done"}]


def interrupted(project: Project, *words: str) -> Any:
    """The first Ctrl-C while an agent is at work, which then ends by itself."""
    place = project.root.parent
    with project.running(*words) as process:
        soon((place / "up").exists)
        process.send_signal(signal.SIGINT)
        soon(lambda: project.events("run_draining"))
        (place / "go").touch()
        return project.finished(process)


def test_after_the_first_interrupt_no_further_attempt_begins(repo: Path) -> None:
    script = {"dev": [*waits(repo), *work()], "qa": [fails("MARK-finding"), passes()]}
    project = Project.make(repo, ONE, script={"*": script})
    ran = interrupted(project)
    assert (ran.code, ran.data["ended"], ran.data["attempts"]) == (130, "interrupted", 1)
    assert [row[0] for row in calls(project)] == ["dev", "qa"], "the attempt has its verdict"
    assert project.statuses() == {BEAD: "open"}
    assert project.metadata(BEAD)["attempt_count"] == 1
    ran = project.run()
    assert (ran.data["closed"], ran.data["attempts"]) == ([BEAD], 1)
    assert "MARK-finding" in project.feedback(BEAD)[1], "the next run goes on from there"


def test_after_the_first_interrupt_nobody_stands_in(repo: Path) -> None:
    settings = {"dev_agents": [agent(repo, fallback=[stand_in(repo)])]}
    script = {"*": {"dev": [*waits(repo), *once("refused"), *work()]}}
    project = Project.make(repo, ONE, script=script, plan_settings=settings)
    ran = interrupted(project)
    assert (ran.code, ran.data["attempts"], ran.data["blocked"]) == (130, 0, [])
    assert len(calls(project)) == 1
    assert project.statuses() == {BEAD: "open"}
    assert project.run().data["closed"] == [BEAD]
    assert project.metadata(BEAD)["attempt_count"] == 1

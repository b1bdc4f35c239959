"""Sessions that go on, limits that lift, programs that stand in: no bead spins, no attempt is lost."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.process.calls import Retry
from beads_ralph.store.protocol import Changes
from tests.loop.plans import Project, fails, git, loop_of, names, passes, soon, sprint, work

BEAD = "bd-1-1-one"
BRANCH = "feature/1-1-one"
ONE = sprint("1.1", "One")

REVIEWS = """printf '```json\\n{"status": "pass", "message": "fine"}\\n```\\n'"""
WORKS = """\
echo "$BEADS_RALPH_ATTEMPT by $NAME" >> "$BEADS_RALPH_BEAD.txt"
git add --all
git commit --quiet --message "work of $NAME"
echo "I am $NAME, and I have begun with it." """


@dataclass(frozen=True)
class Rig:
    """Programs of one's own, each a shell script that notes how it was called."""

    root: Path

    def program(self, name: str, dev: str = WORKS, qa: str = REVIEWS) -> str:
        """Shell commands for its roles; `$N` is how often it was called in that role before, plus one."""
        path = self.root / name
        body = f"""\
#!/bin/sh
NAME={name}
LOG={self.root}/{name}.$BEADS_RALPH_ROLE
cat > "$LOG.prompt"
echo "$BEADS_RALPH_SESSION" >> "$LOG.sessions"
echo "$BEADS_RALPH_MODEL $*" >> "$LOG.words"
N=$(wc -l < "$LOG.sessions")
echo "BEADS_RALPH_SESSION $BEADS_RALPH_SESSION" >&2
if [ "$BEADS_RALPH_ROLE" = qa ]; then
{qa}
else
{dev}
fi
"""
        path.write_text(body, encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def _log(self, name: str, what: str, role: str) -> str:
        path = self.root / f"{name}.{role}.{what}"
        return path.read_text("utf-8") if path.exists() else ""

    def sessions(self, name: str, role: str = "dev") -> list[str]:
        return self._log(name, "sessions", role).split()

    def words(self, name: str, role: str = "dev") -> list[str]:
        return [line.strip() for line in self._log(name, "words", role).splitlines()]

    def prompt(self, name: str, role: str = "dev") -> str:
        return self._log(name, "prompt", role)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Rig(folder)


@pytest.fixture(params=["embedded", "bd"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(request: pytest.FixtureRequest, store: str) -> Path:
    return Path(request.getfixturevalue("bd_repo" if store == "bd" else "repo"))


def limit(seconds: float | None = None, when: str = "true") -> str:
    """A shell command that gives up at a limit, where `when` holds."""
    reset = f"$(date -u -d '+{seconds} seconds' +%Y-%m-%dT%H:%M:%S.%NZ | cut -c1-23)Z" if seconds else ""
    said = f'\\"{reset}\\"' if seconds else "null"
    return f'if {when}; then echo "BEADS_RALPH_LIMIT {{\\"reset_at\\": {said}}}" >&2; exit 1; fi\n'


def trouble(kind: str, when: str = "true", detail: str = "so it goes") -> str:
    said = json.dumps({"kind": kind, "detail": detail}).replace('"', '\\"')
    return f'if {when}; then echo "BEADS_RALPH_TROUBLE {said}" >&2; exit 1; fi\n'


def usage(tokens: int) -> str:
    return f"echo 'BEADS_RALPH_USAGE {{\"input_tokens\": {tokens}}}' >&2\n"


def played(
    root: Path, dev: str, qa: str, *sprints: str, fallback: Sequence[str] = (), **settings: Any
) -> Project:
    """A project whose dev agent is played by one program, and its QA agent by another."""
    agent = {"agent": "claude", "executable": dev, "fallback": list(fallback)}
    plan = {"dev_agents": [agent], "qa_agents": [{"agent": "claude", "executable": qa, "fallback": []}]}
    plan |= settings.pop("plan_settings", {})
    return Project.make(root, *(sprints or (ONE,)), plan_settings=plan, **settings)


def programs(project: Project, role: str = "dev") -> list[str]:
    """The names of the programs that were called, in order."""
    rows = project.events("agent_started")
    return [Path(row["program"]).name for row in rows if row["role"] == role]


# --- sessions -----------------------------------------------------------------------------------------


def two_devs(root: Path, **script: Any) -> Project:
    """Two dev agents on one bead, told apart by their personas."""
    folder = root / ".claude" / "agents"
    folder.mkdir(parents=True)
    for name in ("first", "second", "qa"):
        (folder / f"{name}.md").write_text(f"You are {name}.\n", encoding="utf-8")
    env = {"BEADS_RALPH_SCRIPT": str(root.parent / "script.yaml")}
    agents = [{"agent": name, "executable": "scripted", "env": env} for name in ("first", "second")]
    reviewer = {"agent": "qa", "executable": "scripted", "env": env}
    settings = {"dev_agents": agents, "qa_agents": [reviewer]}
    return Project.make(root, ONE, script={"*": script}, plan_settings=settings)


def sessions_of(project: Project) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in project.events("agent_ended"):
        if row["role"] == "dev":
            found.setdefault(Path(row["agent"]).stem, []).append(row["session_id"])
    return found


def test_every_dev_agent_goes_on_with_its_own_session(repo: Path) -> None:
    project = two_devs(repo, dev=work(), qa=[fails(), passes()])
    assert project.run().code == 0
    first, second = sessions_of(project).values()
    assert len(set(first)) == len(set(second)) == 1
    assert first[0] != second[0]


def test_each_goes_on_after_the_loop_was_killed(repo: Path) -> None:
    """The second agent hangs in its second attempt, where the loop is killed."""
    hang = {"once": [{"write": {"half.txt": "half\n"}}, {"hang": True}]}
    script = {
        "dev:first": work(),
        "dev:second": [work(), [hang, *work()]],
        "qa": [fails("not enough"), passes()],
    }
    project = two_devs(repo, **script)
    with project.running() as process:
        soon((project.worktree(BRANCH) / "half.txt").exists)
        process.kill()
        process.wait()
        ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [BEAD])
    first, second = sessions_of(project).values()
    assert len(first) == 2, "its call in the killed run had ended, and is not paid for again"
    assert len(set(first)) == len(set(second)) == 1
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert [row["seat"] for row in rows] == [1, 2, 1, 2, 2]
    assert [row["attempt"] for row in rows] == [1, 1, 2, 2, 2]
    assert [row["trouble"] for row in rows] == ["", "", "", "interrupted", ""]
    assert project.metadata(BEAD)["attempt_count"] == 2


def test_a_first_call_that_was_killed_goes_on_in_its_session(root: Path, store: str) -> None:
    hang = {"once": [{"write": {"half.txt": "half\n"}}, {"hang": True}]}
    project = Project.make(root, ONE, script={"*": {"dev": [hang, *work()]}}, store=store)
    with project.running() as process:
        soon((project.worktree(BRANCH) / "half.txt").exists)
        process.kill()
        process.wait()
        assert project.run().code == 0
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert [(row["attempt"], row["trouble"]) for row in rows] == [(1, "interrupted"), (1, "")]
    assert len({row["session_id"] for row in rows}) == 1
    assert project.metadata(BEAD)["attempt_count"] == 1


def test_each_goes_on_after_it_was_parked(repo: Path) -> None:
    limited = {"once": [{"limit": {"reset_in": 1}}]}
    script = {
        "dev:first": work(),
        "dev:second": [work(), [limited, *work()]],
        "qa": [fails("not enough"), passes()],
    }
    project = two_devs(repo, **script)
    assert project.run().code == 0
    assert len(project.events("bead_parked")) == 1
    first, second = sessions_of(project).values()
    assert len(set(first)) == len(set(second)) == 1
    assert project.metadata(BEAD)["attempt_count"] == 2


def test_a_session_that_is_forgotten_is_replaced_once_with_an_account(repo: Path, rig: Rig) -> None:
    forgets = trouble("forgotten", when='[ "$N" = 2 ]') + WORKS
    dev = rig.program("dev", dev=forgets)
    qa = rig.program("qa", qa=f'if [ "$N" = 1 ]; then {json_fail("too short")}; exit; fi\n{REVIEWS}')
    project = played(repo, dev, qa)
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 2), "what was forgotten costs no attempt"
    first, second, third = rig.sessions("dev")
    assert first == second != third
    account = rig.prompt("dev")
    for known in (
        "work of dev",
        f"{BEAD}.txt",
        "I am dev, and I have begun",
        "too short",
        "## Tasks",
    ):
        assert known in account
    assert [row["trouble"] for row in project.metadata(BEAD)["dev_agent_executions"]] == ["", "forgotten", ""]


def json_fail(message: str) -> str:
    said = json.dumps({"status": "fail", "message": message})
    return f"printf '```json\\n{said}\\n```\\n'"


def test_a_program_that_always_forgets_does_not_spin(repo: Path, rig: Rig) -> None:
    dev = rig.program("dev", dev=trouble("forgotten", when='[ "$N" -gt 1 ]') + WORKS)
    qa = rig.program("qa", qa=json_fail("never"))
    project = played(repo, dev, qa)
    ran = project.run()
    assert project.statuses() == {BEAD: "blocked"}
    assert ran.data["attempts"] == 1, "nothing but the program is at fault"
    assert len(rig.sessions("dev")) == 1 + 2, "a fresh session has nothing to be forgotten"
    assert "forgotten" in ran.data["blocked"][0]["reason"]


def test_a_session_that_goes_on_is_told_only_what_is_new(repo: Path, rig: Rig) -> None:
    dev = rig.program("dev")
    qa = rig.program("qa", qa=f'if [ "$N" = 1 ]; then {json_fail("too short")}; exit; fi\n{REVIEWS}')
    project = played(repo, dev, qa)
    assert project.run().code == 0
    assert len(set(rig.sessions("dev"))) == 1
    assert "begun before you" not in rig.prompt("dev")


def test_rows_say_who_played_what_it_cost_and_what_was_denied(repo: Path) -> None:
    spends = [{"usage": {"input_tokens": 5, "cost_usd": 0.25}}, {"denied": ["Bash"]}, *work()]
    project = Project.make(repo, ONE, script={"*": {"dev": spends}})
    assert project.run().code == 0
    (row,) = project.metadata(BEAD)["dev_agent_executions"]
    assert (row["program"], row["role"], row["seat"], row["denied"]) == ("scripted", "dev", 1, ["Bash"])
    assert (row["usage"]["input_tokens"], row["cost_usd"]) == (5, 0.25)
    (judged,) = project.metadata(BEAD)["qa_agent_executions"]
    assert (judged["program"], judged["role"]) == ("scripted", "qa")


def test_what_a_killed_run_had_spent_is_not_forgotten(repo: Path) -> None:
    spends = [{"usage": {"input_tokens": 7}}, *work()]
    hanging = repo.parent / "hanging"
    hang = {"once": [{"run": f"touch {hanging}"}, {"hang": True}]}
    project = Project.make(repo, ONE, script={"*": {"dev": spends, "qa": [hang, *passes()]}})
    with project.running() as process:
        soon(hanging.exists)
        process.kill()
        process.wait()
        assert project.run().code == 0
    assert project.metadata(BEAD)["spent"]["input_tokens"] == 7
    (row,) = project.metadata(BEAD)["dev_agent_executions"]
    assert (row["attempt"], row["usage"]["input_tokens"]) == (1, 7)


# --- limits -------------------------------------------------------------------------------------------


def test_a_stand_in_takes_over_and_the_first_returns_when_it_can(root: Path, store: str, rig: Rig) -> None:
    first = rig.program("first", dev=limit(3, when='[ "$N" = 1 ]') + WORKS)
    second = rig.program("second")
    qa = rig.program("qa")
    project = played(root, first, qa, ONE, sprint("1.2", "Two"), fallback=[f"{second}:best"], store=store)
    project.write_script({"*": {"dev": []}})
    with project.running("--max-parallel", "1") as process:
        soon(lambda: project.events("program_unavailable"))
        ran = project.finished(process)
    assert (ran.code, ran.data["attempts"]) == (0, 2)
    assert programs(project)[:2] == ["first", "second"]
    assert project.events("bead_parked") == [], "nothing waits while somebody can play"
    (gone,) = project.events("program_unavailable")
    assert (gone["trouble"], Path(gone["program"]).name) == ("limit", "first")
    replaced = project.events("program_replaced")[0]
    assert [Path(replaced[key]).name for key in ("program", "by")] == ["first", "second"]
    assert rig.words("second")[0] == "best", "the model is its own"
    assert "begun before you" not in rig.prompt("second"), "the first had done nothing and said nothing"
    rows = project.metadata(BEAD)["dev_agent_executions"]
    assert [(Path(row["program"]).name, row["trouble"], row["attempt"]) for row in rows] == [
        ("first", "limit", 1),
        ("second", "", 1),
    ]


def test_the_first_program_is_asked_again_from_its_reset_time_on(repo: Path, rig: Rig) -> None:
    """Between the first bead's dev and the second bead's lies more than the reset time."""
    first = rig.program("first", dev=limit(1, when='[ "$N" = 1 ]') + WORKS)
    second = rig.program("second", dev=f"{WORKS}\nsleep 2.1")
    project = played(repo, first, rig.program("qa"), ONE, sprint("1.2", "Two"), fallback=[second])
    assert project.run().code == 0
    assert programs(project) == ["first", "second", "first"]
    (back,) = project.events("program_recovered")
    (gone,) = project.events("program_unavailable")
    assert back["program"] == first
    assert datetime.fromisoformat(back["at"]) >= datetime.fromisoformat(gone["until"])


def test_the_stand_in_is_told_what_was_done_and_goes_on_with_its_own_session(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=f"{WORKS}\n{limit(3600)}")
    second = rig.program("second")
    qa = rig.program("qa", qa=f'if [ "$N" = 1 ]; then {json_fail("too short")}; exit; fi\n{REVIEWS}')
    project = played(repo, first, qa, fallback=[second])
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 2)
    assert programs(project) == ["first", "second", "second"]
    assert len(set(rig.sessions("second"))) == 1
    assert set(rig.sessions("first")).isdisjoint(rig.sessions("second"))
    assert git(repo, "log", "--format=%s", f"main..{BRANCH}").splitlines() == [
        "work of second",
        "work of second",
        "work of first",
    ], "all in one worktree"


def test_what_the_stand_in_is_told(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=f"{WORKS}\n{limit(3600)}")
    project = played(repo, first, rig.program("qa"), fallback=[rig.program("second")])
    assert project.run().code == 0
    told = rig.prompt("second")
    for known in ("begun before you", "work of first", f"{BEAD}.txt", "I am first, and I have begun"):
        assert known in told


def test_options_and_models_of_one_program_are_not_given_to_another(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=limit(3600))
    second, third = rig.program("second", dev=limit(3600)), rig.program("third")
    agent = {
        "agent": "claude",
        "executable": first,
        "model": "big-one",
        "options": ["--turbo"],
        "fallback": [second, f"{third}:small-one"],
    }
    project = played(repo, first, rig.program("qa"), plan_settings={"dev_agents": [agent]})
    assert project.run().code == 0
    assert rig.words("first") == ["big-one --turbo"]
    assert rig.words("second") == ["sonnet"], "a word that other programs take for their default"
    assert rig.words("third") == ["small-one"]


def test_stand_ins_come_from_the_configuration_where_the_agent_names_none(repo: Path, rig: Rig) -> None:
    first, second = rig.program("first", dev=limit(3600)), rig.program("second")
    agent = {"agent": "claude", "executable": first}
    project = played(
        repo,
        first,
        rig.program("qa"),
        plan_settings={"dev_agents": [agent]},
        agent_defaults={"fallback": [second]},
    )
    assert project.run().code == 0
    assert programs(project) == ["first", "second"]


def test_a_reviewer_has_stand_ins_too(repo: Path, rig: Rig) -> None:
    first, second = rig.program("first", qa=limit(3600)), rig.program("second")
    reviewer = {"agent": "claude", "executable": first, "fallback": [second]}
    project = played(repo, rig.program("dev"), "", plan_settings={"qa_agents": [reviewer]})
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1)
    assert programs(project, "qa") == ["first", "second"]
    assert programs(project) == ["dev"]


def test_a_bead_is_parked_only_when_all_its_programs_are_limited(root: Path, store: str, rig: Rig) -> None:
    first = rig.program("first", dev=limit(3600))
    second = rig.program("second", dev=limit(2, when='[ "$N" = 1 ]') + WORKS)
    project = played(root, first, rig.program("qa"), fallback=[second], store=store)
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1)
    (parked,) = project.events("bead_parked")
    ends = {Path(row["program"]).name: row["until"] for row in project.events("program_unavailable")}
    assert parked["until"] == ends["second"] < ends["first"], "until the earliest reset"
    assert programs(project) == ["first", "second", "second"], "the first is left in peace"
    assert project.metadata(BEAD)["parked"] is None


def test_who_has_a_stand_in_goes_on_and_who_has_none_waits(repo: Path, rig: Rig) -> None:
    """And the run does not end before the one that waits is done."""
    first = rig.program("first", dev=limit(4, when='[ "$N" = 1 ]') + WORKS)
    second = rig.program("second")
    project = played(
        repo, first, rig.program("qa"), sprint("1.1a", "One"), sprint("1.1b", "Other"), fallback=[]
    )
    with loop_of(project, max_parallel=1) as loop:
        able = project.store.show("bd-1-1a-one").metadata.to_json()["dev_agents"]
        able[0]["fallback"] = [second]
        project.store.update("bd-1-1a-one", Changes(metadata={"dev_agents": able}))
        ended = asyncio.run(loop.run())
    assert ended.why == "done"
    assert ended.closed == ("bd-1-1a-one", "bd-1-1b-other")
    assert programs(project) == ["first", "second", "first"]
    assert project.events("bead_parked") == []


def test_a_stand_in_that_was_named_since_lets_a_parked_bead_go_on(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=limit(3600))
    agent = {"agent": "claude", "executable": first}
    project = played(repo, first, rig.program("qa"), plan_settings={"dev_agents": [agent]})
    ran = project.run("--once")
    assert (ran.code, ran.data["ended"]) == (1, "stopped")
    settings = (repo / "beads-ralph.yaml").read_text("utf-8")
    second = rig.program("second")
    (repo / "beads-ralph.yaml").write_text(f"{settings}\nagent_defaults: {{fallback: [{second}]}}\n", "utf-8")
    assert project.run().code == 0
    assert programs(project) == ["first", "second"]


def test_killed_on_the_stand_in_it_goes_on_there(root: Path, store: str, rig: Rig) -> None:
    first = rig.program("first", dev=limit(3600))
    hangs = f'{WORKS}\nif [ "$N" = 2 ]; then touch {rig.root}/hanging; sleep 600; fi'
    second = rig.program("second", dev=hangs)
    qa = rig.program("qa", qa=f'if [ "$N" = 1 ]; then {json_fail("too short")}; exit; fi\n{REVIEWS}')
    project = played(root, first, qa, fallback=[second], store=store)
    with project.running() as process:
        soon((rig.root / "hanging").exists)
        process.kill()
        process.wait()
        ran = project.run()
    assert (ran.code, ran.data["closed"]) == (0, [BEAD])
    assert project.metadata(BEAD)["attempt_count"] == 2
    assert programs(project)[-2:] == ["first", "second"], "a new run asks the first again, once"
    assert len(set(rig.sessions("second"))) == 1
    assert len(names(project.events("bead_closed"))) == 1
    project.assert_tidy()


# --- how many at once ---------------------------------------------------------------------------------


def together(rig: Rig, count: int) -> str:
    """Shell commands that wait until so many beads have come here."""
    there = f"$(ls {rig.root}/bd-* | wc -l)"
    return f"touch {rig.root}/$BEADS_RALPH_BEAD; while [ {there} -lt {count} ]; do sleep 0.02; done\n"


SPRINTS = [sprint(f"1.1{letter}", f"S {letter}") for letter in "abcdefgh"]


def test_a_limit_lowers_parallelism_and_it_recovers(repo: Path, rig: Rig) -> None:
    """Four at once meet one limit together: that is one limit, and halves the places once."""
    first = rig.program("first", dev=together(rig, 4) + limit(1, when='[ "$N" -le 4 ]') + WORKS)
    project = played(repo, first, rig.program("qa"), *SPRINTS)
    ran = project.run("--max-parallel", "4")
    assert (ran.code, len(ran.data["closed"]), ran.data["attempts"]) == (0, 8, 8)
    assert [row["parallel"] for row in project.events("parallelism_changed")] == [2, 3, 4]
    assert most_at_once(project) == 4


def test_status_shows_the_limit_and_what_it_lowers(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=together(rig, 4) + limit(3600))
    project = played(repo, first, rig.program("qa"), *SPRINTS)
    with project.running("--max-parallel", "4") as process:
        soon(lambda: len(project.events("bead_parked")) == 4)
        shown = project.ralph("status", "--json").data
        text = project.ralph("status").out
        process.send_signal(signal.SIGINT)
        ran = project.finished(process)
    assert shown["parallel"] == {"now": 2, "most": 4}
    (row,) = shown["unavailable"]
    assert (row["program"], row["trouble"]) == (first, "limit")
    assert "2 of 4 beads at once" in text
    assert f"not asked before {row['until']}" in text
    assert (ran.code, ran.data["attempts"]) == (130, 0)
    assert len(rig.sessions("first")) == 4, "the others are not sent into the same limit"


def most_at_once(project: Project) -> int:
    at_work: set[str] = set()
    most = 0
    for row in project.events("bead_claimed", "bead_closed", "bead_parked"):
        (at_work.add if row["kind"] == "bead_claimed" else at_work.discard)(row["bead"])
        most = max(most, len(at_work))
    return most


# --- servers, sign-ins, programs that are not there ---------------------------------------------------


def test_a_servers_trouble_is_waited_out_and_every_try_is_paid_for(repo: Path, rig: Rig) -> None:
    dev = rig.program("dev", dev=usage(10) + trouble("server", when='[ "$N" -lt 3 ]') + WORKS)
    project = played(repo, dev, rig.program("qa"))
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1)
    assert len(rig.sessions("dev")) == 3
    assert len(set(rig.sessions("dev"))) == 1, "the same session is tried again"
    assert project.metadata(BEAD)["spent"]["input_tokens"] == 30
    (row,) = project.metadata(BEAD)["dev_agent_executions"]
    assert row["usage"]["input_tokens"] == 30


def test_a_server_that_never_works_ends_the_run_when_patience_is_over(repo: Path, rig: Rig) -> None:
    """A wrong address looks just the same, so the first word of it says what to do then."""
    dev = rig.program("dev", dev=trouble("server", detail="502 of the proxy"))
    project = played(repo, dev, rig.program("qa"), outage_patience="1s")
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["attempts"]) == (1, "stopped", 0)
    for told in ("502 of the proxy", "outage_patience is over", "address", "beads-ralph run"):
        assert told in ran.data["reason"]
    assert project.statuses() == {BEAD: "open"}
    first, *others = project.events("program_unavailable")
    assert first["gives_up_at"] > first["at"]
    assert "502 of the proxy" in first["reason"]
    assert "address" in first["todo"]
    assert not any("todo" in row for row in others), "once is enough"
    rig.program("dev")
    assert project.run().data["closed"] == [BEAD]
    assert project.metadata(BEAD)["attempt_count"] == 1


def test_a_server_that_worked_before_is_waited_for(repo: Path, rig: Rig) -> None:
    down = trouble("server", when='[ "$N" -ge 2 ] && [ "$N" -le 4 ]')
    project = played(repo, rig.program("dev", dev=down + WORKS), rig.program("qa"), ONE, sprint("1.2", "Two"))
    with loop_of(project) as loop:
        loop.programs.outage_seconds = 0.2
        ended = asyncio.run(loop.run())
    assert (ended.why, ended.attempts) == ("done", 2)
    assert names(project.events("bead_parked")) == ["bd-1-2-two"]


def test_a_reviewers_server_that_is_down_costs_the_developer_nothing(repo: Path, rig: Rig) -> None:
    """Also where it has not worked in this run before: the developer has done its work."""
    qa = rig.program("qa", qa=trouble("server", when='[ "$N" -le 4 ]') + REVIEWS)
    project = played(repo, rig.program("dev"), qa)
    with loop_of(project, server_retry=Retry(tries=3, first=0.01)) as loop:
        loop.programs.outage_seconds = 0.2
        ended = asyncio.run(loop.run())
    assert (ended.why, ended.closed, ended.attempts) == ("done", (BEAD,), 1)
    assert len(rig.sessions("dev")) == 1, "the developer is not asked again"
    assert len(rig.sessions("qa", "qa")) == 5
    assert project.feedback(BEAD) == [None]
    (parked,) = project.events("bead_parked")
    assert "the server of " in parked["reason"]
    assert [row["ruling"] for row in project.events("verdict_given")] == ["pass"]


def test_a_reviewers_server_that_stays_down_ends_the_run_and_blames_nobody(repo: Path, rig: Rig) -> None:
    qa = rig.program("qa", qa=trouble("server", detail="502 of the proxy"))
    project = played(repo, rig.program("dev"), qa)
    with loop_of(project, server_retry=Retry(tries=3, first=0.01)) as loop:
        loop.programs.down_since[qa] = datetime.now(UTC) - timedelta(hours=5)
        ended = asyncio.run(loop.run())
    assert (ended.why, ended.attempts) == ("stopped", 0)
    assert "502 of the proxy" in ended.reason
    assert project.statuses() == {BEAD: "open"}
    rig.program("qa")
    ran = project.run()
    assert (ran.data["closed"], ran.data["attempts"]) == ([BEAD], 1)
    assert project.feedback(BEAD)[-1] is None


def test_a_stand_in_takes_over_from_a_server_that_is_down(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=trouble("server"))
    project = played(repo, first, rig.program("qa"), fallback=[rig.program("second")])
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1)
    assert programs(project) == ["first", "first", "first", "second"]
    assert project.events("parallelism_changed") == [], "that is for limits"


def test_a_limit_without_a_time_is_tried_again_later_each_time(repo: Path, rig: Rig) -> None:
    dev = rig.program("dev", dev=limit(when='[ "$N" -le 3 ]') + WORKS)
    project = played(repo, dev, rig.program("qa"))
    with loop_of(project) as loop:
        loop.programs.limit_seconds = 0.2
        ended = asyncio.run(loop.run())
    assert (ended.why, ended.attempts) == ("done", 1)
    assert len(project.events("bead_parked")) == 3
    assert len(rig.sessions("dev")) == 4
    assert [row["trouble"] for row in project.metadata(BEAD)["dev_agent_executions"]] == ["limit"] * 3 + [""]


def test_an_expired_sign_in_stops_the_run_at_once_and_names_the_fix(repo: Path, rig: Rig) -> None:
    dev = rig.program("dev", dev=trouble("auth", detail="run: agent login"))
    project = played(repo, dev, rig.program("qa"), ONE, sprint("1.1a", "Other"))
    ran = project.run("--max-parallel", "1")
    assert (ran.code, ran.data["ended"], ran.data["attempts"]) == (1, "stopped", 0)
    assert "is not signed in: run: agent login" in ran.data["reason"]
    assert len(rig.sessions("dev")) == 1
    assert set(project.statuses().values()) == {"open"}


def test_an_expired_sign_in_does_not_cost_the_night_where_somebody_stands_in(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=trouble("auth", detail="run: agent login"))
    second = rig.program("second")
    project = played(repo, first, rig.program("qa"), ONE, sprint("1.2", "Two"), fallback=[second])
    assert project.run().code == 0
    assert programs(project) == ["first", "second", "second"]
    (warned,) = project.events("program_unavailable")
    assert "run: agent login" in warned["reason"]


def test_when_nobody_is_signed_in_the_run_ends_and_names_them_all(repo: Path, rig: Rig) -> None:
    first = rig.program("first", dev=trouble("auth", detail="run: first login"))
    second = rig.program("second", dev=trouble("auth", detail="run: second login"))
    project = played(repo, first, rig.program("qa"), fallback=[second, "no-such-agent"])
    ran = project.run()
    assert (ran.code, ran.data["ended"], ran.data["attempts"]) == (1, "stopped", 0)
    for fix in ("run: first login", "run: second login", "no-such-agent is not installed"):
        assert fix in ran.data["reason"]


def test_a_program_that_is_not_installed_is_passed_over_with_a_warning(repo: Path, rig: Rig) -> None:
    project = played(repo, "no-such-agent", rig.program("qa"), fallback=[rig.program("second")])
    ran = project.run()
    assert (ran.code, ran.data["attempts"]) == (0, 1)
    assert programs(project) == ["second"]
    (warned,) = project.events("program_unavailable")
    assert (warned["trouble"], warned["reason"]) == ("missing", "no-such-agent is not installed")
    assert project.events("parallelism_changed") == []


def test_prose_moves_nobody_to_a_stand_in(repo: Path, rig: Rig) -> None:
    words = """\
echo 'BEADS_RALPH_LIMIT {"reset_at": null}'
echo 'HTTP 429: usage limit reached, please log in again (401), 529 overloaded'
echo 'API Error: 500 rate_limit_error' >&2
"""
    first = rig.program("first", dev=words + WORKS)
    project = played(repo, first, rig.program("qa"), fallback=[rig.program("second")])
    assert project.run().code == 0
    assert programs(project) == ["first"]
    assert project.events("program_unavailable") == []


# --- denied tools -------------------------------------------------------------------------------------


def test_denied_tools_are_named_where_nothing_came_of_the_work(repo: Path) -> None:
    project = Project.make(
        repo,
        ONE,
        script={"*": {"dev": [{"denied": ["Bash", "Edit"]}, {"say": "I may not."}]}},
        plan_settings={"max_retry_attempts": 2},
    )
    ran = project.run()
    said = "scripted was denied Bash, Edit: allow it in the options of the agent"
    assert said in ran.data["blocked"][0]["reason"]
    assert said in project.metadata(BEAD)["last_verdict"]["flags"]
    assert said in project.feedback(BEAD)[1]


def test_denied_tools_fail_nothing_by_themselves(repo: Path) -> None:
    project = Project.make(repo, ONE, script={"*": {"dev": [{"denied": "WebFetch"}, *work()]}})
    assert project.run().code == 0
    (flag,) = project.metadata(BEAD)["last_verdict"]["flags"]
    assert "was denied WebFetch" in flag
    page = next((repo / ".ralph" / "pulls").glob("*.md")).read_text("utf-8")
    assert "was denied WebFetch" in page

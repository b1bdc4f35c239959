"""A session does the same wherever it works: in this process, or in another one behind a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.model import Expectation, Verifier
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.cli.session_worker import CloneOfRemote
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal.events import Event
from beads_ralph.process.process_tree import Family
from beads_ralph.session import Order, Outcome, RunSession
from beads_ralph.session.order import ORDER
from beads_ralph.session.pipe import PipedSessions
from beads_ralph.session.program_limits import ProgramLimit, ProgramLimits, ProgramTrouble
from tests.engine.places import Elsewhere
from tests.loop.plans import Project, git, soon, sprint

BEAD = "bd-1-1-one"
BRANCH = "feature/1-1-one"
PLACES = ["in this process", "over a pipe", "as a worker does"]

WORKS = """\
echo "$BEADS_RALPH_ATTEMPT" >> one.txt
git add --all
git commit --quiet --message "attempt $BEADS_RALPH_ATTEMPT"
"""
PASSES = """printf '```json\\n{"status": "pass", "message": "fine"}\\n```\\n'\n"""
FAILS = """printf '```json\\n{"status": "fail", "message": "not yet"}\\n```\\n'\n"""
FAILS_FIRST = f'if [ "$BEADS_RALPH_ATTEMPT" = 1 ]; then\n{FAILS}else\n{PASSES}fi\n'
AT_A_LIMIT = 'echo \'BEADS_RALPH_LIMIT {"reset_at": "2999-01-01T00:00:00Z"}\' >&2\nexit 1\n'


@dataclass
class Host:
    """Keeps in memory what a session tells and asks; limits are those of the loop."""

    events: list[Event] = field(default_factory=list)
    kept: list[RunState] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    programs: ProgramLimits = field(default_factory=ProgramLimits)
    pause: str = ""
    beside: tuple[str, ...] = ("feature/other",)
    full: bool = False
    """Whether nothing can be kept."""

    def emit(self, event: Event) -> None:
        self.events.append(event)

    async def keep(self, state: RunState) -> None:
        if self.full:
            raise RalphError(Code.WRITE_FAILED, "cannot write: no space left")
        self.kept.append(state)

    async def why_pause(self) -> str:
        return self.pause

    async def budget_left(self, in_flight: Usage) -> Budget:
        return Budget()

    async def branches_beside(self) -> Sequence[str]:
        self.asked.append("branches_beside")
        return self.beside

    async def limit_of(self, program: str) -> ProgramLimit | None:
        self.asked.append(f"limit_of {Path(program).name}")
        return self.programs.of(program)

    async def report_trouble(self, trouble: ProgramTrouble) -> ProgramLimit:
        self.asked.append(f"report_trouble {trouble.trouble}")
        return self.programs.begin(trouble)[0]

    async def report_success(self, program: str, seconds: float) -> None:
        assert seconds > 0
        self.asked.append(f"report_success {Path(program).name}")
        self.programs.worked(program, seconds)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


@dataclass(frozen=True)
class Trip:
    """An order, a bare repository that its work is pushed to, and how to run it in a clone of that."""

    folder: Path
    order: Order

    @property
    def remote(self) -> Path:
        return self.folder / "remote.git"

    def begun(self) -> Trip:
        """With a remote of its own."""
        git(self.order.root, "clone", "--quiet", "--bare", str(self.order.root), str(self.remote))
        return replace(self, order=replace(self.order, remote=str(self.remote)))

    def place(self, name: str) -> RunSession:
        clone = self.folder / "elsewhere" / "clone"
        if name == PLACES[0]:
            return CloneOfRemote(clone).run_session
        if name == PLACES[2]:
            return Elsewhere(self.folder / "host", self.order.root)
        return PipedSessions(
            (sys.executable, "-m", "beads_ralph.cli.session_worker", str(clone)), self.folder
        )

    def run(self, name: str, host: Host) -> Outcome:
        return asyncio.run(self.place(name)(self.order, host))

    def processes(self) -> list[int]:
        return sorted(one.pid for one in Family(f"{ORDER}={self.order.id}").find())

    def pushed(self) -> str:
        return git(self.remote, "rev-parse", "--verify", f"refs/heads/{BRANCH}")


Travel = Callable[..., Trip]


@pytest.fixture
def travel(repo: Path, tmp_path: Path) -> Travel:
    """Makes a project whose agents are shell commands, and the order of its one bead."""

    def make(dev: str = WORKS, qa: str = PASSES, **plan: Any) -> Trip:
        agent = tmp_path / "agent"
        said = f'if [ "$BEADS_RALPH_ROLE" = qa ]; then\n{qa}else\n{dev}fi\n'
        agent.write_text(f"#!/bin/sh\ncat > /dev/null\n{said}", encoding="utf-8")
        agent.chmod(0o755)
        spec = {"agent": "claude", "executable": str(agent), "fallback": []}
        settings = {"dev_agents": [spec], "qa_agents": [spec], **plan}
        project = Project.make(repo, sprint("1.1", "One"), plan_settings=settings, forge="local")
        assert project.ralph("mason", "plan.md", "--json").code == 0
        order = Order(project.bead(BEAD), "run-1", "team-1", repo, workspace.find(repo).config)
        return Trip(tmp_path / "trip", order).begun()

    return make


def unplaced(event: Event) -> dict[str, Any]:
    """Only who works elsewhere says where."""
    return {key: value for key, value in event.facts().items() if key != "host"}


def shape(value: Any) -> Any:
    """The keys of an object, all the way down; of a list, those of its first row."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    return [shape(inner) for inner in value[:1]] if isinstance(value, list) else None


# --- plain data ---------------------------------------------------------------------------------------


def test_an_order_comes_back_from_json_as_it_was(travel: Travel) -> None:
    order = travel().order
    verifier = Verifier(name="tests", command="make test", expect=Expectation(exit_code=2))
    full = replace(order, dependency_branches=("feature/a", "feature/b"), merged_verifiers=(verifier,))
    for one in (order, full, order.at(Path("/somewhere/else"))):
        assert Order.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_an_order_in_another_clone_keeps_its_distance(travel: Travel) -> None:
    order = travel().order
    moved = order.at(Path("/srv/clone"))
    assert moved.bead.metadata.worktree_path == f"/srv/{order.root.name}-worktrees/{BRANCH}"
    assert moved.at(order.root) == order


# --- the same wherever it works -----------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_a_failed_attempt_is_followed_by_one_that_passes(
    travel: Travel, place: str, no_process_left: str
) -> None:
    trip, host = travel(qa=FAILS_FIRST), Host()
    outcome = trip.run(place, host)
    assert (outcome.ending, outcome.attempts) == ("done", 2)
    assert outcome.pull_request is not None
    assert trip.pushed() == outcome.pull_request.commit
    assert [state.attempt_count for state in host.kept] == [1, 2]
    assert host.kinds.count("verdict_given") == 2
    assert "branches_beside" in host.asked
    assert trip.processes() == []


def test_both_places_tell_keep_and_end_alike(travel: Travel) -> None:
    made, told = travel(qa=FAILS_FIRST), list[Any]()
    for place in PLACES:
        trip, host = replace(made, folder=made.folder.parent / place.replace(" ", "-")).begun(), Host()
        outcome = trip.run(place, host)
        told.append(
            (
                [(event.kind, event.attempt, shape(unplaced(event))) for event in host.events],
                [shape(state.to_json()) for state in host.kept],
                shape(outcome.to_json()),
                (outcome.ending, outcome.attempts, outcome.failure),
                host.asked,
            )
        )
        assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
        assert all(event.bead == BEAD for event in host.events)
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("place", PLACES)
def test_a_limit_parks_the_bead(travel: Travel, place: str) -> None:
    trip, host = travel(dev=AT_A_LIMIT), Host()
    outcome = trip.run(place, host)
    assert outcome.ending == "parked"
    assert outcome.retry_at is not None
    assert outcome.retry_at.startswith("2999-01-01")
    assert "report_trouble limit" in host.asked
    assert trip.processes() == []


@pytest.mark.parametrize("place", PLACES)
def test_no_attempt_begins_where_the_host_says_pause(travel: Travel, place: str) -> None:
    host = Host(pause="the budget is used up")
    outcome = travel().run(place, host)
    assert (outcome.ending, outcome.reason) == ("paused", "the budget is used up")
    assert "agent_started" not in host.kinds


@pytest.mark.parametrize("place", PLACES)
def test_what_the_host_cannot_keep_ends_the_session(travel: Travel, place: str) -> None:
    trip = travel()
    outcome = trip.run(place, Host(full=True))
    assert outcome.ending == "broken"
    assert "no space left" in outcome.reason
    assert trip.processes() == []


@pytest.mark.parametrize("place", PLACES)
def test_a_cancelled_session_leaves_no_process(travel: Travel, place: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    trip = travel(dev=f"trap '' TERM\ntouch {begun}\nsleep 1000\n")

    async def cancelled() -> None:
        task = asyncio.create_task(trip.place(place)(trip.order, Host()))
        while not begun.exists() and not task.done():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert trip.processes() == []


# --- only behind a pipe -------------------------------------------------------------------------------


def worker_of(trip: Trip) -> int:
    for pid in trip.processes():
        if b"session_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise AssertionError("the session has no process")


def test_a_killed_process_is_a_broken_session_whose_pushed_work_is_there(
    travel: Travel, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    again = f'if [ "$BEADS_RALPH_ATTEMPT" = 2 ]; then touch {begun}; sleep 1000; fi\n{WORKS}'
    trip, host = travel(dev=again, qa=FAILS), Host()

    async def killed() -> Outcome:
        task = asyncio.create_task(trip.place(PLACES[1])(trip.order, host))
        while not begun.exists() and not task.done():
            await asyncio.sleep(0.02)
        os.kill(worker_of(trip), signal.SIGKILL)
        return await task

    outcome = asyncio.run(killed())
    assert (outcome.ending, outcome.reason) == (
        "broken",
        "the process of the session ended without an outcome",
    )
    assert git(trip.remote, "log", "-1", "--format=%s", trip.pushed()) == "attempt 1"
    assert [state.attempt_count for state in host.kept] == [1]
    soon(lambda: trip.processes() == [])


@pytest.mark.parametrize("place", PLACES)
def test_a_remote_that_is_not_there_breaks_the_session(travel: Travel, place: str) -> None:
    trip = travel()
    away = replace(trip, order=replace(trip.order, remote=str(trip.folder / "nowhere.git")))
    outcome = away.run(place, Host())
    assert outcome.ending == "broken"
    assert "nowhere.git" in outcome.reason
    assert trip.processes() == []


def test_a_worker_that_cannot_start_breaks_the_session(travel: Travel) -> None:
    trip = travel()
    sessions = PipedSessions(("/nowhere/python",), trip.folder)
    outcome = asyncio.run(sessions(trip.order, Host()))
    assert outcome.ending == "broken"
    assert "/nowhere/python" in outcome.reason


def test_another_machine_goes_on_where_the_first_one_stopped(travel: Travel, tmp_path: Path) -> None:
    trip, host = travel(qa=FAILS_FIRST, max_retry_attempts=1), Host()
    first = trip.run(PLACES[1], host)
    assert first.ending == "blocked"
    (kept,) = host.kept
    metadata = {**trip.order.bead.metadata.to_json(), **kept.to_metadata(), "max_retry_attempts": 2}
    bead = type(trip.order.bead).model_validate({**trip.order.bead.to_json(), "metadata": metadata})
    elsewhere = CloneOfRemote(tmp_path / "third" / "clone")
    second = asyncio.run(elsewhere.run_session(replace(trip.order, bead=bead), Host()))
    assert (second.ending, second.attempts) == ("done", 1)
    assert second.pull_request is not None
    assert git(trip.remote, "log", "--format=%s", f"main..{BRANCH}").splitlines() == [
        "attempt 2",
        "attempt 1",
    ]

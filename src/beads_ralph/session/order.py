"""What a session is given, what it gives back, and the one door between it and whoever sent it.

An `Order` says everything that the work on one bead needs to know and that does not depend on the place where
it is done. Whoever runs the session, here or on another machine, moves the order to its own clone of the
repository (`Order.at`) and puts together the `Tools` there: executor, agents, forge. The `Outcome` goes back
the same way. Both are plain data that survives a trip through JSON.

Everything else that a session wants to know or to say goes through its `SessionHost`: what happened, what
must be on disk before it goes on, whether it may go on, which branches are worked on beside it, and which
programs are at a limit. It sees neither the loop nor the store, and shares no object with them. A host serves
one session. The loop's own host is `loop/session_host.py`, that of `exec` is in `dod/file_session.py`, and
`session/pipe.py` carries the same calls over a pipe. Questions are coroutines because their answer may come
from elsewhere. `emit` is not: events go one way, in order, and nobody waits for an answer.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Self

from pydantic import TypeAdapter

from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.bead.agent_call import Session
from beads_ralph.bead.model import Bead, Verifier
from beads_ralph.bead.personas import PersonaFiles
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.config.model import Config
from beads_ralph.forge.protocol import Forge, PullRequest
from beads_ralph.journal.journal import EventSink
from beads_ralph.journal.records.model import Reason
from beads_ralph.journal.runs import RunFolder
from beads_ralph.process.calls import Retry
from beads_ralph.process.jobs import Executor
from beads_ralph.process.ports import Ports
from beads_ralph.process.sandbox import Sandboxed, real
from beads_ralph.prompts import PromptFiles
from beads_ralph.session.program_limits import ProgramLimit, ProgramTrouble
from beads_ralph.session.run_inputs import RunInputs
from beads_ralph.session.shared_baselines import Baselines
from beads_ralph.session.verifier_world import VerifierWorld
from beads_ralph.session.verify import Bench

Ending = Literal["done", "blocked", "stopped", "broken", "parked", "paused", "lost"]
"""blocked: this bead needs a person. stopped: so does the whole run. broken: the world failed, not the
bead, which is given back. parked: a limit must lift first. paused: there is no budget left for more.
lost: the machine that it was done on is gone, so it is done again."""

ORDER: Final = "BEADS_RALPH_ORDER"
"""The order's id, in the environment of every process that works for it: so all of them can be found."""


@cache
def _json_of(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class Travels:
    """Plain data that becomes JSON and comes back the same."""

    def to_json(self) -> dict[str, Any]:
        kind: Any = type(self)
        said: dict[str, Any] = _json_of(kind).dump_python(self, mode="json", exclude_unset=True)
        return said

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        kind: Any = cls
        found: Self = _json_of(kind).validate_python(said)
        return found


@dataclass(frozen=True)
class TeamSession:
    """Where an agent of the team ended on another bead: in its session the next one goes on."""

    bead: str
    title: str
    role: str
    seat: int
    agent: str
    program: str
    session: Session
    cwd: str
    """Where it worked: not every program takes a session up elsewhere."""
    last_words: str = ""


@dataclass(frozen=True)
class Neighbour:
    """Another bead of the same plan, as those who work on this one are told of it."""

    bead: str
    title: str
    branch: str
    status: str
    pull: str | None = None
    tasks: tuple[str, ...] = ()
    """Only of those whose work is brought together with this one's."""


@dataclass(frozen=True)
class Order(Travels):
    """One bead to work on."""

    bead: Bead
    run_id: str
    session_id: str
    """The name of the team's work in this run; every bead of the team carries it."""
    root: Path
    """The repository at the place of work."""
    config: Config
    """The settings of the run, those of its command line included."""
    dependency_branches: tuple[str, ...] = ()
    proven_commits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By branch: what was proven on it. The work builds on these commits, wherever the branch leads."""
    merged_verifiers: tuple[Verifier, ...] = ()
    """Those of the beads whose work the commit will hold as well, by a merge or on the same branch."""
    team_before: tuple[TeamSession, ...] = ()
    """Where the agents of the team ended on its finished beads."""
    team_counted: tuple[Session, ...] = ()
    """The bead's own sessions, as others of its team have left them since."""
    neighbours: tuple[Neighbour, ...] = ()
    """What was built before, and what is at work beside it."""
    remote: str | None = None
    """The address that another machine clones from and pushes to."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Of this piece of work: every order has one of its own, also for a bead that is taken up again."""

    def at(self, root: Path) -> Order:
        """The same order in another clone, its worktree as far from the root as it was."""
        place = Path(os.path.relpath(self.bead.metadata.worktree_path, self.root))
        moved = {"worktree_path": os.path.normpath(root / place)}
        metadata = self.bead.metadata.model_copy(update=moved)
        return replace(self, root=root, bead=self.bead.model_copy(update={"metadata": metadata}))


SERVER_RETRY: Final = Retry(tries=3, first=2.0)


@dataclass(frozen=True)
class Tools:
    """What the work is done with, at the place where it is done; made by whoever runs the session there."""

    root: Path
    config: Config
    executor: Executor
    folder: RunFolder
    environment: Mapping[str, str]
    """What checks and setup inherit."""
    select: Callable[[str], AgentCLI]
    forge: Forge
    world: VerifierWorld | None = None
    """How checks find the machine; None where they have it as it is."""
    ports: Ports | None = None
    """Where beads get ranges of ports from; None where they get none."""
    server_retry: Retry = SERVER_RETRY
    """How often an agent is asked whose server has trouble."""
    inputs: RunInputs | None = None
    """The files of the repository that the run obeys; None where nobody watches them."""
    baselines: Baselines = field(default_factory=Baselines)

    @cached_property
    def personas(self) -> PersonaFiles:
        """The agent files, as they were when they were first asked for: before any agent had started."""
        return PersonaFiles.taken(self.root)

    @cached_property
    def prompts(self) -> PromptFiles:
        """The same of the prompts."""
        return PromptFiles.taken(self.root)

    @property
    def closed_in(self) -> bool:
        """Agents and checks run in a sandbox of ours."""
        return isinstance(self.executor, Sandboxed)

    def is_out_of_reach(self, place: Path) -> bool:
        """Tell whether no job can write there but one whose own folder it is."""
        if not isinstance(self.executor, Sandboxed):
            return False
        own, lent = real(place), map(real, self.executor.sandbox.writes)
        return not any(own.is_relative_to(one) or one.is_relative_to(own) for one in lent)

    def bench(self, events: EventSink) -> Bench:
        """What checks are run with, and who hears of them."""
        return Bench(self.executor, self.folder, events, self.environment)


NOTHING: Final = RunState()


@dataclass(frozen=True)
class Outcome(Travels):
    """How the work on a bead ended."""

    ending: Ending
    reason: str
    state: RunState = NOTHING
    """What is to be kept of it."""
    pull_request: PullRequest | None = None
    attempts: int = 0
    """Those that were judged in this session, not those of earlier runs."""
    usage: Usage = field(default_factory=Usage)
    retry_at: str | None = None
    """When a parked bead may go on."""
    failure: Reason | None = None
    """The records' word for it, where it is not that of the last attempt."""


class SessionHost(EventSink, Protocol):
    """Whoever sent a session, as the session sees it."""

    async def keep(self, state: RunState) -> None:
        """Put the run state of the bead into the store; it is on disk when this returns."""

    async def why_pause(self) -> str:
        """Why no further attempt may begin now, nor another call because of a fault; empty where it may."""

    async def budget_left(self, in_flight: Usage) -> Budget:
        """What the run leaves to this session's call, which has used `in_flight` so far: calls of other
        sessions spend from the same budget meanwhile."""

    async def branches_beside(self) -> Sequence[str]:
        """The branches that are or were worked on at the same time, in the order of their start."""

    async def limit_of(self, program: str) -> ProgramLimit | None:
        """What keeps a program from being called now."""

    async def report_trouble(self, trouble: ProgramTrouble) -> ProgramLimit:
        """A call has met trouble: the program rests for every session of the run."""

    async def report_success(self, program: str, seconds: float) -> None:
        """A call of so many seconds came back without such trouble."""


RunSession = Callable[[Order, SessionHost], Coroutine[Any, Any, Outcome]]
"""Does the work of an order somewhere: in this process, in another one, on another machine. Cancelled, it
leaves no process there."""


# --- ends that come in the midst of the work ----------------------------------------------------------


class Parked(Exception):  # noqa: N818 - not an error: the work goes on later
    """Nobody can play an agent now; the bead waits for the first of its programs that can again."""

    def __init__(self, reason: str, limits: Mapping[str, ProgramLimit]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.programs = {name: limit.until for name, limit in limits.items()}
        self.until = min(self.programs.values())


class Halted(Exception):  # noqa: N818 - a verdict, not an error
    """Nothing more can be done for this bead, and perhaps for none."""

    def __init__(self, ending: Ending, reason: str, failure: Reason | None = None) -> None:
        super().__init__(reason)
        self.ending: Ending = ending
        self.reason = reason
        self.failure = failure

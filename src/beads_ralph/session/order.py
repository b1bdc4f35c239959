"""What a session is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.bead.items import Item, Standing
from beads_ralph.bead.model import Bead, Verifier
from beads_ralph.bead.usage import Usage
from beads_ralph.config import Config
from beads_ralph.forge.protocol import Forge, PullRequest
from beads_ralph.journal.records.reasons import Reason
from beads_ralph.process.ports import Ports
from beads_ralph.process.retry import Retry
from beads_ralph.session.program_limits import Rest, Rests
from beads_ralph.session.verify import Bench

Keep = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Puts metadata of the bead into the store; what it returns from is on disk."""

Ending = Literal["done", "blocked", "stopped", "broken", "parked", "paused"]
"""blocked: this bead needs a person. stopped: so does the whole run. broken: the world failed, not the
bead, which is given back. parked: a limit must lift first. paused: there is no budget left for more."""


@dataclass(frozen=True)
class Order:
    """One bead to work on."""

    bead: Bead
    run_id: str
    session_id: str
    """The team's session in this run; every bead of the team carries it."""
    dependency_branches: tuple[str, ...] = ()
    merged_verifiers: tuple[Verifier, ...] = ()
    """Those of the beads whose work the commit will hold as well, by a merge or on the same branch."""


def _nobody(_bead_id: str) -> Sequence[str]:
    return ()


def _nothing_said() -> str:
    return ""


def _unseen(_gate: Item) -> Standing:
    return Standing("failed", "nothing here can look at GitHub")


SERVER_RETRY: Final = Retry(tries=3, first=2.0)


@dataclass(frozen=True)
class Tools:
    """What the work is done with."""

    root: Path
    config: Config
    bench: Bench
    select: Callable[[str], AgentCLI]
    forge: Forge
    neighbours: Callable[[str], Sequence[str]] = _nobody
    """The branches that are or were worked on at the same time as the bead of that id."""
    ports: Ports | None = None
    """Where beads get ranges of ports from; None where they get none."""
    why_pause: Callable[[], str] = _nothing_said
    """Why no further attempt may begin now; empty where it may."""
    server_retry: Retry = SERVER_RETRY
    """How often an agent is asked whose server has trouble."""
    rests: Rests = field(default_factory=Rests)
    """Which programs cannot play now; what one bead has met, the others need not meet again."""
    look: Callable[[Item], Standing] = _unseen
    """How that stands which a gate waits for outside of the repository."""


@dataclass(frozen=True)
class Outcome:
    """How the work on a bead ended."""

    ending: Ending
    reason: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pull_request: PullRequest | None = None
    attempts: int = 0
    """Those that were judged in this session, not those of earlier runs."""
    usage: Usage = field(default_factory=Usage)
    retry_at: str | None = None
    """When a parked bead may go on."""
    failure: Reason | None = None
    """The records' word for it, where it is not that of the last attempt."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the journal is told besides the reason."""
        return {"failure_reason": self.failure} if self.failure else {}


# --- ends that come in the midst of the work ----------------------------------------------------------


class Parked(Exception):  # noqa: N818 - not an error: the work goes on later
    """Nobody can play an agent now; the bead waits for the first of its programs that can again."""

    def __init__(self, reason: str, rests: Mapping[str, Rest]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.programs = {name: rest.until for name, rest in rests.items()}
        self.until = min(self.programs.values())


class Halted(Exception):  # noqa: N818 - a verdict, not an error
    """Nothing more can be done for this bead, and perhaps for none."""

    def __init__(self, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.ending: Ending = ending
        self.reason = reason

"""The one door between a session and whoever sent it.

A session gets an order (plain data, `session/order.py`), the tools of the place where it works, and a
`SessionHost`. Everything else that it wants to know or to say goes through the host: what happened, what must
be on disk before it goes on, whether it may go on, which branches are worked on beside it, and which programs
are at a limit. The session sees neither the loop nor the store, and shares no object with them.

A host serves one session. The loop's own host is `loop/session_host.py`; `session/pipe.py` carries the same
calls over a pipe to a session in another process. Questions are coroutines because their answer may come from
elsewhere. `emit` is not: events go one way, in order, and nobody waits for an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, Protocol

from beads_ralph.bead import words
from beads_ralph.bead.run_state import RunState
from beads_ralph.journal.journal import EventSink

TroubleKind = Literal["limit", "server", "auth", "missing"]
"""Why a program cannot play an agent: at a limit, its server is down, not signed in, not installed."""

PATIENCE: Final = timedelta(hours=1)
"""So long an outage is waited for; after that it counts against the beads that meet it."""


@dataclass(frozen=True)
class ProgramTrouble:
    """Trouble of a program, as one call of it has met it."""

    program: str
    trouble: TroubleKind
    reason: str
    reset_at: str | None = None
    """When the limit lifts, as the program says."""
    seconds: float = 0.0
    """How long the call had lasted: one that was under way when others met the trouble has met the same."""


@dataclass(frozen=True)
class ProgramLimit:
    """Why a program is not called now, and until when; as all sessions of the run have met it."""

    program: str
    trouble: TroubleKind
    began: datetime
    until: datetime
    reason: str
    proven: bool = False
    """It has worked in this run, so what fails now is no mistake in its setup."""
    down_since: datetime | None = None
    """When its outage began."""

    @property
    def passes(self) -> bool:
        """Waiting helps; a sign-in and an installation need a person."""
        return self.trouble in ("limit", "server")

    def outage_is_worth_waiting_for(self, *, unproven: bool = False) -> bool:
        """Not for ever; and not at the start of a run, where a wrong address looks just the same and somebody
        is there to fix it, unless outages of `unproven` programs are waited for, too."""
        known = unproven or self.proven
        return known and self.down_since is not None and datetime.now(UTC) - self.down_since < PATIENCE


class SessionHost(EventSink, Protocol):
    """Whoever sent a session, as the session sees it."""

    async def keep(self, state: RunState) -> None:
        """Put the run state of the bead into the store; it is on disk when this returns."""

    async def why_pause(self) -> str:
        """Why no further attempt may begin now; empty where it may."""

    async def branches_beside(self) -> Sequence[str]:
        """The branches that are or were worked on at the same time, in the order of their start."""

    async def limit_of(self, program: str) -> ProgramLimit | None:
        """What keeps a program from being called now."""

    async def report_trouble(self, trouble: ProgramTrouble) -> ProgramLimit:
        """A call has met trouble: the program rests for every session of the run."""

    async def report_success(self, program: str, seconds: float) -> None:
        """A call of so many seconds came back without such trouble."""


def moment_of(text: str | None) -> datetime | None:
    """A time that somebody else wrote down; None where it is none."""
    if text is None:
        return None
    try:
        return words.moment_of(text)
    except ValueError:
        return None

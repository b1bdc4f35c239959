"""What becomes of a bead whose session has ended: closed with its proof, given back, parked, or blocked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import ParkedUntil, RunState
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal.events import BeadBlocked, BeadClosed, BeadParked, BeadReleased, Event
from beads_ralph.journal.journal import Journal
from beads_ralph.loop import recovery
from beads_ralph.loop.account import RunTally
from beads_ralph.loop.health_gates import Gating
from beads_ralph.loop.limits import ParkedBeads
from beads_ralph.loop.published import Published
from beads_ralph.loop.run_end import Why
from beads_ralph.loop.run_store import Pool
from beads_ralph.process.calls import in_thread
from beads_ralph.session import Outcome, Tools
from beads_ralph.session.program_limits import ProgramLimits
from beads_ralph.session.worktree import tidy

MOST_REFUSALS: Final = 3
"""So often the store may refuse to close a bead of ours; then a person should look."""
SNATCHED: Final = "it was closed while its agents were at work, which proves nothing"
CANCELLED: Final = Outcome("paused", "the run was cancelled")


@dataclass
class Settling:
    """Writes the end of each session into store, journal and tally."""

    pool: Pool
    tools: Tools
    journal: Journal
    tally: RunTally
    gating: Gating
    parking: ParkedBeads
    programs: ProgramLimits
    published: Published
    drain: Callable[[Why, str], None]
    """Ends the run, for this reason."""
    stop_on_failure: bool = False
    tidying: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """By branch: what is left to do behind a closed bead, while others start."""
    lost: set[str] = field(default_factory=set)
    """What another has taken from us."""
    refusals: Counter[str] = field(default_factory=Counter)

    async def settle(self, bead: Bead, outcome: Outcome | None) -> None:
        """With the outcome; None where the session was cancelled."""
        self.tally.attempts += outcome.attempts if outcome else 0
        try:
            await (self._let_go(bead) if outcome is None else self._conclude(bead, outcome))
        except RalphError as error:
            if error.code.startswith("VALIDATION."):  # somebody has spoiled the bead meanwhile
                await self.pool.let_go(bead, error.message)
                self.tell(bead, BeadReleased(reason=error.message))
            elif error.code in (Code.CONFLICT, Code.BEAD_NOT_FOUND):
                await self._refused(bead, error, outcome or CANCELLED)
            else:
                raise

    async def _conclude(self, bead: Bead, outcome: Outcome) -> None:
        if outcome.ending == "done":
            await self._close(bead, outcome)
        elif outcome.ending == "parked":
            await self._park(bead, outcome)
        elif outcome.ending in ("blocked", "stopped"):
            await self.block(bead, outcome)
        elif outcome.ending == "lost":
            await self.give_back(bead, outcome)
        else:
            await self.pool.give_back(bead, "open", outcome)
            self.tell(bead, BeadReleased(reason=outcome.reason))
            reason = f"{bead.id}: {outcome.reason}" if outcome.ending == "broken" else outcome.reason
            self.drain("stopped", reason)

    async def _close(self, bead: Bead, outcome: Outcome) -> None:
        await self.pool.close(bead, outcome)
        self.tally.closed.append(bead.id)
        self.gating.stale = True
        if outcome.pull_request is not None:
            self.tally.pulls.append((bead.id, outcome.pull_request))
            self.published.expect(bead.id, outcome.pull_request)
        if outcome.state.standing is not None:
            self.tally.standing[bead.id] = outcome.state.standing
        if outcome.state.flags:
            self.tally.flags[bead.id] = outcome.state.flags
        self.tell(bead, BeadClosed(reason=outcome.reason, standing=outcome.state.standing))
        remove = self.tools.config.cleanup_on_complete
        work = in_thread(tidy, self.tools.root, bead, remove_worktree=remove)
        self.tidying[bead.metadata.branch] = asyncio.create_task(work)

    async def _park(self, bead: Bead, outcome: Outcome) -> None:
        """Given back until one of its programs can go on; whatever else needs them waits, too."""
        waits = outcome.state.parked or ParkedUntil()
        lasts = any(self.programs.is_down(name) for name in waits.programs or ())
        until = self.parking.park(bead.id, outcome.retry_at, lasts=lasts)
        if until is None:
            await self.block(bead, replace(outcome, reason=f"{outcome.reason}, again and again"))
            return
        text = f"{until:%Y-%m-%dT%H:%M:%SZ}"
        state = outcome.state.changed(RunState(parked=waits.model_copy(update={"until": text})))
        await self.pool.give_back(bead, "open", replace(outcome, state=state))
        self.tell(bead, BeadParked(reason=outcome.reason, until=text))

    async def block(self, bead: Bead, outcome: Outcome) -> None:
        await self.pool.give_back(bead, "blocked", outcome)
        self._blocked(bead, outcome)

    def _blocked(self, bead: Bead, outcome: Outcome) -> None:
        self.tally.blocked[bead.id] = outcome.reason
        self.tell(bead, BeadBlocked(reason=outcome.reason, failure_reason=outcome.failure))
        if outcome.ending == "stopped" or self.stop_on_failure:
            self.drain("stopped", f"{bead.id}: {outcome.reason}")

    async def _let_go(self, bead: Bead) -> None:
        """Cancelled by us, or taken from us."""
        if bead.id in self.lost:
            await self._taken(bead, "it is held by another now; nothing of it was closed here", CANCELLED)
            return
        await self.give_back(bead, CANCELLED)

    async def give_back(self, bead: Bead, outcome: Outcome) -> None:
        """A bead whose session came to no end of its own: what its agents did and cost stands in the journal,
        and nobody is paid again for what had ended well."""
        known = await in_thread(recovery.unrecorded, self.pool.as_kept(bead), self.journal.path)
        await self.pool.give_back(bead, "open", replace(outcome, state=known))
        self.tell(bead, BeadReleased(reason=outcome.reason, cancelled=True))

    async def _refused(self, bead: Bead, error: RalphError, outcome: Outcome) -> None:
        """Mostly somebody else has it by now, and it is theirs to end. Where it is ours still, it waits
        again: something that it depends on was opened meanwhile."""
        if error.code != Code.CONFLICT or not await self.pool.holds(bead):
            await self._taken(bead, error.message, outcome)
            return
        self.refusals[bead.id] += 1
        if self.refusals[bead.id] >= MOST_REFUSALS:  # what keeps it open will not go away by itself
            await self.block(bead, Outcome("blocked", f"the store will not take its end: {error.message}"))
        else:
            await self.pool.give_back(bead, "open", Outcome("paused", error.message))
            self.tell(bead, BeadReleased(reason=error.message))

    async def _taken(self, bead: Bead, reason: str, outcome: Outcome) -> None:
        """Another holds the bead now, and it is theirs to end; or its agent has closed it, which counts for
        nothing: it is opened again, and ends as its work did."""
        if not await self.pool.watch.snatched(bead):
            self.lost.add(bead.id)
            self.tally.blocked.pop(bead.id, None)
            self.tell(bead, BeadReleased(reason=reason, cancelled=True))
            return
        self.lost.discard(bead.id)
        self.refusals[bead.id] += 1
        await self.pool.watch.reopen(bead, SNATCHED, outcome.state)
        if outcome.ending in ("blocked", "stopped") or self.refusals[bead.id] >= MOST_REFUSALS:
            why = outcome.reason if outcome.ending in ("blocked", "stopped") else SNATCHED
            await self.pool.watch.set_aside(bead)
            self._blocked(bead, replace(outcome, reason=why))
        else:
            self.tell(bead, BeadReleased(reason=outcome.reason))

    def tell(self, bead: Bead, event: Event) -> None:
        self.journal.emit(replace(event, bead=bead.id, team=bead.metadata.team_name))

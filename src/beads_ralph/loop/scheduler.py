"""Start all you may, reap one, repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from beads_ralph.agents.players import of_bead
from beads_ralph.bead.model import Bead
from beads_ralph.errors import RalphError
from beads_ralph.git import objects, ref_changes
from beads_ralph.journal import runs
from beads_ralph.journal.events import (
    ProgramRecovered,
    RunDraining,
    RunPaused,
    RunResumed,
    RunStarted,
    TeamAwaited,
)
from beads_ralph.journal.journal import Journal
from beads_ralph.loop import leases, recovery
from beads_ralph.loop.account import Halt, OpenEnds, Parts, Remains, RunTally, account
from beads_ralph.loop.blocker_watch import Waiting
from beads_ralph.loop.blockers import Look, unseen
from beads_ralph.loop.budget import Meter
from beads_ralph.loop.health_gates import Gating
from beads_ralph.loop.limits import Parallelism, ParkedBeads
from beads_ralph.loop.published import Published
from beads_ralph.loop.run_end import Why
from beads_ralph.loop.run_settings import Ended, Scope, Settings, taken_up
from beads_ralph.loop.run_store import Pool
from beads_ralph.loop.session_host import LoopHost
from beads_ralph.loop.settling import Settling
from beads_ralph.process.calls import in_thread
from beads_ralph.process.sandbox import Sandbox
from beads_ralph.session import Outcome, RunSession, Tools, confinement
from beads_ralph.session.program_limits import ProgramLimits
from beads_ralph.store.protocol import Store

LOOK_SECONDS: Final = 0.5
"""How often orders from outside are looked for."""


class Loop:
    """One run over a repository's beads."""

    def __init__(
        self,
        store: Store,
        tools: Tools,
        journal: Journal,
        settings: Settings,
        scope: Scope,
        run_session: RunSession,
        look: Look = unseen,
    ) -> None:
        self.settings = settings
        self.home = tools.folder.home
        self.journal = journal
        self.tools = tools
        self.run_session = run_session
        self.parallelism = Parallelism.of(settings.max_parallel)
        self.programs = ProgramLimits.under(tools.config)
        self.parking = ParkedBeads(self.programs)
        self.meter = Meter(journal, settings.budget, self.parallelism, self.programs)
        self.pool = Pool(store, settings, scope, tools, journal)
        self.running: dict[asyncio.Task[Outcome], Bead] = {}
        self.beside: dict[str, list[str]] = {}
        """The branches that were worked on while a bead was, in the order of their start."""
        self.gating = Gating.of(store, tools, journal, settings)
        self.waiting = Waiting(self.pool, look, journal, settings.poll_seconds)
        self.round: frozenset[str] | None = None
        self.remains: Remains | None = None
        """As it was when nothing more could start."""
        self.finished: asyncio.Task[None] | None = None
        """The look at what was closed long ago."""
        self.tally = RunTally()
        self.refusal: Callable[[Bead], Outcome | None] = lambda _: None
        """Asked before the work on a bead begins: how it ends at once where it could come to nothing."""
        self.edits: Callable[[], Sequence[str]] | None = None
        """Asked before beads are chosen: those that whoever gave the run its beads has made or changed."""
        self.open_ends: OpenEnds = tuple
        """Asked once where every bead is closed: whoever gave the run its beads may know of others."""
        self.closing_remarks: Callable[[], Sequence[str]] = tuple
        """Asked once when no agent is at work any more: what a person should look at."""
        self.published = Published(tools.root, tools.forge, journal, self.tally.remarks)
        shared = (self.tally, self.gating, self.parking, self.programs, self.published)
        self.settling = Settling(self.pool, tools, journal, *shared, self.drain, settings.stop_on_failure)
        self.halt: tuple[Why, str] | None = None
        self.interrupted = False
        """Whether a person has asked once for the end."""
        self.cancelling = False
        self.paused = False
        self.changed = True
        self.next_poll = 0.0

    # --- the whole of it ----------------------------------------------------------------------------

    async def run(self) -> Ended:
        """Until nothing is left that may start. Whatever happens, no agent is left, nor a bead in hand."""
        self.journal.emit(self._started())
        self.journal.listeners.append(self.meter.hear)
        held = (self.pool, self.running, self.settling.lost, self.settings.heartbeat_seconds)
        beats = asyncio.create_task(leases.keep(*held))
        try:
            found = await self.pool.recover()
            self.gating.begin(found)
            self.waiting.notice(self.pool.asked_for(bead for bead in found if bead.status != "closed"))
            await self.published.begin(self.pool.pushed_before(), more=bool(self.pool.finished))
            while not await self._turn():
                self._look_at_finished()
                if beats.done():
                    beats.result()  # it never ends by itself, so this raises what went wrong
        finally:
            beats.cancel()
            if self.finished is not None:
                self.finished.cancel()
            self.journal.listeners.remove(self.meter.hear)
            await self._abandon()
            await self.gating.end()
            await self.waiting.end()
            await asyncio.gather(*self.settling.tidying.values())
            await in_thread(objects.rest, self.tools.root)
            await in_thread(ref_changes.rest, self.tools.root)
        remains = self.remains or Remains(await self.pool.left(self.round or None), await self.pool.account())
        if not self.cancelling:
            remains.untrue.update(await self.published.settle(self.pool.watch.block))
        self.tally.remarks += self.closing_remarks()
        halt = Halt(self.halt, cancelled=self.cancelling, one_round=bool(self.round))
        known = (self.pool, self.gating, self.waiting, self.parking, self.meter)
        ended = await account(self.tally, remains, halt, Parts(*known, self.tools.root, self.open_ends))
        self.journal.emit(ended.told)
        return ended

    def _look_at_finished(self) -> asyncio.Task[None]:
        """Once, and not before the first agents have started."""
        if self.finished is None:
            self.finished = asyncio.create_task(self.pool.see_finished(self.published))
        return self.finished

    async def _see_finished(self) -> None:
        """Wait for that look, unless the run is to end."""
        looking = self._look_at_finished()
        while self.halt is None and not looking.done():
            await asyncio.wait([looking], timeout=LOOK_SECONDS)
            self._heed_orders()
        if looking.done():
            looking.result()

    def _started(self) -> RunStarted:
        tools, closed_in = self.tools, self.tools.closed_in
        target = tools.forge.push_target()
        return RunStarted(
            max_parallel=self.settings.max_parallel,
            actor=self.settings.actor,
            sandbox=Sandbox.kind if closed_in else "none",
            sandbox_note="" if closed_in else confinement.sandbox_note(tools.config),
            check_rooms=Sandbox.kind if tools.world and tools.world.program else "none",
            pushes_to=str(target) if target else "",
        )

    async def _turn(self) -> bool:
        """Start what may start, wait for one to end, settle it; True where the run is over."""
        self._heed_orders()
        if self.halt is None and (why := self.meter.used_up()):
            self.drain("stopped", why)
        self.changed |= self.gating.look(idle=not self.running)
        self.changed |= self.waiting.step()
        if not self.paused and self.halt is None and self._may_have_changed():
            await self._start()
        if self.running:
            await self._reap()
            return False
        if self.halt is not None:
            self.remains = None
            return True
        if not (self.paused or self._waits() or await self._overlooked()):
            self.changed = self.pool.watch.has_reopened
            return not self.changed
        await self.waiting.rest(LOOK_SECONDS, self.gating.checking)
        return False

    def _may_have_changed(self) -> bool:
        """Whether a look at the store is worth it: something ended here, or it is time for a slow poll."""
        now = asyncio.get_running_loop().time()
        lifted = self.parking.lift()
        for program in self.programs.lift():
            lifted = True
            self.journal.emit(ProgramRecovered(program=program))
        if not (self.changed or lifted or self.meter.widened or now >= self.next_poll):
            return False
        self.changed = self.meter.widened = False
        self.next_poll = now + self.settings.poll_seconds
        return True

    def _waits(self) -> bool:
        """What a limit or a gate holds up is not forgotten, unless one round was asked for."""
        if self.gating.busy or self.waiting.busy:
            return True
        if self.settings.once:
            return False
        if self.waiting.survey.hopeful:
            self.waiting.tell()
        return self.waiting.survey.hopeful or bool(self.parking)

    async def _overlooked(self) -> bool:
        """Whether beads are left that wait for something nobody has looked at: they came during the run."""
        await self._see_finished()
        left = await self.pool.left(self.round or None)
        news = self.waiting.notice(left, idle=True)
        self.remains = None if news else Remains(left, await self.pool.account())
        return news

    # --- starting -----------------------------------------------------------------------------------

    async def _start(self) -> None:
        if len(self.running) >= self.parallelism.now:
            self.changed = True  # nobody has looked
            return
        if self.edits is not None:
            await self.pool.take_up(await in_thread(self.edits))
        for bead in await self._candidates():
            if self.halt is not None or len(self.running) >= self.parallelism.now:
                break
            if other := self.pool.teams.at_work(bead, self.running.values()):
                self._await_team(bead, other)
            elif recovery.may_join(bead, self.running.values(), self.tools.config.max_interruptions):
                await self._claim(bead)

    def _await_team(self, bead: Bead, other: Bead) -> None:
        """Told once: it is ready, and its turn comes when the other one has ended, however that ends."""
        if self.pool.teams.awaits(bead, other):
            self.settling.tell(bead, TeamAwaited(by=other.id))

    async def _candidates(self) -> list[Bead]:
        ready = await self.pool.candidates()
        if self.settings.once:
            self.round = self.round or frozenset(bead.id for bead in ready)
            ready = [bead for bead in ready if bead.id in self.round]
        self.parking.waiting.clear()
        for bead in ready:
            self.parking.remember(bead)
        ready = self.gating.admitted(ready)
        at_work = {bead.id for bead in self.running.values()}
        return [
            bead
            for bead in ready
            if bead.id not in at_work
            and bead.id not in self.pool.unreadable
            and bead.id not in self.settling.lost
            and not self.parking.holds(bead.id, of_bead(bead, self.tools))
        ]

    async def _claim(self, bead: Bead) -> None:
        if tidying := self.settling.tidying.pop(bead.metadata.branch, None):
            await tidying
        claimed = await self.pool.claim(bead)
        if claimed is None:
            return
        self.tally.blocked.pop(bead.id, None)  # somebody has opened it again meanwhile
        if refused := await in_thread(self.refusal, claimed):
            self.changed = True
            await self.settling.block(claimed, refused)
            return
        self.journal.emit(taken_up(claimed))
        order = await self.pool.order(claimed)
        shared = (self.journal, self.programs, self.pool, self.meter, self.beside)
        host = LoopHost(claimed, *shared, self._why_halt)
        session = self.run_session(order, host)
        task = asyncio.create_task(session, name=bead.id)
        self._note_beside(claimed)
        self.running[task] = claimed
        if self.cancelling:
            task.cancel()

    def _branches_at_work(self) -> list[str]:
        return [bead.metadata.branch for bead in self.running.values()]

    def _note_beside(self, bead: Bead) -> None:
        self.beside[bead.id] = self._branches_at_work()
        for other in self.running.values():
            self.beside[other.id].append(bead.metadata.branch)

    # --- settling -----------------------------------------------------------------------------------

    async def _reap(self) -> None:
        """An end is noticed at once; orders and parked beads are looked for between. What the longest chain
        hangs on is settled first."""
        done, _ = await asyncio.wait(self.running, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done, key=lambda one: self.pool.place_in_line(self.running[one])):
            self.changed = self.waiting.stale = True
            # Anything but an outcome is a bug of ours, and goes up.
            await self.settling.settle(self.running[task], None if task.cancelled() else task.result())
            del self.running[task]  # not before: what goes wrong above leaves the bead to be given back

    # --- ending -------------------------------------------------------------------------------------

    def drain(self, why: Why = "interrupted", reason: str = "interrupted") -> None:
        """Start no further bead, attempt or program in place of another; the attempts at work may finish."""
        if self.halt is None:
            self.halt = (why, reason)
            at_work = tuple(bead.id for bead in self.running.values())
            self.journal.emit(RunDraining(reason=reason, running=at_work))

    def _why_halt(self) -> str:
        return f"the run ends: {self.halt[1]}" if self.halt else ""

    def cancel(self) -> None:
        """End what runs, and give its beads back as they were."""
        if not self.cancelling:
            self.cancelling = True
            self.drain("interrupted", "cancelled")
            self.halt = ("interrupted", "cancelled; run again to go on")
            for task in self.running:
                task.cancel()

    async def _abandon(self) -> None:
        """After a failure of our own: end the agents, and leave no bead in a dead hand."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        for bead in self.running.values():
            with suppress(RalphError):  # what it is that failed is on its way up already
                await self.settling.give_back(bead, Outcome("paused", "the run failed"))
        self.running.clear()

    def _heed_orders(self) -> None:
        word = runs.ordered(self.home)
        if word == "stop":
            runs.order(self.home, None)
            self.drain("stopped", "told to stop")
        if (word == "pause") != self.paused:
            self.paused = word == "pause"
            self.changed = True
            self.journal.emit(RunPaused() if self.paused else RunResumed())

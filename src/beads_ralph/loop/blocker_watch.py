"""Gates, people's tasks and epics in a run: looked at beside the work, and let pass when they come true."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONTAINERS
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal.events import GatePassed, RunWaiting
from beads_ralph.journal.journal import Journal
from beads_ralph.loop.blockers import Look, Survey, Wait, gather, strangers, survey
from beads_ralph.loop.run_store import Pool
from beads_ralph.process.calls import in_thread

WHILE_IT_LASTS = (Code.CONFLICT, Code.BEAD_NOT_FOUND)
"""What the store says where somebody was quicker, or something came in between."""


@dataclass
class Waiting:
    """What the beads of a run wait for. Where all of it is beads, this asks the store nothing."""

    pool: Pool
    look: Look
    journal: Journal
    interval: float
    survey: Survey = field(default_factory=Survey)
    asked: set[str] = field(default_factory=set)
    """What beads of the run wait for that is no bead."""
    stale: bool = False
    """Whether something has happened since the last look."""
    looking: asyncio.Task[bool] | None = None
    next_look: float = 0.0
    told: tuple[str, ...] = ()

    def notice(self, left: Sequence[Bead], *, idle: bool = False) -> bool:
        """Whether these beads wait for something that nobody has looked at yet. Of an idle run's beads, one
        that seems to wait for nothing waits for what holds up its epic."""
        news = strangers(left, self.pool.known)
        if idle:
            left_ids = {bead.id for bead in left}
            free = [bead for bead in left if left_ids.isdisjoint(bead.dependencies)]
            news |= {bead.parent for bead in free if bead.parent}
        news -= self.asked
        self.asked |= news
        self.stale |= bool(news)
        return bool(news)

    def step(self) -> bool:
        """Begin a look where one is due; True where one has ended that let something pass."""
        passed = False
        if self.looking is not None and self.looking.done():
            passed = self.looking.result()
            self.looking = None
        due = self.stale or asyncio.get_running_loop().time() >= self.next_look
        if self.asked and self.looking is None and due:
            self.stale = False
            self.looking = asyncio.create_task(self._look())
        return passed

    @property
    def busy(self) -> bool:
        """Whether a look is still to end: it may let something start."""
        return self.looking is not None or (bool(self.asked) and self.stale)

    async def _look(self) -> bool:
        open_beads = await self.pool.open_beads()
        left = self.pool.asked_for(open_beads)
        scene = await self.pool.ask(gather, self.pool.store, left, open_beads, self.pool.closed_ids)
        self.survey = await in_thread(survey, scene, left, self.look)
        self.next_look = asyncio.get_running_loop().time() + self._pause()
        passed = [wait for wait in self.survey.passed if await self._let_pass(wait)]
        return await self._settled(self.survey.waits) or bool(passed)

    def _pause(self) -> float:
        if self.survey.until is None:
            return self.interval
        return max(min((self.survey.until - datetime.now(UTC)).total_seconds(), self.interval), 0.0)

    async def _let_pass(self, wait: Wait) -> bool:
        """Only once, whoever else looks at it."""
        name, reason = wait.item.id, wait.standing.text
        try:
            await self.pool.ask(self.pool.store.items.close, name, self.pool.actor, reason)
        except RalphError as error:
            if error.code not in WHILE_IT_LASTS:
                raise
            return False
        self.pool.may_settle |= wait.item.parent is not None
        event = GatePassed(gate=name, title=wait.item.title, reason=reason, beads=tuple(wait.beads))
        self.journal.emit(event)
        return True

    async def _settled(self, waits: Sequence[Wait]) -> bool:
        """An epic that somebody waits for closes with what lies below it, not at the end of the run."""
        if not any(wait.item.issue_type in CONTAINERS for wait in waits):
            return False
        return bool(await self.pool.settle())

    def tell(self) -> None:
        """Once, what an idle run waits for."""
        names = tuple(wait.item.id for wait in self.survey.pending)
        if names != self.told:
            self.told = names
            self.journal.emit(RunWaiting(gates=tuple(wait.told for wait in self.survey.pending)))

    async def rest(self, seconds: float, also: asyncio.Task[None] | None) -> None:
        """Until a look or another task has ended, at most so long."""
        tasks = [task for task in (self.looking, also) if task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(seconds)

    async def end(self) -> None:
        """End a look that nobody waits for any more."""
        if self.looking is not None:
            self.looking.cancel()
            await asyncio.gather(self.looking, return_exceptions=True)

    def left_over(self, left: Iterable[Bead]) -> list[Wait]:
        """What the beads that are left wait for, as the last look has seen it."""
        names = {bead.id for bead in left}
        return [
            wait
            for wait in self.survey.waits
            if wait.standing.state != "passed" and not names.isdisjoint(wait.beads)
        ]

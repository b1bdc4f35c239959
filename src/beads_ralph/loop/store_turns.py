"""Whose turn it is at the store: what others wait for goes before what can wait."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar

from beads_ralph.errors import Code, RalphError
from beads_ralph.process.calls import Retry, in_thread

LOG: Final = logging.getLogger(__name__)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")

PASSING: Final = (Code.DATABASE_TIMEOUT, Code.COMMAND_FAILED)
"""What the store says of trouble that may be over in a moment; "already claimed" is not among it."""
RETRY: Final = Retry(first=0.1, longest=5.0)
FIRST: Final = ("close", "ready", "claim")
"""What a dependent waits for, in this order: the end of what it builds on, the look at what is ready, its own
claim."""
LAST: Final = ("heartbeat", "comment")
"""What may be some seconds later: a lease lasts for minutes."""
MOST_PASSED: Final = 8
"""So many later calls that are more urgent by one step go before another one: nobody waits for ever."""


def urgency(name: str) -> int:
    """The smaller, the sooner."""
    if name in FIRST:
        return FIRST.index(name)
    return len(FIRST) + (1 if name in LAST else 0)


@dataclass
class StoreTurns:
    """One call of the store at a time: bd lets no two in, reads included, and knows no order."""

    busy: bool = False
    waiting: list[tuple[int, int, asyncio.Future[None]]] = field(default_factory=list)
    count: int = 0

    async def ask(self, call: Callable[Given, Answer], *args: Given.args, **named: Given.kwargs) -> Answer:
        """The store's answer; passing trouble is waited out, a bounded number of times."""
        name = getattr(call, "__name__", "")
        for pause in RETRY.pauses():
            try:
                async with self.turn(name):
                    return await in_thread(call, *args, **named)
            except RalphError as error:
                if error.code not in PASSING:
                    raise
                LOG.warning("the store failed, and is asked again: %s", error.message)
            await asyncio.sleep(pause)
        async with self.turn(name):
            return await in_thread(call, *args, **named)

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """For a call of that name: the most urgent first, those of the same kind as they came."""
        if self.busy:
            await self._wait(name)
        self.busy = True
        try:
            yield
        finally:
            self._next()

    async def _wait(self, name: str) -> None:
        self.count += 1
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self.waiting, (self.count + MOST_PASSED * urgency(name), self.count, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._next()  # it was our turn already
            raise

    def _next(self) -> None:
        """The turn is handed over: nobody who comes now gets in between."""
        self.busy = False
        while self.waiting:
            mine = heapq.heappop(self.waiting)[2]
            if not mine.done():
                self.busy = True
                mine.set_result(None)
                return

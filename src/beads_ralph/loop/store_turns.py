"""Whose turn it is at the store: what others wait for goes before what can wait."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

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

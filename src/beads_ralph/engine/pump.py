"""What carries a session's words from its host to the coordinator, and the answers back.

It lives in the worker and may be begun anew at any time: the coordinator's side knows how much it has seen,
the session keeps what was not seen, and output lies in files. While nobody can be reached, it waits; the
session and its agents go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from beads_ralph.engine import link
from beads_ralph.engine.order_folder import OrderFolder
from beads_ralph.engine.output_files import GrowingFiles
from beads_ralph.session.pipe import Message, line_of

LOOK_SECONDS: Final = 0.5
MOST_BYTES: Final = 400 * 1024
PACES: Final = ((200, 0.5), (600, 3.0))
"""After so many exchanges, output alone is sent less often: what passes through a server stays in it."""
SLOWEST: Final = 15.0
MOST_ALONE: Final = 1500
"""After so many, output goes along with words and at the end only: a server takes 2,000 in all."""


class Mail(Protocol):
    """The way to the coordinator. It waits as long as that takes."""

    async def standing(self) -> Mapping[str, Any]:
        """What has arrived: `seen`, the last number; `answers`, the last ones; `sent`, by file."""

    async def exchange(self, batch: Message) -> Message:
        """Hand over `frames` and `pieces`; the answers to the questions among them."""


@dataclass
class Pump:
    """One session's."""

    order: OrderFolder
    mail: Mail
    waiting: list[Message] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    growing: GrowingFiles = field(default_factory=GrowingFiles)
    outcome: Message | None = None
    exchanges: int = 0
    seen: int = 0

    async def run(self) -> Message | None:
        """The session's outcome; None where its process died without one."""
        known = await self.mail.standing()
        self.seen, self.growing.sent = known["seen"], dict(known["sent"])
        self.exchanges = known.get("exchanges", 0)
        met = await self._met()
        listening = asyncio.create_task(self._listen(met)) if met else None
        try:
            for answer in known["answers"]:
                self._answer(met, answer)
            while not await self._step(met, over=listening is None or listening.done()):
                pass
        finally:
            if listening is not None:
                listening.cancel()
            if met is not None:
                met.close()
        return self.outcome

    async def _met(self) -> link.Met | None:
        """The session's process, as soon as it listens; None where it has ended."""
        while (met := await link.met(self.order.id, self.seen)) is None:
            if not self.order.is_alive:
                return None
            await asyncio.sleep(0.05)
        return met

    async def _listen(self, met: link.Met) -> None:
        async for message in met.messages():
            self._take(message)

    def _take(self, message: Message) -> None:
        if "outcome" in message:
            self.outcome = message
        else:
            self.waiting.append(message)
        self.news.set()

    async def _step(self, met: link.Met | None, *, over: bool) -> bool:
        """Hand on what there is; True where there will be no more."""
        if over and self.outcome is None:
            for message in link.left_words(self.order.path, self._last):
                self._take(message)
        over = over or self.outcome is not None
        if not self.waiting and not over:
            await self._wait()
        frames = self._next_frames()
        alone = not frames and not over
        pieces = [] if alone and self.exchanges >= MOST_ALONE else self.growing.pieces(self.order.output)
        if frames or pieces:
            self.exchanges += 1
            answers = await self.mail.exchange({"frames": frames, "pieces": pieces})
            self.growing.taken(pieces)
            self.seen = frames[-1]["number"] if frames else self.seen
            for answer in answers["answers"]:
                self._answer(met, answer)
            if met is not None:
                met.send({"seen": self.seen})
            return False
        if over and not self.waiting and self.outcome is not None and met is not None:
            met.send({"seen": self.outcome["number"]})
        return over

    @property
    def _last(self) -> int:
        return self.waiting[-1]["number"] if self.waiting else self.seen

    async def _wait(self) -> None:
        """For a word; output alone is looked for now and then."""
        pace = next((seconds for most, seconds in PACES if self.exchanges < most), SLOWEST)
        self.news.clear()
        try:
            await asyncio.wait_for(self.news.wait(), pace)
        except TimeoutError:
            return

    def _next_frames(self) -> list[Message]:
        room, frames = MOST_BYTES, list[Message]()
        while self.waiting and (not frames or room > 0):
            frames.append(self.waiting.pop(0))
            room -= len(line_of(frames[-1]))
        return frames

    @staticmethod
    def _answer(met: link.Met | None, answer: Message) -> None:
        if met is not None:
            met.send(answer)

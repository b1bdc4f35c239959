"""The live feed: one reader of the model for all browsers, and what changed since each of them looked.

A browser has a place in a short row of changes, no queue of its own: one that is slow or gone costs nothing,
and one that fell behind the row gets the whole state again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

State: TypeAlias = dict[str, Any]
Look: TypeAlias = Callable[[], Mapping[str, Any]]
"""The whole state now, as JSON; its `beads` are a list of objects with an `id`."""

KEPT: Final = 200
LOOK_SECONDS: Final = 0.5
ALIVE_SECONDS: Final = 15.0
RETRY_MILLISECONDS: Final = 1000


@dataclass(frozen=True)
class Change:
    """What is new since the change before it, ready to be sent."""

    number: int
    frame: bytes


@dataclass
class Feed:
    """Holds the state as it was last looked at, and the last changes of it."""

    look: Look
    every: float = LOOK_SECONDS
    life: str = field(default_factory=lambda: secrets.token_hex(4))
    """Tells this server's numbers from those of one before it."""
    state: State = field(default_factory=dict)
    number: int = 0
    watchers: int = 0
    trouble: str = ""
    _changes: deque[Change] = field(default_factory=lambda: deque(maxlen=KEPT))
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the next change, and then another takes its place."""
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ended: bool = False

    # --- reading the model ----------------------------------------------------------------------------

    async def refresh(self) -> State:
        """Look once, beside the loop; all who ask at the same time share the answer."""
        async with self._looking:
            seen = dict(await asyncio.to_thread(self.look))
            change = changed(self.state, seen)
            if change:
                self.number += 1
                self.state = seen
                self._changes.append(Change(self.number, self._frame("change", self.number, change)))
                self._tell()
            return self.state

    async def follow(self) -> None:
        """Look again and again while anybody watches."""
        while not self._ended:
            if self.watchers:
                await self._try()
            await asyncio.sleep(self.every)

    async def _try(self) -> None:
        """A store that cannot be read now must not end the board: it is said, and tried again."""
        try:
            await self.refresh()
            self.trouble = ""
        except Exception as problem:  # noqa: BLE001 - whatever it is, the next look may succeed
            self.trouble = str(problem)

    async def end(self) -> None:
        self._ended = True
        self._tell()

    def _tell(self) -> None:
        told, self._news = self._news, asyncio.Event()
        told.set()

    # --- telling browsers -----------------------------------------------------------------------------

    async def frames(self, last_seen: str = "") -> AsyncGenerator[bytes, None]:
        """Server-sent events for one browser, from what it saw last."""
        self.watchers += 1
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
            await self._try()
            at = self._place(last_seen)
            while not self._ended:
                frames, at = self._since(at), self.number  # before a yield: meanwhile more may come
                for frame in frames:
                    yield frame
                if not await self._wait(at):
                    yield b": still here\n\n"
        finally:
            self.watchers -= 1

    def _place(self, last_seen: str) -> int:
        """The number that a browser has seen of this server; -1 where it has seen none."""
        life, _, number = last_seen.partition("-")
        known = life == self.life and number.isascii() and number.isdigit()
        return min(int(number), self.number) if known else -1

    def _since(self, at: int) -> list[bytes]:
        """The changes after that number, or the whole state where they are not all kept."""
        new = [change for change in self._changes if change.number > at]
        if at >= 0 and len(new) == self.number - at:
            return [change.frame for change in new]
        return [self._frame("state", self.number, self.state)]

    async def _wait(self, at: int) -> bool:
        """Until there is something after that number; false where nothing came for a while."""
        if self.number > at or self._ended:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), ALIVE_SECONDS)
            return True
        return False

    def _frame(self, kind: str, number: int, data: Mapping[str, Any]) -> bytes:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        return f"id: {self.life}-{number}\nevent: {kind}\ndata: {text}\n\n".encode(
            "utf-8", "backslashreplace"
        )


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> State:
    """What a browser must be told: the beads that are new or other, the ids of those that are gone, and every
    other key that differs, whole."""
    old = {bead["id"]: bead for bead in before.get("beads", ())}
    new = {bead["id"]: bead for bead in now.get("beads", ())}
    told: State = {
        key: value
        for key, value in now.items()
        if key != "beads" and (key not in before or value != before[key])
    }
    other = [bead for name, bead in new.items() if old.get(name) is not bead and old.get(name) != bead]
    if other:
        told["beads"] = other
    if gone := [name for name in old if name not in new]:
        told["gone"] = gone
    if "beads" in now and list(old) != list(new):
        told["order"] = list(new)
    if now and not before:
        told.setdefault("beads", [])
    return told

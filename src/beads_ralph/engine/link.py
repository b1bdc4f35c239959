"""The line between a session's process and the worker that started it, which may die and come back.

The session listens at a socket. Whatever it says has a number, and is kept until the worker has handed it
on: a worker that comes later asks for what it has not seen. Nobody listening is no reason to end: only the
word `cancel` is.

    to the session    {"after": 7}   {"seen": 9}   {"id": 3, "answer": …}   {"cancel": true}
    from the session  {"number": 8, "event": …}   …
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.session.pipe import LONGEST_LINE, Message, line_of

REST: Final = "rest.jsonl"
"""What a session that has ended had to say still."""
HAND_OVER_SECONDS: Final = 60.0
"""So long a session that has ended waits for a worker; then it leaves what it has to say in a file."""


def socket_of(order_id: str) -> Path:
    """A short name, since the kernel takes no long one."""
    folder = Path(tempfile.gettempdir()) / f"beads-ralph-orders-{os.getuid()}"
    folder.mkdir(0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise RalphError(
            Code.PERMISSION_DENIED, f"{folder} is open to others", suggested_action=f"Remove {folder}"
        )
    return folder / order_id


# --- the side of the session --------------------------------------------------------------------------


@dataclass
class LastingLine:
    """What a session says, numbered; kept until it was handed on."""

    unseen: deque[Message] = field(default_factory=deque)
    number: int = 0
    heard: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    writer: asyncio.StreamWriter | None = None
    handed_on: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, message: Message) -> None:
        self.number += 1
        self.handed_on.clear()
        said = {"number": self.number, **message}
        self.unseen.append(said)
        self._write(said)

    async def messages(self) -> AsyncIterator[Message]:
        while True:
            yield await self.heard.get()

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a worker until it hangs up; the newest one is the one that is told."""
        with suppress(OSError, ValueError):
            while (line := await reader.readline()).endswith(b"\n"):
                self._hear(json.loads(line), writer)
        if self.writer is writer:
            self.writer = None
        writer.close()

    def _hear(self, message: Message, writer: asyncio.StreamWriter) -> None:
        if "after" in message:
            self._forget(message["after"])
            self.writer = writer
            for said in self.unseen:
                self._write(said)
        elif "seen" in message:
            self._forget(message["seen"])
        elif "cancel" in message:
            self.cancelled.set()
        else:
            self.heard.put_nowait(message)

    def _forget(self, number: int) -> None:
        while self.unseen and self.unseen[0]["number"] <= number:
            self.unseen.popleft()
        if not self.unseen:
            self.handed_on.set()

    def _write(self, message: Message) -> None:
        if self.writer is not None:
            with suppress(OSError, RuntimeError):
                self.writer.write(line_of(message))

    async def hand_over(self, folder: Path, patience: float = HAND_OVER_SECONDS) -> None:
        """Until all of it was handed on; what was not by then is left in the order's folder."""
        if self.unseen:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.handed_on.wait(), patience)
        if self.unseen:
            text_files.write_text(folder / REST, b"".join(map(line_of, self.unseen)).decode())


# --- the side of the worker ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Met:
    """A session's process, spoken to."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, message: Message) -> None:
        with suppress(OSError, RuntimeError):
            self.writer.write(line_of(message))

    async def messages(self) -> AsyncIterator[Message]:
        """Until its process ends."""
        with suppress(ConnectionError):
            while (line := await self.reader.readline()).endswith(b"\n"):
                yield json.loads(line)

    def close(self) -> None:
        self.writer.close()


async def met(order_id: str, after: int) -> Met | None:
    """The session of an order, asked for what it said after that number; None where it is not there (yet)."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket_of(order_id), limit=LONGEST_LINE)
    except OSError:
        return None
    found = Met(reader, writer)
    found.send({"after": after})
    return found


def left_words(folder: Path, after: int) -> list[Message]:
    """What a session that has ended left in its folder."""
    try:
        lines = (folder / REST).read_text("utf-8").splitlines(keepends=True)
    except OSError:
        return []
    said = [json.loads(line) for line in lines if line.endswith("\n")]
    return [message for message in said if message["number"] > after]

"""The journal: past-tense facts, one writer, append-only JSON lines; every view only reads it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol, TypeAlias

from beads_ralph.bead.redaction import redacted
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files

if TYPE_CHECKING:
    from beads_ralph.journal.events import Event

NAME: Final = "events.jsonl"
POLL_SECONDS: Final = 0.2

Listener: TypeAlias = "Callable[[Event], None]"


class EventSink(Protocol):
    """Whoever is told what happened."""

    def emit(self, event: Event) -> None:
        """Take the event; it is out of the caller's hands when this returns."""


class Journal:
    """Writes events. Each is out of our hands before `emit` returns, so that killing us loses none. What
    changes a bead or the run is on the disk by then, whatever becomes of the machine."""

    def __init__(self, path: Path, run_id: str) -> None:
        self.path = path
        self.run_id = run_id
        self.listeners: list[Listener] = []
        text_files.make_folder(path.parent)
        descriptor = text_files.open_private(path, os.O_WRONLY | os.O_APPEND)
        self._file: IO[bytes] = os.fdopen(descriptor, "ab", buffering=0)

    def emit(self, event: Event) -> None:
        told: Event = redacted(replace(event, at=event.at or now(), run_id=event.run_id or self.run_id))
        line = json.dumps(told.to_json(), ensure_ascii=False, default=str) + "\n"
        self._write(line, sync=not told.underway)
        for listener in self.listeners:
            listener(told)

    def _write(self, line: str, *, sync: bool) -> None:
        file = self._file.fileno()
        before = os.fstat(file).st_size
        try:
            data = line.encode("utf-8", "backslashreplace")
            while data:
                data = data[os.write(file, data) :]
            if sync:
                os.fsync(file)
        except OSError as problem:  # above all a full disk: what cannot be noted down is not done
            with suppress(OSError):  # half a line would spoil the next one
                os.ftruncate(file, before)
            message = f"cannot write {self.path}: {problem.strerror or problem}"
            raise RalphError(Code.WRITE_FAILED, message) from None

    def close(self) -> None:
        with suppress(OSError):  # what could not be written has been said already
            self._file.close()


def now() -> str:
    return moment_text(datetime.now(UTC))


def moment_text(moment: datetime) -> str:
    """To the millisecond, in UTC."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read(path: Path) -> Iterator[Event]:
    """Every whole line of a journal; a last line cut off by a crash is left out."""
    return follow(path, lambda: True)


def follow(path: Path, ended: Callable[[], bool]) -> Iterator[Event]:
    """The journal from its start, then as it grows, until `ended` says that nobody writes any more."""
    position = 0
    while True:
        last_look = ended()  # asked first: what was written before the end is still read
        if path.exists():
            with path.open("rb") as file:
                file.seek(position)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    position += len(line)
                    event = parsed(line.decode("utf-8", "replace"))
                    if event is not None:
                        yield event
        if last_look:
            return
        time.sleep(POLL_SECONDS)


def parsed(line: str) -> Event | None:
    """The event of a whole line; None for anything else."""
    from beads_ralph.journal.events import event_of  # here, since many only ask whether there is a run

    try:
        row = json.loads(line) if line.endswith("\n") else None
        return event_of(row) if isinstance(row, dict) else None
    except (ValueError, RecursionError):
        return None

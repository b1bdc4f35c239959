"""The journal: past-tense facts, one writer, append-only JSON lines; every view only reads it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol

from beads_ralph.errors import Code, RalphError

Kind = Literal[
    "run_started",
    "strays_ended",
    "attempt_interrupted",
    "bead_claimed",
    "worktree_prepared",
    "lease_taken",
    "baseline_taken",
    "agent_started",
    "agent_ended",
    "verifier_ended",
    "verdict_given",
    "conflict_foreseen",
    "pull_request_opened",
    "bead_closed",
    "bead_blocked",
    "bead_released",
    "bead_parked",
    "program_unavailable",
    "program_replaced",
    "program_recovered",
    "parallelism_changed",
    "gate_checked",
    "gates_overridden",
    "gate_passed",
    "items_settled",
    "run_waiting",
    "run_paused",
    "run_resumed",
    "run_draining",
    "run_ended",
    "warning_given",
]

NAME: Final = "events.jsonl"
POLL_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Event:
    """One thing that happened."""

    kind: Kind
    at: str
    run_id: str
    bead: str | None = None
    team: str | None = None
    attempt: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)
    """What listeners hear and the journal does not keep, being too long for a line of it."""

    @classmethod
    def now(
        cls,
        kind: Kind,
        run_id: str,
        bead: str | None = None,
        team: str | None = None,
        attempt: int | None = None,
        *,
        beside: Mapping[str, Any] | None = None,
        **data: Any,
    ) -> Event:
        return cls(kind, _now(), run_id, bead, team, attempt, data, beside or {})

    def to_json(self) -> dict[str, Any]:
        row = {"kind": self.kind, "at": self.at, "run_id": self.run_id}
        named = {"bead": self.bead, "team": self.team, "attempt": self.attempt}
        return {**row, **{key: value for key, value in named.items() if value is not None}, **self.data}


def event_of(row: Mapping[str, Any]) -> Event:
    """A line of the journal, read back; keys of its own go into `data`."""
    known = {"kind", "at", "run_id", "bead", "team", "attempt"}
    data = {key: value for key, value in row.items() if key not in known}
    return Event(
        row["kind"], row["at"], row["run_id"], row.get("bead"), row.get("team"), row.get("attempt"), data
    )


Listener = Callable[[Event], None]


class EventSink(Protocol):
    """Whoever is told what happened."""

    def emit(self, event: Event) -> None:
        """Take the event; it is out of the caller's hands when this returns."""


UNDERWAY: Final[frozenset[Kind]] = frozenset(
    {
        "worktree_prepared",
        "baseline_taken",
        "agent_started",
        "agent_ended",
        "verifier_ended",
        "conflict_foreseen",
    }
)
"""What goes on between two changes of a bead; the next change takes it to the disk with it."""


class Journal:
    """Writes events. Each is out of our hands before `tell` returns, so that killing us loses none. What
    changes a bead or the run is on the disk by then, whatever becomes of the machine."""

    def __init__(self, path: Path, run_id: str) -> None:
        self.path = path
        self.run_id = run_id
        self.listeners: list[Listener] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a", encoding="utf-8", errors="backslashreplace")

    def tell(
        self,
        kind: Kind,
        bead: str | None = None,
        team: str | None = None,
        attempt: int | None = None,
        *,
        beside: Mapping[str, Any] | None = None,
        **data: Any,
    ) -> Event:
        event = Event.now(kind, self.run_id, bead, team, attempt, beside=beside, **data)
        self.emit(event)
        return event

    def emit(self, event: Event) -> None:
        line = json.dumps(event.to_json(), ensure_ascii=False, default=str) + "\n"
        self._write(line, sync=event.kind not in UNDERWAY)
        for listener in self.listeners:
            listener(event)

    def _write(self, line: str, *, sync: bool) -> None:
        try:
            self._file.write(line)
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError as problem:  # above all a full disk: what cannot be noted down is not done
            message = f"cannot write {self.path}: {problem.strerror or problem}"
            raise RalphError(Code.WRITE_FAILED, message) from None

    def close(self) -> None:
        with suppress(OSError):  # what could not be written has been said already
            self._file.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read(path: Path) -> Iterator[Event]:
    """Every whole line of a journal; a last line cut off by a crash is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            event = _parsed(line)
            if event is not None:
                yield event


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
                    event = _parsed(line.decode("utf-8", "replace"))
                    if event is not None:
                        yield event
        if last_look:
            return
        time.sleep(POLL_SECONDS)


def _parsed(line: str) -> Event | None:
    try:
        return event_of(json.loads(line)) if line.endswith("\n") else None
    except (ValueError, KeyError, TypeError):
        return None

"""An order at work on a host: its ticket, the process of its session, and where that keeps its output.

All of it lies in a folder, so that a worker that was killed finds its sessions again and goes on with them.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from beads_ralph.engine import link
from beads_ralph.errors import RalphError
from beads_ralph.files import text_files
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Job
from beads_ralph.process.process_table import read_process, start_of
from beads_ralph.process.process_tree import Family
from beads_ralph.process.supervise import ended_whole
from beads_ralph.session.order import ORDER, Order

TICKET: Final = "ticket.json"
PROCESS: Final = "process.json"
PLACE: Final = "place"
"""Holds the name of the folder that the session's output goes to."""
LOG: Final = "log"
COMMAND: Final = (sys.executable, "-m", "beads_ralph.cli.session_worker", "--order")
GRACE: Final = 10.0


def packed(order: Order) -> str:
    """An order as a short text."""
    return base64.b64encode(gzip.compress(json.dumps(order.to_json()).encode(), 6)).decode()


def unpacked(text: str) -> Order:
    return Order.from_json(json.loads(gzip.decompress(base64.b64decode(text))))


@dataclass
class OrderFolder:
    """One order on this host."""

    path: Path
    child: jobs.Started | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def ticket(self) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = _read(self.path / TICKET)
        return found

    @property
    def output(self) -> Path | None:
        """The folder that the session's output goes to, once it is known."""
        try:
            return Path((self.path / PLACE).read_text("utf-8").strip())
        except OSError:
            return None

    def begin(self, ticket: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> None:
        """Start the session. It does not end with us."""
        text_files.make_folder(self.path)
        text_files.write_text(self.path / TICKET, json.dumps(ticket))
        inherited = dict(os.environ if environment is None else environment)
        job = Job(
            (*COMMAND, str(self.path)), self.path, {**inherited, ORDER: self.id}, name=f"session-{self.id}"
        )
        with (self.path / LOG).open("ab") as log:
            self.child = jobs.start(job, jobs.DEVNULL, log, log)
        said = {"pid": self.child.pid, "start": start_of(self.child.pid)}
        try:
            text_files.write_text(self.path / PROCESS, json.dumps(said))
        except RalphError:  # as on a full disk: nobody would ever find it again
            Family(f"{ORDER}={self.id}", leader=self.child.pid).kill_now()
            jobs.reap(self.child)
            raise

    @property
    def process(self) -> Mapping[str, int]:
        return _read(self.path / PROCESS) or {}

    @property
    def is_alive(self) -> bool:
        if self.child is not None:
            return self.child.poll() is None
        now = read_process(self.process.get("pid", 0))
        return now is not None and now.started == self.process.get("start")

    async def end(self, grace: float = GRACE) -> None:
        """End the session with everything that works for it."""
        if self.is_alive and (met := await link.met(self.id, 0)):
            met.send({"cancel": True})
            await _until(lambda: not self.is_alive, grace)
            met.close()
        leader = self.process.get("pid", 0) if self.is_alive else 0
        async with ended_whole(Family(f"{ORDER}={self.id}", leader=leader), 0.0):
            pass
        if self.child is not None:
            jobs.reap(self.child)

    @property
    def last_words(self) -> str:
        """The end of what its process printed, for people."""
        try:
            lines = (self.path / LOG).read_text("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1] if lines else ""

    def remove(self) -> None:
        link.socket_of(self.id).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


async def _until(true: Any, seconds: float) -> None:
    until = asyncio.get_running_loop().time() + seconds
    while not true() and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.05)


def at_work(home: Path) -> Sequence[OrderFolder]:
    """The orders that this host has, whoever began them."""
    place = home / "orders"
    found = sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    return [OrderFolder(path) for path in found]


def folder_of(home: Path, order_id: str) -> OrderFolder:
    return OrderFolder(home / "orders" / order_id)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None

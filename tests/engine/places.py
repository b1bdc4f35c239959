"""A session in a process of its own, as a worker starts it, with a desk in this process and no server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beads_ralph import forge
from beads_ralph.engine import fence
from beads_ralph.engine.desk import FrontDesk, Seat
from beads_ralph.engine.order_folder import OrderFolder, folder_of, packed
from beads_ralph.engine.output_files import Mirror
from beads_ralph.engine.pump import Pump
from beads_ralph.errors import RalphError
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.git import settings
from beads_ralph.journal.runs import RunFolder
from beads_ralph.session import Order, Outcome, SessionHost
from beads_ralph.session.pipe import Message


@dataclass
class DirectMail:
    """Hands batches to the desk at once, and remembers what a workflow would."""

    desk: FrontDesk
    order_id: str
    known: dict[str, Any] = field(default_factory=lambda: {"seen": 0, "answers": [], "sent": {}})
    batches: list[Message] = field(default_factory=list)

    async def standing(self) -> Mapping[str, Any]:
        return self.known

    async def exchange(self, batch: Message) -> Message:
        self.batches.append(batch)
        said = await self.desk.take(self.order_id, "elsewhere", batch)
        self.known["seen"] = max([self.known["seen"], *(one["number"] for one in batch["frames"])])
        self.known["answers"] = said["answers"]
        self.known["sent"] |= {piece["file"]: piece["end"] for piece in batch["pieces"]}
        return said


@dataclass
class Elsewhere:
    """Runs sessions as a worker does; a `RunSession`."""

    home: Path
    root: Path
    desk: FrontDesk = field(default_factory=FrontDesk)
    orders: list[OrderFolder] = field(default_factory=list)
    mails: list[DirectMail] = field(default_factory=list)

    async def __call__(self, order: Order, host: SessionHost) -> Outcome:
        remote = order.remote or ""
        settings.take(self.root)
        with suppress(RalphError):  # the session will say so
            await asyncio.to_thread(fence.raise_anew, self.root, remote, order.bead.id, order.id, {})
        mirror = Mirror(RunFolder(ralph_dir(self.root), order.run_id), order.bead.id)
        chosen = forge.choose("local", self.root)
        self.desk.seats[order.id] = Seat(order, host, mirror, self.root, chosen)
        place, mail = folder_of(self.home, order.id), DirectMail(self.desk, order.id)
        self.orders.append(place)
        self.mails.append(mail)
        place.begin({"order": packed(order)})
        try:
            said = await Pump(place, mail).run()
        finally:
            await place.end()
        if said is None:
            return Outcome("lost", place.last_words)
        if "refused" in said["outcome"]:
            return Outcome("broken", said["outcome"]["refused"])
        return Outcome.from_json(said["outcome"])

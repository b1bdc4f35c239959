"""The coordinator's side: every session on another machine has a place here, and its words come in.

Here, and nowhere else, events go to the journal, state to the store and pull requests to the forge. So
budgets, limits and orders to pause hold over all hosts, as they do for sessions in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from beads_ralph.engine import fence
from beads_ralph.engine.output_files import Mirror
from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.protocol import Forge, Proposal, PullRequest
from beads_ralph.git import commands, guard, proofs, ref_changes
from beads_ralph.git.git_files import HEADS
from beads_ralph.journal.events import AgentEnded, AgentStarted, Event, WorktreePrepared
from beads_ralph.process.calls import in_thread
from beads_ralph.session.order import Order, SessionHost
from beads_ralph.session.pipe import Message, answer_to, noted, told_event
from beads_ralph.session.worktree import ref_word

ORIGIN_NAME: Final = "origin"


class NotHereError(Exception):
    """Nobody here has asked for this session (yet)."""


@dataclass
class Seat:
    """One session's place."""

    order: Order
    host: SessionHost
    mirror: Mirror
    root: Path
    forge: Forge
    seen: int = 0
    where: str = ""
    problem: str = ""
    """Why its words cannot be noted down: then it is ended."""
    ended: asyncio.Future[Message] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    answers: list[Message] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """Every other question is the host's to answer."""
        return getattr(self.host, name)

    async def take(self, batch: Message) -> Message:
        """Note down what a host sent, once, and answer."""
        async with self.turn:
            fresh = [frame for frame in batch["frames"] if frame["number"] > self.seen]
            if not fresh and batch["frames"]:
                return {"answers": self.answers}  # its answer was lost on the way
            for piece in batch["pieces"]:
                await in_thread(self.mirror.write, piece)
            self.answers = [answer for frame in fresh if (answer := await self._heard(frame))]
            self.seen = fresh[-1]["number"] if fresh else self.seen
            return {"answers": self.answers}

    async def _heard(self, frame: Message) -> Message | None:
        if "ask" in frame:
            return await answer_to(frame, self)
        if "event" in frame:
            self.problem = self.problem or noted(self.host, self._placed(told_event(frame)))
        return None

    def _placed(self, event: Event) -> Event:
        """With the host's name, and paths of ours instead of its own."""
        if isinstance(event, WorktreePrepared):
            return replace(event, host=self.where)
        if isinstance(event, AgentStarted | AgentEnded) and event.call.transcript:
            path = str(self.mirror.path_of(Path(event.call.transcript).name))
            return replace(event, call=replace(event.call, transcript=path))
        return event

    # --- what only sessions elsewhere ask for -------------------------------------------------------

    async def propose(self, proposal: Proposal) -> PullRequest:
        """Have the branch here as it is on the remote, and propose it: the token must still be in force."""
        await in_thread(self._fetch, proposal)
        return await in_thread(self.forge.propose, proposal)

    def _fetch(self, proposal: Proposal) -> None:
        remote, bead = self.order.remote or ORIGIN_NAME, self.order.bead.id
        branch, ref = f"{HEADS}{proposal.branch}", fence.fence_ref(bead)
        there = fence.refs_at(self.root, remote, branch, ref)
        if there.get(branch) != proposal.commit:
            held = there.get(branch, "nothing")
            raise RalphError(
                Code.FORGE_FAILED, f"{remote} has {proposal.branch} at {held}, not {proposal.commit}"
            )
        if ref not in there or fence.token_at(self.root, remote, there[ref], branch) != self.order.id:
            raise RalphError(Code.CONFLICT, f"{bead} was given to another host; nothing is proposed")
        here = commands.commit_of(branch, self.root)
        if here is not None and not commands.contains(self.root, proposal.commit, here):
            guard.keep_moved(self.root, branch, here)
        guard.expect(self.root, {branch: proposal.commit})
        ref_changes.move(self.root, branch, proposal.commit)
        place = proofs.at(self.root)
        place.bring([proposal.commit])
        place.note_proven(ref_word(bead), proposal.commit)


@dataclass
class FrontDesk:
    """All sessions that this coordinator has elsewhere, by the id of their order."""

    seats: dict[str, Seat] = field(default_factory=dict)

    async def take(self, order_id: str, where: str, batch: Message) -> Message:
        seat = self._seat(order_id)
        seat.where = where
        return await seat.take(batch)

    def end(self, order_id: str, result: Mapping[str, Any]) -> None:
        seat = self._seat(order_id)
        if not seat.ended.done():
            seat.ended.set_result(result)

    def _seat(self, order_id: str) -> Seat:
        if order_id not in self.seats:
            raise NotHereError(f"order {order_id} is not served here")
        return self.seats[order_id]

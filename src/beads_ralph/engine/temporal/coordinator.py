"""The loop's sessions, sent to hosts through Temporal: what starts them, hears them and takes their ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from beads_ralph import __version__
from beads_ralph.agents import players
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import RunState, ScrumResult
from beads_ralph.bead.words import plural
from beads_ralph.engine import fence
from beads_ralph.engine.desk import FrontDesk, Seat
from beads_ralph.engine.order_folder import packed
from beads_ralph.engine.output_files import Mirror
from beads_ralph.engine.temporal import workflow
from beads_ralph.engine.temporal.connection import connected
from beads_ralph.engine.temporal.lease import TYPE, Lease
from beads_ralph.engine.temporal.queues import queue_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.git.git_files import HEADS
from beads_ralph.journal import runs
from beads_ralph.journal.events import BeadBlocked, BeadClosed, BeadParked, BeadReleased, Event, WarningGiven
from beads_ralph.journal.journal import Journal
from beads_ralph.process.calls import in_thread
from beads_ralph.session.order import Order, Outcome, SessionHost, Tools
from beads_ralph.session.worktree import start_ref

PREFIX: Final = "beads-ralph"
CANCEL_SECONDS: Final = 60.0
ASK_AGAIN: Final = 1.0
MOST_LOSSES: Final = 3
"""So often the host of a bead may be lost in one run; then it is blocked, for a person to look."""
ENDS: Final = (BeadClosed, BeadBlocked, BeadParked, BeadReleased)
BIGGEST: Final = 1024 * 1024


@dataclass
class TemporalSessions:
    """Runs every session on whichever host takes it. A `RunSession`, open while the loop runs."""

    tools: Tools
    remote: str
    """The address that hosts clone from."""
    desk: FrontDesk = field(default_factory=FrontDesk)
    known: set[str] = field(default_factory=set)
    """Beads whose session goes on from an earlier coordinator."""
    unsettled: dict[str, WorkflowHandle[Any, Any]] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    chores: set[asyncio.Task[None]] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    lease: Lease | None = None
    _client: Client | None = None

    @property
    def project(self) -> str:
        return self.tools.config.temporal.project or hashlib.sha256(self.remote.encode()).hexdigest()[:12]

    @property
    def queue(self) -> str:
        """Where workflows of this project run: at its coordinator."""
        return f"{PREFIX}-coordinator-{self.project}"

    @property
    def client(self) -> Client:
        assert self._client is not None  # noqa: S101 - for the type checker
        return self._client

    # --- while the loop runs ------------------------------------------------------------------------

    @asynccontextmanager
    async def opened(self, journal: Journal) -> AsyncIterator[None]:
        """Serve the sessions of this project; what could not be tidied on the way is tidied at the end."""
        self._client = await connected(self.tools.config.temporal)
        worker = Worker(
            self.client,
            task_queue=self.queue,
            workflows=[workflow.BeadWorkflow],
            activities=[self._deliver, self._end],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        root, run_id = self.tools.root, journal.run_id
        who = (runs.actor_name(root, run_id), runs.actor_prefix(root))
        self.lease = Lease(self.client, f"{PREFIX}/{self.project}/{TYPE}", *who)
        journal.listeners.append(self._hear)
        async with self.lease.held(), worker:
            try:
                yield
            finally:
                journal.listeners.remove(self._hear)
                await asyncio.gather(*self.chores)
                await in_thread(self._tidy)

    async def elsewhere(self, beads: Sequence[Bead]) -> Collection[str]:
        """The beads at work whose session goes on. A session whose end the store has is ended for good."""
        at_work = {bead.id for bead in beads if bead.status == "in_progress"}
        self.closed |= {bead.id for bead in beads if bead.status == "closed"}  # by a run that was killed, too
        start = f"{PREFIX}/{self.project}/"
        asked = f'WorkflowType = "{workflow.NAME}" AND ExecutionStatus = "Running"'
        found = [row.id async for row in self.client.list_workflows(asked) if row.id.startswith(start)]
        self.known = {name for row in found if (name := row.removeprefix(start)) in at_work}
        for row in found:
            if row.removeprefix(start) not in self.known:
                await _quietly(self.client.get_workflow_handle(row).terminate("its bead is settled"))
        return self.known

    def _hear(self, event: Event) -> None:
        """The store has the end of a bead's session: its workflow may end, too."""
        if isinstance(event, ENDS) and event.bead and (handle := self.unsettled.pop(event.bead, None)):
            self._do(_quietly(handle.signal(workflow.BeadWorkflow.settle)))
        if isinstance(event, BeadClosed) and event.bead:
            self.closed.add(event.bead)

    def _do(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(chore)
        self.chores.add(task)
        task.add_done_callback(self.chores.discard)

    def _tidy(self) -> None:
        """Closed beads need no fence, and nobody goes on where their work began."""
        refs = {ref for bead in self.closed for ref in (fence.fence_ref(bead), start_ref(bead))}
        with suppress(RalphError):
            if refs:
                there = fence.ours_at(self.tools.root, self.remote)
                done = {ref: commit for ref, commit in there.items() if ref in refs}
                fence.remove(self.tools.root, self.remote, done)

    # --- what the workflows ask for -----------------------------------------------------------------

    @activity.defn(name=workflow.DELIVER)
    async def _deliver(self, order_id: str, where: str, batch: dict[str, Any]) -> dict[str, Any]:
        return dict(await self.desk.take(order_id, where, batch))

    @activity.defn(name=workflow.END)
    async def _end(self, order_id: str, result: dict[str, Any]) -> None:
        self.desk.end(order_id, result)

    # --- one session --------------------------------------------------------------------------------

    async def __call__(self, order: Order, host: SessionHost) -> Outcome:
        if self.lease is not None and self.lease.lost:
            return Outcome("broken", "another run coordinates this project by now")
        try:
            handle, order = await self._begun(replace(order, remote=self.remote), host)
        except RalphError as error:
            return Outcome("broken", _why(error))
        mirror = Mirror(self.tools.folder, order.bead.id)
        seat = Seat(order, host, mirror, self.tools.root, self.tools.forge)
        self.desk.seats[order.id] = seat
        try:
            result = await self._result(handle, seat)
        except asyncio.CancelledError:
            await self._cancel(handle)
            raise
        finally:
            del self.desk.seats[order.id]
        if seat.problem:
            await self._cancel(handle)
            return Outcome("broken", seat.problem)
        self.unsettled[order.bead.id] = handle
        return self._outcome(order, result)

    async def _begun(self, order: Order, host: SessionHost) -> tuple[WorkflowHandle[Any, Any], Order]:
        """A workflow for the order; where the one of an earlier coordinator goes on, that one."""
        name = f"{PREFIX}/{self.project}/{order.bead.id}"
        if order.bead.id in self.known:
            self.known.discard(order.bead.id)
            handle = self.client.get_workflow_handle(name)
            if (token := await self._token_of(handle)) is not None:
                return handle, replace(order, id=token)
        await in_thread(self._share, order)
        while True:
            try:
                return await self._started(order, name), order
            except RPCError as problem:
                if problem.status not in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED):
                    raise RalphError(Code.UNAVAILABLE, f"the Temporal server refuses: {problem}") from None
                said = f"the Temporal server cannot be reached; it is asked again: {problem.message}"
                host.emit(WarningGiven(bead=order.bead.id, message=said))
            await asyncio.sleep(ASK_AGAIN)

    async def _started(self, order: Order, name: str) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(
            workflow.BeadWorkflow.run,
            self._ticket(order),
            id=name,
            task_queue=self.queue,
            memo={"order": order.id},
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
        )

    async def _token_of(self, handle: WorkflowHandle[Any, Any]) -> str | None:
        """The order that a running workflow is for."""
        with suppress(RPCError):
            found = await handle.describe()
            if found.status == WorkflowExecutionStatus.RUNNING:
                return str(await found.memo_value("order"))
        return None

    def _ticket(self, order: Order) -> dict[str, Any]:
        config = self.tools.config
        text = packed(order)
        if len(text) > BIGGEST:
            raise RalphError(Code.TOO_LARGE, f"the order of {order.bead.id} is too large to be sent")
        return {
            "id": order.id,
            "bead": order.bead.id,
            "order": text,
            "queue": queue_of(config.temporal.task_queue, order.bead),
            "beat": config.temporal.heartbeat_timeout,
            "version": __version__,
            "programs": [_programs(agent) for agent in players.of_bead(order.bead, self.tools)],
            "variables": sorted(name for name in config.agent_env if name in os.environ),
        }

    def _share(self, order: Order) -> None:
        """Have on the remote what the work builds on, and a fence of its own around it."""
        root, bead = self.tools.root, order.bead
        proven = {
            f"{HEADS}{branch}": commits[-1] for branch, commits in order.proven_commits.items() if commits
        }
        own = f"{HEADS}{bead.metadata.branch}"
        if (here := commands.commit_of(own, root)) is not None:
            proven[own] = here
        there = fence.refs_at(root, self.remote, *proven)
        missing = {ref: commit for ref, commit in proven.items() if ref not in there}
        fence.raise_anew(root, self.remote, bead.id, order.id, missing)

    async def _result(self, handle: WorkflowHandle[Any, Any], seat: Seat) -> Mapping[str, Any]:
        """What the workflow says in the end; one that somebody ended on the server says nothing."""
        over = asyncio.create_task(_over(handle))
        try:
            while not seat.ended.done() and not over.done() and not seat.problem:
                both: set[asyncio.Future[Any]] = {seat.ended, over}
                await asyncio.wait(both, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            if seat.ended.done():
                return seat.ended.result()
            return {"lost": over.result() if over.done() else ""}
        finally:
            over.cancel()

    async def _cancel(self, handle: WorkflowHandle[Any, Any]) -> None:
        """Have the session ended, wherever it is; a host out of reach ends it when it hears of it."""
        with suppress(RPCError, TimeoutError, WorkflowFailureError):
            await handle.cancel(rpc_timeout=timedelta(seconds=10))
            await asyncio.wait_for(handle.result(), CANCEL_SECONDS)

    def _outcome(self, order: Order, result: Mapping[str, Any]) -> Outcome:
        if "outcome" in result:
            return Outcome.from_json(result["outcome"])
        if "refused" in result:
            return _blocked(order, f"no host takes it: {'; '.join(dict.fromkeys(result['refused']))}")
        count = self.losses.get(order.bead.id, 0) + bool(result.get("begun"))
        self.losses[order.bead.id] = count
        reason = f"its host was lost: {result['lost']}"
        if count < MOST_LOSSES:
            return Outcome("lost", reason)
        return _blocked(order, f"{reason}, and {plural(count - 1, 'other')} before it in this run")


def _blocked(order: Order, why: str) -> Outcome:
    """Something about this bead needs a person; all others go on."""
    bead = order.bead
    reason = f"{why}; see to it, then: beads-ralph retry {bead.id}"
    attempts = bead.metadata.attempt_count
    said = ScrumResult.made(bead_id=bead.id, success=False, attempt_count=attempts, error=reason, fatal=False)
    return Outcome("blocked", reason, RunState(scrum_result=said))


def _programs(agent: Iterable[str]) -> list[str]:
    return sorted({key.partition(":")[0] for key in agent})


def _why(error: RalphError) -> str:
    said = f": {error.details}" if isinstance(error.details, str) and error.details else ""
    return f"{error.message}{said} ({error.suggested_action})"


async def _over(handle: WorkflowHandle[Any, Any]) -> str:
    """How a workflow ended that nobody here has ended."""
    while True:
        try:
            await handle.result()
        except WorkflowFailureError as failure:
            return f"its workflow was ended: {failure.cause}"
        except RPCError as problem:
            if problem.status == RPCStatusCode.NOT_FOUND:
                return "the server does not know its workflow any more"
            await asyncio.sleep(ASK_AGAIN)
        else:
            return "its workflow ended without a word"


async def _quietly(call: Coroutine[Any, Any, Any]) -> None:
    with suppress(RPCError):
        await call

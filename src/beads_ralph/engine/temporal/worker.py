"""A host that takes sessions from the server: as many as it has room for, each in a process of its own.

The processes do not end with the worker: one that is started again finds them, and goes on with what they
say. A session is ended when its cancellation was asked for, or when the server gave its work to nobody any
more; never because the server or the coordinator is away.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from beads_ralph.config.model import TemporalSettings
from beads_ralph.engine import refusal
from beads_ralph.engine.order_folder import OrderFolder, at_work, folder_of
from beads_ralph.engine.pump import Pump
from beads_ralph.engine.temporal import workflow
from beads_ralph.engine.temporal.admission import Admission
from beads_ralph.engine.temporal.connection import connected
from beads_ralph.engine.temporal.mail import WorkflowMail
from beads_ralph.engine.temporal.queues import own_queue, queues_of
from beads_ralph.files import text_files

LOG: Final = logging.getLogger(__name__)
ACTIVITY: Final = "activity.json"
BEAT_SECONDS: Final = 2.0
ASK_AGAIN: Final = 1.0
DRAIN: Final = timedelta(days=365)


@dataclass
class HostWorker:
    """One host's."""

    settings: TemporalSettings
    home: Path
    host: str
    slots: int
    labels: Sequence[str] = ()
    admission: Admission = field(init=False)
    adopted: set[asyncio.Task[None]] = field(default_factory=set)
    ending: bool = False
    """A second signal has come: what runs is ended."""
    _client: Client | None = None

    def __post_init__(self) -> None:
        self.admission = Admission(self.slots, self.home)

    @property
    def client(self) -> Client:
        assert self._client is not None  # noqa: S101 - for the type checker
        return self._client

    @property
    def own_queue(self) -> str:
        return own_queue(self.settings.task_queue, self.host)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Take sessions while the block lasts; at its end what runs is waited for."""
        self._client = await connected(self.settings)
        self._adopt_all()
        async with AsyncExitStack() as stack:
            for queue in queues_of(self.settings.task_queue, self.labels):
                await stack.enter_async_context(self._worker(queue, limited=True))
            await stack.enter_async_context(self._worker(self.own_queue, limited=False))
            yield
        while self.adopted:
            await asyncio.wait(self.adopted)

    def _worker(self, queue: str, *, limited: bool) -> Worker:
        return Worker(
            self.client,
            task_queue=queue,
            activities=[self.session],
            tuner=self.admission.tuner() if limited else None,
            identity=self.host,
            max_concurrent_activity_task_polls=1,
            max_heartbeat_throttle_interval=timedelta(seconds=BEAT_SECONDS),
            default_heartbeat_throttle_interval=timedelta(seconds=BEAT_SECONDS),
            graceful_shutdown_timeout=DRAIN,
        )

    async def end_now(self) -> None:
        """End every session of this host; their beads are worked on elsewhere."""
        self.ending = True
        for order in at_work(self.home):
            await order.end()

    # --- a session that the server gives us ---------------------------------------------------------

    @activity.defn(name=workflow.SESSION)
    async def session(self, ticket: dict[str, Any]) -> Any:
        info, order = activity.info(), folder_of(self.home, ticket["id"])
        if order.ticket is None:
            if info.task_queue == self.own_queue:
                raise _lost(f"{self.host} does not have its session any more")
            if why := await asyncio.to_thread(refusal.why_not, ticket):
                self.admission.rest()
                raise ApplicationError(f"{self.host}: {why}", type=workflow.REFUSED, non_retryable=True)
            order.begin(ticket)
        place = {
            "workflow": str(info.workflow_id),
            "run": str(info.workflow_run_id),
            "activity": info.activity_id,
        }
        text_files.write_text(order.path / ACTIVITY, json.dumps(place))
        beats = asyncio.create_task(self._beat(order))
        try:
            return await self._seen_through(order, place)
        except asyncio.CancelledError:
            await self._ended_by_server(order, place)
            raise
        finally:
            beats.cancel()

    def _details(self, order: OrderFolder) -> dict[str, Any]:
        return {"host": self.host, "queue": self.own_queue, **order.process}

    async def _beat(self, order: OrderFolder) -> None:
        while True:
            activity.heartbeat(self._details(order))
            await asyncio.sleep(BEAT_SECONDS)

    async def _seen_through(self, order: OrderFolder, place: Mapping[str, str]) -> Any:
        """The outcome, once everything before it has arrived."""
        mail = WorkflowMail(self.client, place["workflow"], place["run"], order.id, self.host)
        said = await Pump(order, mail).run()
        words = order.last_words
        if said is None:
            await order.end(0.0)
        order.remove()
        if said is None:
            raise _lost(f"the session's process on {self.host} ended without an outcome: {words}")
        if "refused" in said["outcome"]:
            self.admission.rest()
            message = f"{self.host}: {said['outcome']['refused']}"
            raise ApplicationError(message, type=workflow.REFUSED, non_retryable=True)
        return said["outcome"]

    async def _ended_by_server(self, order: OrderFolder, place: Mapping[str, str]) -> None:
        """Cancelled, or given up: one whose workflow is still there may be asked for by name yet."""
        details = activity.cancellation_details()
        told = details is not None and (details.cancel_requested or details.worker_shutdown)
        if told or not await self._is_open(place):
            await order.end()
            order.remove()

    async def _is_open(self, place: Mapping[str, str]) -> bool:
        try:
            handle = self.client.get_workflow_handle(place["workflow"], run_id=place["run"])
            return (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
        except RPCError as problem:
            return problem.status != RPCStatusCode.NOT_FOUND

    # --- sessions that an earlier worker of this host began -----------------------------------------

    def _adopt_all(self) -> None:
        for order in at_work(self.home):
            try:
                place = json.loads((order.path / ACTIVITY).read_text("utf-8"))
            except (OSError, ValueError):
                continue
            task = asyncio.create_task(self._adopt(order, place))
            self.adopted.add(task)
            task.add_done_callback(self.adopted.discard)

    async def _adopt(self, order: OrderFolder, place: Mapping[str, str]) -> None:
        """Go on in place of the worker that was killed: signs of life, words, and the end of its activity."""
        self.admission.busy += 1
        handle = self.client.get_async_activity_handle(
            workflow_id=place["workflow"], run_id=place["run"], activity_id=place["activity"]
        )
        through = asyncio.create_task(self._seen_through(order, place))
        try:
            while not through.done():
                await asyncio.wait({through}, timeout=BEAT_SECONDS)
                if not through.done() and not await self._is_wanted(handle, order, place):
                    through.cancel()
                    return
            with suppress(RPCError):
                try:
                    await handle.complete(through.result())
                except ApplicationError as failure:
                    await handle.fail(failure)
        finally:
            self.admission.busy -= 1

    async def _is_wanted(self, handle: Any, order: OrderFolder, place: Mapping[str, str]) -> bool:
        try:
            await handle.heartbeat(self._details(order))
        except AsyncActivityCancelledError:
            await order.end()
            with suppress(RPCError):
                await handle.report_cancellation()
            order.remove()
            return False
        except RPCError as problem:
            if problem.status != RPCStatusCode.NOT_FOUND:
                return True  # the server is away; the session goes on
            if not await self._is_open(place):
                await order.end()
                order.remove()
            return False  # else it is asked for by name
        return True


def _lost(message: str) -> ApplicationError:
    return ApplicationError(message, type=workflow.LOST, non_retryable=True)


def host_name(home: Path, usual: Path) -> str:
    """The machine's name; of several workers on one machine, each has a name of its own."""
    name = os.uname().nodename
    return name if home == usual else f"{name}-{hashlib.sha256(str(home).encode()).hexdigest()[:4]}"

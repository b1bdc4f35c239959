"""A host's way to the coordinator: updates of the bead's workflow, which wait while that is away."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from temporalio.client import Client, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from beads_ralph.engine.temporal.workflow import BeadWorkflow
from beads_ralph.session.pipe import Message

ASK_AGAIN: Final = 1.0
GONE: Final = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)


@dataclass
class WorkflowMail:
    """One session's."""

    client: Client
    workflow_id: str
    run_id: str
    order_id: str
    host: str
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def standing(self) -> Mapping[str, Any]:
        while True:
            try:
                return dict(await self._handle.query(BeadWorkflow.standing))
            except (RPCError, WorkflowQueryFailedError) as problem:
                await self._wait(problem)

    async def exchange(self, batch: Message) -> Message:
        """The same name for the same batch: one that has arrived is not taken twice."""
        name = f"{self.name}-{next(self.numbers)}"
        while True:
            try:
                said: Message = await self._handle.execute_update(
                    BeadWorkflow.exchange, args=[self.order_id, self.host, batch], id=name
                )
            except (RPCError, WorkflowUpdateFailedError) as problem:
                await self._wait(problem)
            else:
                return said

    @property
    def _handle(self) -> Any:
        return self.client.get_workflow_handle(self.workflow_id, run_id=self.run_id)

    async def _wait(self, problem: Exception) -> None:
        """Server and coordinator may come back, so they are asked again. Where the workflow has ended, our
        activity is told so by its signs of life."""
        gone = isinstance(problem, RPCError) and problem.status in GONE
        await asyncio.sleep(5 * ASK_AGAIN if gone else ASK_AGAIN)

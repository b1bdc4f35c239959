"""One coordinator for a project, wherever it is: a lease on the server that lasts while it is renewed.

The lease is a workflow that nobody runs and that the server ends by itself. Whoever comes second is refused
as soon as the first is seen to renew it; one that was killed has lost it after a while, and at once on its
own machine, where the lock of the run tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from beads_ralph.errors import Code, RalphError

TYPE: Final = "coordinator-lease"
LOOK_SECONDS: Final = 1.0


@dataclass
class Lease:
    """The right to coordinate a project."""

    client: Client
    name: str
    holder: str
    """Who we are."""
    place: str
    """How all holders of this place begin: of them only one can live."""
    seconds: float = 90.0
    lost: bool = False

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """DATABASE.CONFLICT where another has it, and is alive."""
        await self._take()
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            renewing.cancel()
            if not self.lost:
                with suppress(RPCError):
                    await self.client.get_workflow_handle(self.name).terminate("the run has ended")

    async def _take(self) -> None:
        first = await self._holding()
        while True:
            known = await self._holding()
            ours = known is None or known[0].startswith(self.place)
            with suppress(WorkflowAlreadyStartedError):
                policy = WorkflowIDConflictPolicy.TERMINATE_EXISTING if ours else None
                await self._start(policy or WorkflowIDConflictPolicy.FAIL)
                return
            if known and first and known != first:
                message = f"another run coordinates this project already: {known[0]}"
                action = "Watch it there, or give this one a name of its own: temporal.project"
                raise RalphError(Code.CONFLICT, message, suggested_action=action)
            await asyncio.sleep(LOOK_SECONDS)

    async def _holding(self) -> tuple[str, str] | None:
        """Who has it, and since which renewal."""
        with suppress(RPCError):
            found = await self.client.get_workflow_handle(self.name).describe()
            if found.status == WorkflowExecutionStatus.RUNNING:
                return str(await found.memo_value("holder")), str(found.run_id)
        return None

    async def _start(self, policy: WorkflowIDConflictPolicy) -> Any:
        return await self.client.start_workflow(
            TYPE,
            id=self.name,
            task_queue=TYPE,
            memo={"holder": self.holder},
            execution_timeout=timedelta(seconds=self.seconds),
            id_conflict_policy=policy,
        )

    async def _renew(self) -> None:
        """A server that is away is asked again; it kept no time meanwhile that others could have used."""
        while not self.lost:
            await asyncio.sleep(self.seconds / 4)
            with suppress(RPCError, WorkflowAlreadyStartedError):
                known = await self._holding()
                self.lost = known is not None and known[0] != self.holder
                if not self.lost:
                    await self._start(WorkflowIDConflictPolicy.TERMINATE_EXISTING)

"""A look at the server before a run: its version, and the workers that have asked for beads of late."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetSystemInfoRequest

from beads_ralph.config.model import TemporalSettings
from beads_ralph.engine.temporal.connection import PATIENCE, connected


@dataclass(frozen=True)
class ServerHealth:
    """A server that answers for its namespace."""

    version: str
    workers: tuple[str, ...]
    """The hosts that have polled the queue in the last minutes."""


async def look(said: TemporalSettings) -> ServerHealth:
    """EXECUTION.UNAVAILABLE where server, namespace or version are wrong."""
    client = await connected(said)
    service = client.workflow_service
    info = await service.get_system_info(GetSystemInfoRequest(), timeout=PATIENCE)
    asked = DescribeTaskQueueRequest(
        namespace=said.namespace,
        task_queue=TaskQueue(name=said.task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    queue = await service.describe_task_queue(asked, timeout=PATIENCE)
    return ServerHealth(info.server_version, tuple(sorted({poller.identity for poller in queue.pollers})))

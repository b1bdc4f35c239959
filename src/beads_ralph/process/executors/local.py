"""Jobs as child processes of the loop."""

from __future__ import annotations

from typing import Final

from beads_ralph.process.jobs import Exit, Job, Watcher
from beads_ralph.process.supervise import supervise


class LocalExecutor:
    """Needs nothing but the machine."""

    kind = "local"

    async def run(self, job: Job, watcher: Watcher | None = None) -> Exit:
        return await supervise(job, watcher)


EXECUTOR: Final = LocalExecutor

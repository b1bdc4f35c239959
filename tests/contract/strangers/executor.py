"""An executor in one file of `process/executors`: jobs run at the lowest priority."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from beads_ralph.process.jobs import Exit, Job
from beads_ralph.process.supervise import supervise


class NiceExecutor:
    """Needs nothing but `nice`."""

    kind = "nice"

    async def run(self, job: Job) -> Exit:
        return await supervise(replace(job, argv=("nice", "-n", "19", *job.argv)))


EXECUTOR: Final = NiceExecutor

"""The contract of an executor."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from beads_ralph.process.jobs import Exit, Job


@runtime_checkable
class Executor(Protocol):
    """Runs jobs that have a transcript."""

    kind: str

    async def run(self, job: Job) -> Exit:
        """Run to the end, the time limit or the output limit. Whatever happens, cancellation included,
        no process of the job is left when this returns or raises."""

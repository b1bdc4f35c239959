"""Where jobs run: one file a kind of executor, in which `EXECUTOR` makes it. No other line is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files.plugins import Plugins
from beads_ralph.process.sandbox import Sandbox, Sandboxed

if TYPE_CHECKING:
    from beads_ralph.process.jobs import Executor, Exit, Job

TRIES: Final = 3
EXECUTORS: Final[Mapping[str, Callable[[], Executor]]] = Plugins("process.executors", "EXECUTOR")


def choose(name: str, sandbox: Sandbox | None = None) -> Executor:
    """The executor of that name; with a sandbox, every job of it is closed in."""
    return EXECUTORS[name]() if sandbox is None else Sandboxed(EXECUTORS[name](), sandbox)


async def run_through(executor: Executor, job: Job) -> Exit:
    """Run a job, again where what it ran in died under it: nothing is wrong with the job then."""
    for _ in range(TRIES):
        ended = await executor.run(job)
        if not ended.abandoned:
            return ended
        if job.transcript is not None:  # half of what it will print now
            for path in (job.transcript.out, job.transcript.err):
                path.write_bytes(b"")
    raise abandoned(ended)


def abandoned(ended: Exit) -> RalphError:
    """The error where that happens again and again."""
    action = "Find out who ends it, then run again: beads-ralph run; or use the local executor"
    return RalphError(
        Code.UNAVAILABLE,
        f"{ended.abandoned}, again and again; no attempt was counted",
        suggested_action=action,
    )

"""Runs one job on its transcript and ends it whole: at its exit, a limit, or our own cancellation."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import IO, Any, Final, Self

from beads_ralph.errors import Code, RalphError
from beads_ralph.process import proc
from beads_ralph.process.jobs import Exit, Job, Transcript
from beads_ralph.process.memory import MB, METER
from beads_ralph.process.process_table import start_of
from beads_ralph.process.process_tree import Family

MARK: Final = "BEADS_RALPH_JOB"
TAIL_BYTES: Final = 64 * 1024
LOOK_SECONDS: Final = 0.25
"""How often the size of the output is looked at."""
CANNOT_START: Final = 127


class Ending(Enum):
    """What ended the watch over a job."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    FLOODED = "flooded"
    OVER_MEMORY = "over its memory"


async def supervise(job: Job) -> Exit:
    """Run a job that has a transcript. No process of it is left when this returns or raises."""
    job = marked(job)
    with Output(job) as output, given(job.stdin) as stdin:
        try:
            process = proc.start(job, stdin, output.out, output.err)
        except (OSError, ValueError) as problem:
            return output.refused(job, proc.why(problem))
        family = Family(
            entry(job),
            leader=process.pid,
            since=start_of(process.pid),
            keeper=job.keeper,
            reap=process.poll,
        )
        try:
            async with ended_whole(family, job.grace):
                with exit_of(process) as ended:
                    ending = await watch(ended, job, output, family)
        finally:
            code = proc.reap(process)
        return output.exit(code, ending)


def marked(job: Job) -> Job:
    """The job with a mark, and with the environment that its process gets, exactly."""
    mark = job.mark or secrets.token_hex(8)
    inherited = os.environ if job.env is None else job.env
    return replace(job, mark=mark, env={**inherited, MARK: mark})


def entry(job: Job) -> str:
    """What every process of the job has in its environment."""
    return f"{MARK}={job.mark}"


def describe(job: Job) -> str:
    """For people; what the prompt says is none of their business here."""
    return f"{job.argv[0] if job.argv else 'a job without a program'} in {job.cwd}"


# --- what it reads and prints ---------------------------------------------------------------------


class Output:
    """The files that a job prints to, and how it fared. What they held before belongs to other jobs."""

    def __init__(self, job: Job) -> None:
        if job.transcript is None:
            raise ValueError(f"{describe(job)} has no transcript")
        _write_files(job)
        self.transcript: Transcript = job.transcript
        self.limit = job.output_limit
        self.memory_limit_mb = job.memory_limit_mb
        self.began = time.monotonic()
        with ExitStack() as files:
            self.out = files.enter_context(_open_to_append(self.transcript.out))
            self.err = files.enter_context(_open_to_append(self.transcript.err))
            self._files = files.pop_all()
        self.before = (_size(self.out), _size(self.err))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def printed(self) -> int:
        return _size(self.out) + _size(self.err) - sum(self.before)

    def exit(self, code: int, ending: Ending = Ending.EXITED) -> Exit:
        return Exit(
            code=code,
            stdout=_tail(self.transcript.out, self.before[0]),
            stderr=_tail(self.transcript.err, self.before[1]),
            timed_out=ending is Ending.TIMED_OUT,
            # Also when it ended by itself before anyone looked.
            flooded=ending is Ending.FLOODED or self.printed() > self.limit,
            over_memory=self.memory_limit_mb if ending is Ending.OVER_MEMORY else 0,
            seconds=time.monotonic() - self.began,
            transcript=self.transcript,
        )

    def refused(self, job: Job, reason: str) -> Exit:
        """It never ran; the reason stands where its own complaints would."""
        message = f"cannot start {describe(job)}: {reason}"
        self.err.write(message.encode("utf-8", "replace") + b"\n")
        return self.exit(CANNOT_START)


def given(text: str | None) -> IO[bytes]:
    """What the job reads: nobody has to feed it, and nothing is left of it."""
    return Path(os.devnull).open("rb") if text is None else unnamed(text.encode("utf-8", "replace"))


def unnamed(data: bytes) -> IO[bytes]:
    """A file without a name."""
    try:
        file = tempfile.TemporaryFile(prefix="beads-ralph-")  # noqa: SIM115 (the caller closes it)
        file.write(data)
        file.seek(0)
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot write a temporary file: {problem}") from None
    return file


def _write_files(job: Job) -> None:
    for path, text in job.files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as problem:
            raise RalphError(Code.WRITE_FAILED, f"cannot write {path}: {proc.why(problem)}") from None


def _open_to_append(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab", buffering=0)
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot write {path}: {problem.strerror or problem}") from None


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _tail(path: Path, before: int) -> str:
    """The last of what was printed; the job may have removed the file."""
    try:
        with path.open("rb") as file:
            file.seek(max(before, _size(file) - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


# --- waiting for it, and ending it ----------------------------------------------------------------


async def watch(ended: asyncio.Future[Any], job: Job, output: Output, family: Family) -> Ending:
    """Wait for the end or the first limit that is reached; ends nothing itself."""
    until = time.monotonic() + job.timeout
    while not ended.done():
        left = until - time.monotonic()
        if left <= 0:
            return Ending.TIMED_OUT
        if output.printed() > job.output_limit:
            return Ending.FLOODED
        if job.memory_limit_mb and METER.exceeds(family, job.memory_limit_mb * MB):
            return Ending.OVER_MEMORY
        await asyncio.wait([ended], timeout=min(LOOK_SECONDS, left))
    return Ending.EXITED


@asynccontextmanager
async def ended_whole(family: Family, grace: float) -> AsyncIterator[None]:
    """Leave no process of the family, however the block ends; a second cancellation costs the grace only."""
    try:
        yield
    finally:
        try:
            for pause in family.ending(grace):
                await asyncio.sleep(pause)
        finally:
            if not family.gone:
                family.kill_now()


@contextmanager
def exit_of(process: proc.Started) -> Iterator[asyncio.Future[None]]:
    """Done when the process ended. It is not reaped yet, so its number is still its own."""
    waiting = asyncio.get_running_loop().create_task(_exited(process))
    try:
        yield waiting
    finally:
        waiting.cancel()


async def _exited(process: proc.Started) -> None:
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or an old one
        while process.poll() is None:
            await asyncio.sleep(LOOK_SECONDS)
        return
    try:
        await readable(handle)
    finally:
        os.close(handle)


async def readable(file: int) -> None:
    """Wait for something to read; unlike a read, it has nothing to lose when it is cancelled."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)

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
from pathlib import Path
from typing import IO, Any, Final, Self
from weakref import WeakSet

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.process import jobs, reaper
from beads_ralph.process.jobs import Exit, Job, Limit, Transcript, Watcher
from beads_ralph.process.process_table import (
    Process,
    has_table,
    proportional,
    resident,
    start_of,
    variable_of,
)
from beads_ralph.process.process_tree import Family, others
from beads_ralph.process.reaper import Reaped
from beads_ralph.process.signs_of_life import SignsOfLife

MARK: Final = "BEADS_RALPH_JOB"
TAIL_BYTES: Final = 64 * 1024
LOOK_SECONDS: Final = 0.25
"""How often the size of the output is looked at."""
REAP_SECONDS: Final = 5.0
CANNOT_START: Final = 127
MB: Final = 1024 * 1024
LEAST_SECONDS: Final = 0.5
"""No process is looked at more often than this."""
SHARE: Final = 50
"""Looking may take one part in so many of the time, however many processes there are."""


async def supervise(job: Job, watcher: Watcher | None = None) -> Exit:
    """Run a job that has a transcript. No process of it is left when this returns or raises."""
    job = marked(job)
    with Output(job) as output, given(job.stdin) as stdin:
        try:
            process = reaper.start(job, stdin, output.out, output.err)
        except (OSError, ValueError) as problem:
            return output.refused(job, jobs.why(problem))
        family = Family(
            entry(job), leader=process.pid, since=start_of(process.pid), keeper=job.keeper, reap=process.poll
        )
        if isinstance(process, Reaped):
            family.orphans, family.groups = process.orphans, process.groups
        try:
            async with ended_whole(family, job.grace):
                with exit_of(process) as ended:
                    limit = await watch(ended, job, output, family, watcher)
        finally:
            code = jobs.reap(process, REAP_SECONDS)
            if isinstance(process, Reaped):
                process.close()
        return output.exit(code, limit)


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
        self.output_limit = job.output_limit
        self.memory_limit_mb = job.memory_limit_mb
        self.stall_limit = job.stall_limit
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

    def exit(self, code: int, limit: Limit = "") -> Exit:
        return Exit(
            code=code,
            stdout=_tail(self.transcript.out, self.before[0]),
            stderr=_tail(self.transcript.err, self.before[1]),
            timed_out=limit == "timeout",
            # Also when it ended by itself before anyone looked.
            flooded=limit == "output" or self.printed() > self.output_limit,
            over_memory=self.memory_limit_mb if limit == "memory" else 0,
            stalled=self.stall_limit if limit == "stalled" else 0.0,
            gave_up=limit == "trouble",
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
            raise RalphError(Code.WRITE_FAILED, f"cannot write {path}: {jobs.why(problem)}") from None


def _open_to_append(path: Path) -> IO[bytes]:
    try:
        text_files.make_folder(path.parent)
        descriptor = text_files.open_private(path, os.O_WRONLY | os.O_APPEND)
        return os.fdopen(descriptor, "ab", buffering=0)
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


async def watch(
    ended: asyncio.Future[Any],
    job: Job,
    output: Output,
    family: Family,
    watcher: Watcher | None = None,
) -> Limit:
    """Wait for the end or the first limit that is reached; ends nothing itself."""
    until = time.monotonic() + job.timeout
    signs = SignsOfLife(job.cwd, family, job.stall_limit)
    while not ended.done():
        left = until - time.monotonic()
        if left <= 0:
            return "timeout"
        if output.printed() > job.output_limit:
            return "output"
        if job.memory_limit_mb and METER.exceeds(family, job.memory_limit_mb * MB):
            return "memory"
        if watcher is not None and watcher.is_in_vain():
            return "trouble"
        if job.stall_limit and await signs.are_missing(output.printed()):
            return "stalled"
        await asyncio.wait([ended], timeout=min(LOOK_SECONDS, left))
    return ""


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
def exit_of(process: jobs.Started | Reaped) -> Iterator[asyncio.Future[None]]:
    """Done when the process ended. It is not reaped yet, so its number is still its own."""
    waiting = asyncio.get_running_loop().create_task(_exited(process))
    try:
        yield waiting
    finally:
        waiting.cancel()


async def _exited(process: jobs.Started | Reaped) -> None:
    if isinstance(process, Reaped):
        if process.poll() is None:  # it may have told already
            await readable(process.fileno())
        return
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


# --- how much memory jobs use: one look at the process table for all of them --------------------

# A limit that the kernel could hold by itself, RLIMIT_AS, counts addresses and not memory: node and bun
# reserve tens of gigabytes of those and would not start. So the processes are looked at, now and then.


class Use:
    """What a family used at one look."""

    def __init__(self) -> None:
        self.at_most = 0
        self._members: list[int] = []
        self._exactly: int | None = None

    def add(self, pid: int) -> None:
        self._members.append(pid)
        self.at_most += resident(pid)

    def exactly(self) -> int:
        if self._exactly is None:
            self._exactly = sum(map(proportional, self._members))
        return self._exactly


class MemoryMeter:
    """The memory of every family that anybody has asked about, as of the latest look."""

    def __init__(self, variable: str) -> None:
        """`variable` is the one whose value says which job a process belongs to."""
        self.variable = variable
        self._watched: WeakSet[Family] = WeakSet()
        self._uses: dict[Family, Use] = {}
        self._marks: dict[tuple[int, int], str] = {}
        self._next = 0.0

    def exceeds(self, family: Family, limit: int) -> bool:
        """True if the family used more than so many bytes when it was last looked at.

        What processes share is counted for each of them at first, which is quick; only where that is too
        much, it is counted once.
        """
        if not has_table():
            return False
        self._watched.add(family)
        self._look()
        use = self._uses.get(family)
        return use is not None and use.at_most > limit and use.exactly() > limit

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        table = others()
        self._marks = {key: mark for key, mark in self._marks.items() if key[0] in table}
        self._uses = {family: Use() for family in self._watched}
        for pid, family in self._owners(table):
            self._uses[family].add(pid)
        now = time.monotonic()
        self._next = now + max(LEAST_SECONDS, (now - began) * SHARE)

    def _owners(self, table: dict[int, Process]) -> Iterator[tuple[int, Family]]:
        """Whose each process is: by its group, session, environment, reaper or parent, as in `Family`."""
        by_mark = {family.entry: family for family in self._watched}
        by_leader = {family.leader: family for family in self._watched if family.leader}
        orphans = {one.pid: family for family in self._watched for one in family.unmarked(table)}
        known: dict[int, Family | None] = {}

        def owner(process: Process) -> Family | None:
            if process.pid not in known:
                known[process.pid] = None  # should two be each other's parent, between two reads
                found = by_leader.get(process.group) or by_leader.get(process.session)
                found = found or by_mark.get(self._entry(process)) or orphans.get(process.pid)
                parent = table.get(process.parent)
                known[process.pid] = found or (owner(parent) if parent else None)
            return known[process.pid]

        for process in table.values():
            family = owner(process)
            if family is not None and process.pid not in family.spared:
                yield process.pid, family

    def _entry(self, process: Process) -> bytes:
        """Read once for each process: what it was given it keeps, and so do its children."""
        key = process.identity
        if key not in self._marks:
            self._marks[key] = variable_of(process.pid, self.variable)
        return os.fsencode(f"{self.variable}={self._marks[key]}")


METER: Final = MemoryMeter(MARK)

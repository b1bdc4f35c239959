"""Jobs: what runs, how it ended, the contract of an executor, and the only place that starts a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Literal, Protocol, TypeAlias, cast, runtime_checkable

Started: TypeAlias = subprocess.Popen[bytes]
TimeoutExpired: TypeAlias = subprocess.TimeoutExpired
DEVNULL: Final = subprocess.DEVNULL
Limit: TypeAlias = Literal["", "timeout", "output", "memory", "stalled", "trouble"]
"""What a job was ended for; empty where it ended by itself. `trouble`: whoever watched it saw that it only
waits."""
LOGGED: Final = 500
"""So much of a command goes into the log: bd takes whole descriptions as arguments."""


class Awaited(Protocol):
    """What is started by somebody, and ends."""

    def wait(self, timeout: float) -> int: ...


@dataclass(frozen=True)
class Transcript:
    """The files that a process's output goes to, so that it outlives us and costs no memory."""

    out: Path
    err: Path


@dataclass(frozen=True)
class JobReport:
    """What a program notes in a file of its own and does not print."""

    path: Path
    lines: str
    """Which of its lines are read: a regular expression for how they begin."""


RUN_ID: Final = "BEADS_RALPH_RUN_ID"
"""The variable by which processes of a run are found."""


@dataclass(frozen=True)
class Mount:
    """A place that shows what lies elsewhere, to a job that is closed in."""

    source: Path
    target: Path
    writable: bool = False


@dataclass(frozen=True)
class Job:
    """One process to run."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] | None = None
    stdin: str | None = None
    timeout: float = 30.0
    grace: float = 2.0
    name: str = ""
    """What people call it, such as `agent-bd-1-1-setup`; the tmux executor names its session so."""
    mark: str = ""
    """Unique; put into the environment as BEADS_RALPH_JOB, so that every descendant can be found."""
    transcript: Transcript | None = None
    output_limit: int = 512 * 1024 * 1024
    memory_limit_mb: int = 0
    """The most memory that all its processes together may use; 0 for any."""
    stall_limit: float = 0.0
    """The seconds that it may show no sign of life: no output, no work of a processor, no changed file in its
    folder; 0 for any."""
    writes: tuple[Path, ...] = ()
    """What it must be able to write to besides its folder, should it be closed in."""
    reads: tuple[Path, ...] = ()
    """What it must see in any case, should it be closed in."""
    settings: tuple[Path, ...] = ()
    """Files and folders among what it writes to that must stay as they are: outside they would be obeyed."""
    overlaid: tuple[Path, ...] = ()
    """Folders that it may add to, but only for itself: what is there stays as it is, and what it adds is gone
    when it has ended."""
    copied: tuple[Path, ...] = ()
    """Files that it has a copy of, to write to as it likes."""
    mounts: tuple[Mount, ...] = ()
    """What it sees in place of something else, should it be closed in; in order, over all the rest."""
    keeper: str = ""
    """The name of a program that the job's own runs inside of, and that ends with it: asking the keeper to
    end would kill the other without a word."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """What the process expects to find, such as a schema that it is told the path of; written before it
    starts, for its owner's eyes only."""
    report: JobReport | None = None
    """What is read after what it printed, of a program that does not print all of it."""


@dataclass(frozen=True)
class Exit:
    """How the process ended. A signal or a time-out is an exit too, never an exception."""

    code: int
    """As Python has it: negative for a signal."""
    stdout: str = ""
    """All of it for a captured job; for one with a transcript only the tail."""
    stderr: str = ""
    timed_out: bool = False
    flooded: bool = False
    """It printed more than the job allows and was ended for that."""
    over_memory: int = 0
    """The limit in MB that it was ended for; 0 where it kept to it, or had none."""
    stalled: float = 0.0
    """The seconds without a sign of life that it was ended for; 0 where there were signs, or no limit."""
    gave_up: bool = False
    """It was ended because whoever watched it saw that it only waits."""
    seconds: float = 0.0
    transcript: Transcript | None = None
    abandoned: str = ""
    """What it ran in and what died under it, such as a tmux server: its end says nothing of the program."""

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.limit

    @property
    def limit(self) -> Limit:
        ended_for: dict[Limit, object] = {
            "timeout": self.timed_out,
            "output": self.flooded,
            "memory": self.over_memory,
            "stalled": self.stalled,
            "trouble": self.gave_up,
        }
        return next((limit for limit, true in ended_for.items() if true), "")

    @property
    def cut_short(self) -> str:
        """The same in words; empty where only its answer can say what it waited for."""
        if self.stalled:
            return f"stalled: no sign of life for {self.stalled:.0f} s, and was ended"
        if self.timed_out:
            return f"timed out after {self.seconds:.0f} s"
        if self.flooded:
            return "printed more than is allowed and was ended"
        return f"memory: used more than {self.over_memory} MB and was ended" if self.over_memory else ""


class Watcher(Protocol):
    """Follows what a job prints while it runs."""

    def is_in_vain(self) -> bool:
        """Tell whether the job only waits, so that it may as well be ended. Asked a few times a second: it
        reads what is new and does no more."""


@runtime_checkable
class Executor(Protocol):
    """Runs jobs that have a transcript."""

    kind: str

    async def run(self, job: Job, watcher: Watcher | None = None) -> Exit:
        """Run to the end or to the first limit, or until the watcher has seen enough. Whatever happens,
        cancellation included, no process of the job is left when this returns or raises."""


@dataclass(frozen=True)
class Profile:
    """What is known of an agent's program before it is called."""

    title: str
    """What people call it, such as Claude Code."""
    executable: str = ""
    """Its name on PATH; empty where it is whatever the user names."""
    tested: str = ""
    """The version that the adapter was tried with; empty where any will do."""
    version_args: tuple[str, ...] = ("--version",)
    session_is_given: bool = False
    """Its session has the id that the task gives it, so that it is known before the program says a word."""
    resumes_elsewhere: bool = False
    """It takes a session up in another folder than the one where that was begun."""
    reads_prompts: bool = True
    """A model reads its prompt to the end, so that its verdict repeats the nonce given there. A plain
    program need not."""
    hides_git: bool = False
    """Its tools do not see the user's git settings: who commits must be in the environment."""
    counts: Literal["", "tokens", "cost"] = "tokens"
    """What it always tells of a call that went well: nothing, its tokens, or also their price."""
    model_variable: str = ""
    """The variable that names its model, where it has one."""
    asks_nobody: str = ""
    """The flag, or NAME=value, of ours that lets its agents do whatever the user may; empty for none."""
    asks_by: tuple[str, ...] = ()
    """Options by which the user decides that otherwise."""
    passes: str = ""
    """Which variables of our own environment it may have besides the harmless ones: a regular expression."""
    keys: tuple[str, ...] = ()
    """Variables any of which signs it in."""
    credentials: tuple[str, ...] = ()
    """Files below HOME any of which says that somebody has signed in."""
    state: tuple[str, ...] = ()
    """Files and folders below HOME that it writes to while it works."""
    state_variables: tuple[str, ...] = ()
    """Variables that name a folder which it writes to instead."""
    settings: tuple[str, ...] = ()
    """Among those: what it obeys, such as instructions, hooks and plug-ins, and programs of its own. A job
    that is closed in cannot change it. What has no `*` is made where it is missing, empty."""
    overlaid: tuple[str, ...] = ()
    """Folders of settings that it writes to while it works, though nothing of it need stay."""
    copied: tuple[str, ...] = ()
    """Files that are settings and notes in one; nothing that is written to them need stay."""
    built_in: bool = False
    """It comes with this program, so that there is nothing to install."""
    install: str = ""
    """What a user does to get it."""
    sign_in: str = ""
    """What a user does to be let in."""


# --- starting processes: each in its own group, its time bounded, ended whole ---------------------


def which(name: str, path: str | None = None) -> str | None:
    """The program on PATH, or None."""
    import shutil  # which imports every kind of compression

    return shutil.which(name, path=path)


def run(job: Job, file: Path | None = None) -> Exit:
    """Run to the end, or to its time limit; then nothing of its process group is left. With a `file`, it
    reads that."""
    began = time.monotonic()
    with nullcontext() if file is None else file.open("rb") as source:
        process = start(job, source or (subprocess.DEVNULL if job.stdin is None else subprocess.PIPE))
    timed_out = False
    out, err = b"", b""
    _RUNNING.add(process.pid)
    try:
        given = None if job.stdin is None else job.stdin.encode()
        out, err = process.communicate(given, timeout=job.timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        out, err = _stop(process, job.grace)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()
        _RUNNING.discard(process.pid)
    ended = Exit(
        code=process.returncode,
        stdout=out.decode("utf-8", "replace"),
        stderr=err.decode("utf-8", "replace"),
        timed_out=timed_out,
        seconds=time.monotonic() - began,
    )
    _log(job, ended)
    return ended


_RUNNING: Final[set[int]] = set()
"""The processes that `run` waits for now, in whichever thread."""


def end_running() -> None:
    """End what other threads wait for in `run`, so that they need not."""
    for pid in tuple(_RUNNING):
        _signal_group(pid, signal.SIGKILL)


def _log(job: Job, ended: Exit) -> None:
    if "logging" not in sys.modules:  # nobody logs, and every tmux pane pays for what this module imports
        return
    import logging

    log = logging.getLogger(__name__)
    if log.isEnabledFor(logging.DEBUG):
        words = " ".join(job.argv)[:LOGGED]
        how = "timed out" if ended.timed_out else f"exit {ended.code}"
        log.debug("%s after %.3f s in %s: %s", how, ended.seconds, job.cwd, words)


def start(
    job: Job,
    stdin: IO[bytes] | int,
    stdout: IO[bytes] | int = subprocess.PIPE,
    stderr: IO[bytes] | int = subprocess.PIPE,
) -> Started:
    """Start in a session of its own, on these files; whoever starts it ends it.

    OSError or ValueError where there is no such program or directory, or an argument cannot be passed.
    """
    if not job.argv:
        raise ValueError("no program is named")
    return subprocess.Popen(
        job.argv,
        cwd=job.cwd,
        env=dict(job.env) if job.env is not None else None,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


_LASTING: Final[list[Started]] = []
"""Those that outlive us; kept, since Python warns of one that nobody has waited for."""


def start_lasting(job: Job, out: IO[bytes]) -> int:
    """Start a process that outlives us, with its output in a file; its number."""
    process = start(job, DEVNULL, out, out)
    _LASTING.append(process)
    return process.pid


class Answering:
    """A process that answers what it is asked, line by line, and ends when nobody can ask any more."""

    def __init__(self, job: Job) -> None:
        self.process = start(job, subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.asks = cast(IO[bytes], self.process.stdin)
        self.answers = cast(IO[bytes], self.process.stdout)

    def end(self) -> None:
        for pipe in (self.asks, self.answers):
            with suppress(OSError):
                pipe.close()
        if reap(self.process) == -signal.SIGKILL:
            _signal_group(self.process.pid, signal.SIGKILL)
            self.process.wait()


def why(problem: OSError | ValueError) -> str:
    """Why `start` failed, for people."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}: {problem.filename}" if problem.filename else problem.strerror
    return str(problem)


def reap(process: Awaited, patience: float = 1.0) -> int:
    """Its exit code, once it ended; -9 for one that not even the kernel could end in time."""
    try:
        return process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


def environment(extra: Mapping[str, str], drop_prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """This process's environment without the variables of those prefixes, and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(drop_prefixes)}
    return {**kept, **extra}


def _stop(process: Started, grace: float) -> tuple[bytes, bytes]:
    """Ask the group to end, wait the grace, then kill; what it had printed so far."""
    _signal_group(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=grace)
    except subprocess.TimeoutExpired:
        _signal_group(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=grace)
    except subprocess.TimeoutExpired:  # a stranger outside the group holds the pipes: leave them to it
        return b"", b""


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def in_foreground(argv: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start a program that has our own streams; whoever starts it waits for it."""
    return subprocess.Popen(argv)

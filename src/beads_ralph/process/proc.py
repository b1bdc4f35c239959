"""The only place that starts a process: run it in its own group, bound its time, end it whole."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Final, TypeAlias

from beads_ralph.process.jobs import Exit, Job

Started: TypeAlias = subprocess.Popen[bytes]
LOGGED: Final = 500
"""So much of a command goes into the log: bd takes whole descriptions as arguments."""


def which(name: str, path: str | None = None) -> str | None:
    """The program on PATH, or None."""
    return shutil.which(name, path=path)


def run(job: Job) -> Exit:
    """Run to the end, or to its time limit; then nothing of its process group is left."""
    started = time.monotonic()
    process = subprocess.Popen(
        job.argv,
        cwd=job.cwd,
        env=dict(job.env) if job.env is not None else None,
        stdin=subprocess.DEVNULL if job.stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timed_out = False
    out, err = b"", b""
    try:
        given = None if job.stdin is None else job.stdin.encode()
        out, err = process.communicate(given, timeout=job.timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        out, err = _stop(process, job.grace)
    finally:
        _kill_group(process.pid)
        if process.poll() is None:
            process.wait()
    ended = Exit(
        code=process.returncode,
        stdout=_text(out),
        stderr=_text(err),
        timed_out=timed_out,
        seconds=time.monotonic() - started,
    )
    _log(job, ended)
    return ended


def _log(job: Job, ended: Exit) -> None:
    import logging  # here, since every tmux pane pays for what this module imports

    log = logging.getLogger(__name__)
    if log.isEnabledFor(logging.DEBUG):
        words = " ".join(job.argv)[:LOGGED]
        how = "timed out" if ended.timed_out else f"exit {ended.code}"
        log.debug("%s after %.3f s in %s: %s", how, ended.seconds, job.cwd, words)


def start(job: Job, stdin: IO[bytes] | int, stdout: IO[bytes] | int, stderr: IO[bytes] | int) -> Started:
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


def why(problem: OSError | ValueError) -> str:
    """Why `start` failed, for people."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}: {problem.filename}" if problem.filename else problem.strerror
    return str(problem)


def reap(process: Started, patience: float = 1.0) -> int:
    """Its exit code, once it ended; -9 for one that not even the kernel could end in time."""
    try:
        return process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


def environment(extra: Mapping[str, str], drop_prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """This process's environment without the variables of those prefixes, and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(drop_prefixes)}
    return {**kept, **extra}


def _stop(process: subprocess.Popen[bytes], grace: float) -> tuple[bytes, bytes]:
    """Ask the group to end, wait the grace, then kill; what it had printed so far."""
    _signal_group(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=grace)
    except subprocess.TimeoutExpired:
        _kill_group(process.pid)
    try:
        return process.communicate(timeout=grace)
    except subprocess.TimeoutExpired:  # a stranger outside the group holds the pipes: leave them to it
        return b"", b""


def _kill_group(pid: int) -> None:
    _signal_group(pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")

"""Jobs below a process of their own that inherits their orphans, so that none of them can hide.

One small process, the starter, serves all jobs of ours. It forks a reaper for each, which the kernel makes
the parent of everything that the job orphans, whatever session, group or environment that has. Should a
reaper be killed, its orphans go to the starter: what is below it and is no reaper is a stray. Only Linux has
this; elsewhere jobs are children of ours.

Every job pays for what is imported here.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from beads_ralph.process import job_groups, jobs
from beads_ralph.process.job_groups import JobGroup
from beads_ralph.process.jobs import Job, Started
from beads_ralph.process.process_table import Process, has_table, read_process
from beads_ralph.process.process_tree import PATIENCE, Family, reaper_command

SUPPORTED: Final = sys.platform == "linux" and hasattr(os, "waitid")
SET_CHILD_SUBREAPER: Final = 36
"""The number of the option of prctl."""
FILES: Final = 5
"""The line to us, the job's description, its stdin, stdout and stderr."""
ANSWER_SECONDS: Final = 30.0
"""How long a reaper may take to start a program, on a machine under load."""
TRIES: Final = 3
LEAVE_SECONDS: Final = PATIENCE + 2.0


# --- our side -------------------------------------------------------------------------------------


def prepare() -> None:
    """Have the starter ready for the first job: it starts up while others do, too."""
    with suppress(OSError):
        if SUPPORTED and has_table():
            STARTER.prepare()


def start(
    job: Job, stdin: IO[bytes] | int, stdout: IO[bytes] | int, stderr: IO[bytes] | int
) -> Started | Reaped:
    """Start the job below a reaper, or as a child of ours where there can be none.

    OSError or ValueError where there is no such program or directory, or an argument cannot be passed.
    """
    for _ in range(TRIES if SUPPORTED and has_table() else 0):
        with suppress(ConnectionError):  # another job may have killed the starter, or the new reaper
            line = STARTER.start(job, *(_number(file) for file in (stdin, stdout, stderr)))
            break
    else:
        return jobs.start(job, stdin, stdout, stderr)
    if "refused" in line.told:
        line.close()
        raise ValueError(line.told["refused"])
    return line


def let_go(line: socket.socket) -> None:
    """Tell a reaper that it may leave, and wait until it has seen to it that nothing is left."""
    with line, suppress(OSError):
        line.settimeout(LEAVE_SECONDS)
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass


def _number(file: IO[bytes] | int) -> int:
    return file if isinstance(file, int) else file.fileno()


class Reaped:
    """A program that runs below a reaper, as far as `subprocess.Popen` is asked about one."""

    def __init__(self, line: socket.socket, groups: tuple[JobGroup, ...]) -> None:
        self._line = line
        self.groups = groups
        self._heard = b""
        self.returncode: int | None = None
        self.told: Mapping[str, Any] = json.loads(self._read())
        self.pid: int = self.told.get("started", 0)
        self.reaper: int = self.told["reaper"]

    def fileno(self) -> int:
        """What can be read when it has ended."""
        return self._line.fileno()

    def poll(self) -> int | None:
        with suppress(jobs.TimeoutExpired):
            return self.wait(timeout=0.0)
        return None

    def wait(self, timeout: float = ANSWER_SECONDS) -> int:
        """The exit code; -9 where the reaper was killed. Nothing of the job may be left by then."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                self.returncode = int(json.loads(self._read())["exit"])
            except (TimeoutError, BlockingIOError):
                raise jobs.TimeoutExpired([], timeout) from None
            except OSError:
                self.returncode = -signal.SIGKILL
        return self.returncode

    def close(self) -> None:
        """Let the reaper go, once it has nobody left."""
        let_go(self._line)
        for group in self.groups:
            group.remove()

    def orphans(self, table: Mapping[int, Process]) -> Iterator[Process]:
        """Those that the job orphaned, and those of any job whose reaper was killed."""
        strays = STARTER.strays(table)
        return (one for one in table.values() if one.parent == self.reaper or one.pid in strays)

    def _read(self) -> bytes:
        while b"\n" not in self._heard:
            more = self._line.recv(4096)
            if not more:
                raise ConnectionResetError
            self._heard += more
        said, self._heard = self._heard.split(b"\n", 1)
        return said


class Starter:
    """The process that our jobs are started by; there is none before it is prepared, or the first job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: Started | None = None
        self._control: socket.socket | None = None
        self._reapers: set[tuple[int, int]] = set()

    def start(self, job: Job, stdin: int, stdout: int, stderr: int) -> Reaped:
        """ConnectionError where there is no starter or no reaper, TimeoutError where one does not answer."""
        ours, theirs = socket.socketpair()
        groups = job_groups.for_job(job)
        with self._lock, theirs, _described(job, groups) as description:
            ours.settimeout(ANSWER_SECONDS)
            try:
                self._hand_over([theirs.fileno(), description.fileno(), stdin, stdout, stderr])
                theirs.close()
                line = Reaped(ours, groups)
            except OSError:
                ours.close()
                raise
            self._remember(line.reaper)
            return line

    def prepare(self) -> None:
        with self._lock:
            self._opened()

    def _hand_over(self, files: list[int]) -> None:
        try:
            socket.send_fds(self._opened(), [b"\0"], files)
        except OSError as problem:  # it was killed, or cannot be started at all
            self._close()
            raise ConnectionError from problem

    def strays(self, table: Mapping[int, Process]) -> set[int]:
        """The children of the starter that it did not fork."""
        with self._lock:
            number = self._process.pid if self._process and self._owner == os.getpid() else 0
            children = [one for one in table.values() if number and one.parent == number]
            return {one.pid for one in children if one.identity not in self._reapers}

    def _remember(self, pid: int) -> None:
        self._reapers = {one for one in self._reapers if _is(one)}
        reaper = read_process(pid)
        if reaper:
            self._reapers.add(reaper.identity)

    def _opened(self) -> socket.socket:
        if self._control is None or self._owner != os.getpid():  # a fork of ours has its own
            self._control, theirs = socket.socketpair()
            with theirs:
                self._process = jobs.start(_starter(), theirs.fileno(), jobs.DEVNULL, jobs.DEVNULL)
            self._owner = os.getpid()
            self._control.settimeout(ANSWER_SECONDS)
        return self._control

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
        self._control = self._process = None

    def close(self) -> None:
        with self._lock:
            self._close()


STARTER: Final = Starter()
atexit.register(STARTER.close)


def _starter() -> Job:
    """It reads jobs from its stdin. Our environment is none of its business, nor of who looks at it."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("LD_")}
    return Job(tuple(reaper_command("reaper", "0")), cwd=Path("/"), env=kept)


def _is(identity: tuple[int, int]) -> bool:
    now = read_process(identity[0])
    return now is not None and now.identity == identity


def _described(job: Job, groups: Iterable[JobGroup]) -> IO[bytes]:
    told = {
        "argv": job.argv,
        "cwd": str(job.cwd),
        "env": None if job.env is None else dict(job.env),
        "keeper": job.keeper,
        "groups": [str(group.path) for group in groups],
    }
    file = os.fdopen(os.memfd_create("job"), "w+b")
    file.write(json.dumps(told).encode())
    file.seek(0)
    return file


# --- the starter ----------------------------------------------------------------------------------


def main(control: str) -> None:
    """Fork a reaper for each job that is handed over, until nobody can hand over another."""
    inherit_orphans()
    signal.signal(signal.SIGCHLD, _bury)
    with socket.socket(fileno=int(control)) as jobs_to_come:
        while True:
            word, files, _, _ = socket.recv_fds(jobs_to_come, 1, FILES)
            if not word:
                return
            if os.fork() == 0:  # noqa: TID251 - one thread, and a hundredth of an interpreter's start
                jobs_to_come.close()
                _reap(files)
            for file in files:
                os.close(file)


def _bury(_number: int, _frame: object) -> None:
    """Nobody asks how a reaper ended; but what its job has used of the processor counts as ours."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _reap(files: list[int]) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        inherit_orphans()
        with socket.socket(fileno=files[0]) as line:
            _run(line, *files[1:])
    finally:
        os._exit(0)


def _run(line: socket.socket, description: int, stdin: int, stdout: int, stderr: int) -> None:
    with open(description, "rb") as file:
        told = json.load(file)
    job = Job(argv=tuple(told["argv"]), cwd=Path(told["cwd"]), env=told["env"])
    groups = told_groups(told)
    try:
        with job_groups.born_in(groups):
            process = jobs.start(job, stdin, stdout, stderr)
    except (OSError, ValueError) as problem:
        say(line, {"reaper": os.getpid(), "refused": jobs.why(problem)})
        return
    for given in (stdin, stdout, stderr):
        os.close(given)
    if not say(line, {"reaper": os.getpid(), "started": process.pid}):
        process.kill()  # nobody waits for it any more
    over = threading.Event()
    if told["keeper"]:
        watching = (line, process, over)
        threading.Thread(target=_end_with_the_loop, args=watching, daemon=True).start()
    code = exit_code(process)
    over.set()
    say(line, {"exit": code})
    leave(line, groups)


def _end_with_the_loop(line: socket.socket, process: Started, over: threading.Event) -> None:
    """A keeper ends with its parent, and that was to be the loop."""
    with suppress(OSError):
        line.recv(1)
        if not over.is_set():
            os.kill(process.pid, signal.SIGKILL)


# --- a reaper, in a tmux pane too -----------------------------------------------------------------


def told_groups(told: Mapping[str, Any]) -> tuple[JobGroup, ...]:
    return tuple(JobGroup(Path(path)) for path in told["groups"])


def inherit_orphans() -> None:
    """From now on be the parent of every descendant whose own parent ends, where the system can do this."""
    if SUPPORTED:
        import ctypes

        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def exit_code(process: Started) -> int:
    """Wait for it and reap whom it orphans. Itself it is left to be reaped: until then its group's number
    cannot become a stranger's."""
    if not SUPPORTED:
        return process.wait()
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ended is None:
            return process.wait()
        if ended.si_pid == process.pid:
            return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        with suppress(ChildProcessError):
            os.waitpid(ended.si_pid, 0)


def say(line: socket.socket, fact: Mapping[str, Any]) -> bool:
    """Tell the loop; False where it was killed, and whoever sweeps up after it needs no report."""
    try:
        line.sendall(json.dumps(fact).encode() + b"\n")
    except OSError:
        return False
    return True


def leave(line: socket.socket, groups: Iterable[JobGroup]) -> None:
    """Wait until the loop has ended what it found of the job, or has ended itself; then end the rest.

    A look at the table takes its time, and who is born meanwhile may be missed. The kernel misses nobody: as
    long as anyone lives below us, we have a child.
    """
    with suppress(OSError):
        line.recv(1)
    own = os.getpid()
    rest = Family(
        "", orphans=lambda table: [one for one in table.values() if one.parent == own], groups=groups
    )
    until = time.monotonic() + PATIENCE
    while SUPPORTED and _has_children() and time.monotonic() < until:
        rest.kill_now()
    if rest.groups:
        rest.kill_now()
        rest.remove_groups()


def _has_children() -> bool:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False

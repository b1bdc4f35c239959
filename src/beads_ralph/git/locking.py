"""git commands that outlast other people's locks, and one worker at a time per branch."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.process.jobs import Exit

LOG: Final = logging.getLogger(__name__)
PROC: Final = Path("/proc")
WAIT_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.02
FRESH_SECONDS: Final = 1.0
SLACK_SECONDS: Final = 2.0  # clocks of files and of processes differ a little

# git says "cannot lock ref" also where a name clashes or the ref moved: waiting mends neither.
HELD: Final = re.compile(
    r"unable to create '[^']*\.lock'|could not lock (config )?file|cannot lock ref [^\n]*file exists"
    r"|another git process seems to be running",
    re.IGNORECASE,
)
# What one git says of a worktree that another git is just writing down: over in a moment.
HALF_WRITTEN: Final = re.compile(
    r"failed to read '?[^\n]*(commondir|gitdir|HEAD)|invalid gitfile|malformed gitdir", re.IGNORECASE
)
LOCK_FILE: Final = re.compile(r"'([^']*\.lock)'")


@dataclass(frozen=True)
class Patience:
    """How long to wait for a lock: `tries` times, 2^n units apart, each with jitter."""

    tries: int = 5
    unit: float = 1.0

    def pause(self, attempt: int) -> None:
        time.sleep(self.unit * 2**attempt * secrets.SystemRandom().uniform(0.5, 1.5))


PATIENT: Final = Patience()


def run(*args: str, cwd: Path, patience: Patience = PATIENT) -> Exit:
    """One git command; run again while it fails only because somebody holds a lock."""
    for attempt in range(patience.tries):
        ended = commands.run(*args, cwd=cwd)
        if ended.ok or (not (held := HELD.search(ended.stderr)) and not HALF_WRITTEN.search(ended.stderr)):
            return ended
        if held and _clear_abandoned(ended.stderr, cwd):
            continue
        if attempt + 1 < patience.tries:
            (patience if held else Patience(unit=0.05)).pause(attempt)
    return ended


def output(*args: str, cwd: Path, patience: Patience = PATIENT) -> str:
    """What the command printed; GIT.ERROR with git's own words where it failed."""
    return printed(run(*args, cwd=cwd, patience=patience), args)


def printed(ended: Exit, args: tuple[str, ...]) -> str:
    if ended.ok:
        return ended.stdout.strip("\n")
    command = " ".join(("git", *args))
    details = ended.stderr.strip() or ended.stdout.strip() or f"exit code {ended.code}"
    if ended.timed_out:
        details = f"no end after {commands.TIMEOUT:g} s. {details}"
    action = _lock_action(ended.stderr) if HELD.search(ended.stderr) else None
    raise RalphError(Code.GIT_ERROR, f"{command} failed", details=details, suggested_action=action)


def _lock_action(stderr: str) -> str:
    named = LOCK_FILE.search(stderr)
    lock = named[1] if named else "the lock file that git names"
    return f"See that no other git is at work there; if none is, remove {lock} and run again"


# --- locks whose maker is dead ------------------------------------------------------------------------


def _clear_abandoned(stderr: str, cwd: Path) -> bool:
    """Remove the lock that git names when its maker is proven dead; True where that happened.

    A lock file holds only what git was about to write, so nothing of anybody's work goes with it.
    """
    named = LOCK_FILE.search(stderr)
    if named is None:
        return False
    lock = cwd / named[1]
    if not _is_ours(lock) or not abandoned(lock):
        return False
    LOG.warning("removed %s, whose maker has died", lock)
    with suppress(OSError):
        lock.unlink()
    return True


def _is_ours(lock: Path) -> bool:
    """Locks of linked worktrees and of branches; the main checkout belongs to the user."""
    parents = lock.parts[:-1]
    return "worktrees" in parents or "refs" in parents


def abandoned(lock: Path) -> bool:
    """Whether nobody alive can have made the lock: no process holds it open, and every git that runs
    on this machine was started after it. Where that cannot be seen (no /proc), False."""
    try:
        made = lock.stat().st_mtime
    except OSError:
        return False
    if not PROC.joinpath("self/stat").exists() or time.time() - made < FRESH_SECONDS:
        return False
    gits = (started for _pid, name, started in _processes() if name.startswith("git"))
    return all(started > made + SLACK_SECONDS for started in gits) and not _held_open(lock)


def gits_at(path: Path) -> list[int]:
    """The git commands that run now in this folder or with it among their arguments."""
    gits = [PROC / str(pid) for pid, name, _started in _processes() if name.startswith("git")]
    return [int(entry.name) for entry in gits if _works_at(entry, path)]


def _works_at(entry: Path, path: Path) -> bool:
    if os.fsencode(str(path)) in _read(entry / "cmdline").split(b"\0"):
        return True
    try:
        return (entry / "cwd").readlink().is_relative_to(path.resolve())
    except OSError:  # ended meanwhile, or somebody else's
        return False


def _processes() -> Iterator[tuple[int, str, float]]:
    """Number, name and start (seconds since the epoch) of every process that has not ended."""
    if not PROC.joinpath("self/stat").exists():
        return
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    ticks = os.sysconf("SC_CLK_TCK")
    for entry in PROC.glob("[0-9]*"):
        stat = _read(entry / "stat").decode(errors="replace")
        if not stat:
            continue
        name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
        if rest[0] not in "ZX":
            yield int(entry.name), name, booted + int(rest[19]) / ticks


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _held_open(lock: Path) -> bool:
    real = os.path.realpath(lock)
    for entry in PROC.glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if str(entry.readlink()) == real:
                return True
    return False


def wait_for_orphans(path: Path, seconds: float = commands.TIMEOUT) -> None:
    """Let the git commands of a killed run end by themselves: two at once would undo one another."""
    until = time.monotonic() + seconds
    while pids := gits_at(path):
        if time.monotonic() > until:
            message = f"git commands of an earlier run still work on {path}"
            numbers = ", ".join(map(str, pids))
            raise RalphError(Code.GIT_ERROR, message, suggested_action=f"Wait for them, or end {numbers}")
        time.sleep(POLL_SECONDS)


# --- one worker per branch ----------------------------------------------------------------------------


@contextmanager
def exclusive(repo_root: Path, name: str, seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Only one thread of one process at a time for this name; freed by the system when we are killed."""
    common = repo_root / ".git"
    if not common.is_dir():  # a worktree, or a bare repository
        common = Path(
            commands.output("rev-parse", "--path-format=absolute", "--git-common-dir", cwd=repo_root)
        )
    folder = common / "beads-ralph"
    folder.mkdir(exist_ok=True)
    place = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock"
    descriptor = _acquire(place, name, seconds)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)  # first gone, then free: whoever waits sees that it holds a ghost
        os.close(descriptor)


def _acquire(place: Path, name: str, seconds: float) -> int:
    until = time.monotonic() + seconds
    while True:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if try_lock(descriptor) and _still_there(descriptor, place):
            return descriptor
        os.close(descriptor)
        if time.monotonic() > until:
            message = f"another beads-ralph has been at work on {name} for over {seconds:g} s"
            raise RalphError(Code.GIT_ERROR, message, suggested_action="Wait for it, or stop it")
        time.sleep(POLL_SECONDS)


def try_lock(descriptor: int) -> bool:
    """Take the file's lock if nobody has it; never waits."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_there(descriptor: int, place: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == place.stat().st_ino
    except FileNotFoundError:
        return False


# --- processes by name --------------------------------------------------------------------------------


def process_name() -> str:
    """This process: host, number and start, so that a later one with the same number is another."""
    return f"{os.uname().nodename}:{os.getpid()}:{_started(os.getpid())}"


def is_alive(name: str) -> bool:
    """Whether the process of that name still runs; one on another host counts as alive."""
    host, _colon, rest = name.partition(":")
    number, _colon, started = rest.partition(":")
    if host != os.uname().nodename or not number.isdecimal():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _started(int(number)) == started


def _started(pid: int) -> str:
    """Its start in ticks since boot, with the boot; empty where the system does not tell."""
    stat = _read(PROC / str(pid) / "stat").decode(errors="replace")
    boot = _read(PROC / "sys/kernel/random/boot_id").decode()[:8]
    rest = stat[stat.rindex(")") + 2 :].split() if stat else ["X"]
    return "" if rest[0] in "ZX" else f"{boot}-{rest[19]}"

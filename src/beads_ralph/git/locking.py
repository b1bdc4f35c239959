"""git commands that outlast other people's locks, and one worker at a time per branch."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files.lock import held
from beads_ralph.git import commands
from beads_ralph.process import process_table
from beads_ralph.process.calls import Retry
from beads_ralph.process.jobs import Exit
from beads_ralph.process.process_table import Process

LOG: Final = logging.getLogger(__name__)
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
READS: Final = "cat-file"
WRITES: Final = frozenset({"update-ref", "--stdin"})
STAYING: Final[set[int]] = set()
"""Processes of ours that wait for the next thing to do, and hold no lock meanwhile."""
LOCK_FILE: Final = re.compile(r"'([^']*\.lock)'")


PATIENT: Final = Retry(tries=5)
BRIEF: Final = Retry(tries=5, first=0.05)


def run(*args: str, cwd: Path, retry: Retry = PATIENT) -> Exit:
    """One git command; run again while it fails only because somebody holds a lock."""
    for failures in range(1, retry.tries):
        ended = commands.run(*args, cwd=cwd)
        if ended.ok or (not (taken := HELD.search(ended.stderr)) and not HALF_WRITTEN.search(ended.stderr)):
            return ended
        if not (taken and _clear_abandoned(ended.stderr, cwd)):
            time.sleep((retry if taken else BRIEF).pause(failures))
    return commands.run(*args, cwd=cwd)


def output(*args: str, cwd: Path, retry: Retry = PATIENT) -> str:
    """What the command printed; GIT.ERROR with git's own words where it failed."""
    return printed(run(*args, cwd=cwd, retry=retry), args)


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


def abandoned(lock_file: Path) -> bool:
    """True if nobody alive can have made the lock: no process holds it open, and every git that runs
    on this machine was started after it. Where that cannot be seen (no /proc), False."""
    try:
        made = lock_file.stat().st_mtime
    except OSError:
        return False
    if not process_table.has_table() or time.time() - made < FRESH_SECONDS:
        return False
    gits = (git for git in _gits() if not waits_elsewhere(git.pid, lock_file))
    return all(git.began > made + SLACK_SECONDS for git in gits) and not process_table.is_open(lock_file)


def waits_elsewhere(pid: int, lock_file: Path) -> bool:
    """True if it is the git that moves the refs of another repository's run: it stays as long as that run."""
    folder = process_table.folder_of(pid)
    moves_refs = WRITES.issubset(process_table.words_of(pid))
    return moves_refs and folder is not None and not lock_file.resolve().is_relative_to(folder)


def gits_at(path: Path) -> list[int]:
    """The git commands that run now in this folder or with it among their arguments."""
    return [git.pid for git in _gits() if _works_at(git.pid, path)]


def _gits() -> Iterator[Process]:
    """Those that may write: who only answers questions about objects may stay for hours."""
    named = (one for one in process_table.read_table().values() if _is_git(one.pid))
    others = (one for one in named if one.pid not in STAYING)
    return (one for one in others if READS not in process_table.words_of(one.pid))


def _is_git(pid: int) -> bool:
    return process_table.name_of(pid).startswith("git")


def _works_at(pid: int, path: Path) -> bool:
    if str(path) in process_table.words_of(pid):
        return True
    folder = process_table.folder_of(pid)
    return folder is not None and folder.is_relative_to(path.resolve())


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
    with held(place, seconds, lambda: _busy(name, seconds), remove=True):
        yield


def _busy(name: str, seconds: float) -> RalphError:
    message = f"another beads-ralph has been at work on {name} for over {seconds:g} s"
    return RalphError(Code.GIT_ERROR, message, suggested_action="Wait for it, or stop it")

"""Refs moved through one git that stays: a bead moves a few, and starting git for each costs more than that.

Each change is a transaction of its own, with git's own locks, logs and rules. Where that git refuses or has
died, another one is asked by itself: it tries again while somebody holds a lock, and says what is wrong.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from beads_ralph.git import commands, locking, settings
from beads_ralph.git.settings import GitSettings
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Answering, Exit, Job

STEPS: Final = ("start", "prepare", "commit")


def move(root: Path, ref: str, commit: str) -> Exit:
    """Have the ref lead to the commit, whether it was there before or not."""
    run = settings.at(root)
    if run is not None and _of_run(run).write(f"update {ref} {commit}"):
        return Exit(0)
    return locking.run("update-ref", ref, commit, cwd=root)


def make(root: Path, ref: str, commit: str) -> Exit:
    """The same for a ref that must not be there yet."""
    run = settings.at(root)
    if run is not None and _of_run(run).write(f"create {ref} {commit}"):
        return Exit(0)
    return locking.run("update-ref", ref, commit, "0" * len(commit), cwd=root)


class RefWriter:
    """One `git update-ref` that is told of changes until it is closed. Threads wait for their turn."""

    def __init__(self, run: GitSettings) -> None:
        self._run = run
        self._turn = threading.Lock()
        self._git: Answering | None = None

    def write(self, change: str) -> bool:
        """True if the change was made."""
        if any(sign in change for sign in '\n\0"'):
            return False
        with self._turn:
            try:
                git = self._git = self._git or self._start()
                git.asks.write(f"start\n{change}\nprepare\ncommit\n".encode("utf-8", "surrogateescape"))
                git.asks.flush()
                answers = [git.answers.readline() for _ in STEPS]
            except OSError:
                answers = []
            done = answers == [f"{step}: ok\n".encode() for step in STEPS]
            if not done:  # git ends at the first change that cannot be made
                self._end()
            return done

    def _start(self) -> Answering:
        env = {**commands.FIXED, **settings.environment(self._run.root)}
        words = ("git", "update-ref", "--stdin")
        environment = jobs.environment(env, drop_prefixes=settings.PLACES)
        git = Answering(Job(words, self._run.root, env=environment))
        locking.STAYING.add(git.process.pid)
        return git

    def _end(self) -> None:
        if self._git is not None:
            self._git.end()
            locking.STAYING.discard(self._git.process.pid)
        self._git = None

    def close(self) -> None:
        with self._turn:
            self._end()


# --- the run's ----------------------------------------------------------------------------------------

_writers: Final[dict[Path, RefWriter]] = {}
_opening: Final = threading.Lock()


def rest(root: Path) -> None:
    """Nothing is left running; who moves another ref starts it again."""
    run = settings.at(root)
    writer = _writers.get(run.folder) if run else None
    if writer is not None:
        writer.close()


def _of_run(run: GitSettings) -> RefWriter:
    with _opening:
        if run.folder not in _writers:
            writer = _writers[run.folder] = RefWriter(run)
            run.at_end += [writer.close, lambda: _writers.pop(run.folder, None)]
        return _writers[run.folder]

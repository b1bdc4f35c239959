"""One writer at a time: every thread and every process that writes to one repository waits here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from beads_ralph.errors import Code, RalphError
from beads_ralph.git.locking import try_lock

POLL_SECONDS: Final = 0.05

_turns: dict[Path, threading.Lock] = {}
_turns_guard = threading.Lock()


@contextmanager
def only_writer(lock_file: Path, wait: float) -> Iterator[None]:
    """Hold the lock for the block; DATABASE.TIMEOUT where it did not come free within `wait` seconds."""
    deadline = time.monotonic() + wait
    turn = _turn(lock_file)
    if not turn.acquire(timeout=wait):
        raise _too_late(lock_file, wait)
    try:
        with _opened(lock_file) as handle:
            while not try_lock(handle.fileno()):
                if time.monotonic() > deadline:
                    raise _too_late(lock_file, wait)
                time.sleep(POLL_SECONDS)
            yield  # closing the file gives the lock back, and so does the end of the process
    finally:
        turn.release()


def _turn(lock_file: Path) -> threading.Lock:
    with _turns_guard:
        return _turns.setdefault(lock_file.resolve(), threading.Lock())


def _opened(lock_file: Path) -> TextIO:
    try:
        return lock_file.open("a", encoding="utf-8")
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot open {lock_file}: {problem}") from problem


def _too_late(lock_file: Path, wait: float) -> RalphError:
    return RalphError(
        Code.DATABASE_TIMEOUT,
        f"another writer has held {lock_file} for {wait:g} s",
        suggested_action=f"See who holds it (fuser {lock_file}), wait for it or end it, then run it again",
    )

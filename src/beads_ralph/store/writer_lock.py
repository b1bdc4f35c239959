"""One writer at a time: every thread and every process that writes to one repository waits here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock

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
        left = max(deadline - time.monotonic(), 0.0)
        with lock.held(lock_file, left, lambda: _too_late(lock_file, wait)):
            yield
    finally:
        turn.release()


def _turn(lock_file: Path) -> threading.Lock:
    with _turns_guard:
        return _turns.setdefault(lock_file.resolve(), threading.Lock())


def _too_late(lock_file: Path, wait: float) -> RalphError:
    return RalphError(
        Code.DATABASE_TIMEOUT,
        f"another writer has held {lock_file} for {wait:g} s",
        suggested_action=f"See who holds it (fuser {lock_file}), wait for it or end it, then run it again",
    )

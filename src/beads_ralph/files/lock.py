"""The one lock on a file: the kernel frees it with its holder, however that one ends.

Whoever removes a lock file does so while holding it, and whoever gets hold of a file checks that it is still
the one of that name. So no two can hold two files of one name.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError

POLL_SECONDS: Final = 0.02
PRIVATE: Final = 0o600


@contextmanager
def held(
    path: Path, wait: float, refused: Callable[[], RalphError | None], *, remove: bool = False
) -> Iterator[int]:
    """Hold the lock for the block, against other threads too; gives the file's descriptor.

    Raises what `refused` says where somebody else still has it after `wait` seconds; while it says nothing,
    that one is waited for. With `remove`, nothing is left of the file afterwards.
    """
    descriptor = _acquired(path, wait, refused)
    try:
        yield descriptor
    finally:
        if remove:  # first gone, then free
            path.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def held_folder(path: Path, wait: float, refused: Callable[[], RalphError | None]) -> Iterator[None]:
    """Hold a folder itself, which nobody removes as lightly as a file in it. Some network file systems cannot
    lock folders; there, nothing is held."""
    until = time.monotonic() + wait
    with _opened(path, os.O_RDONLY) as descriptor:
        with suppress(OSError):
            while not _taken(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > until and (error := refused()) is not None:
                    raise error
                time.sleep(POLL_SECONDS)
        yield


def is_held(path: Path) -> bool:
    """Tell whether somebody holds the lock now; any number may ask at once."""
    with suppress(FileNotFoundError), _opened(path, os.O_RDONLY) as descriptor:
        return not _taken(descriptor, fcntl.LOCK_SH)
    return False


def remove_free(path: Path) -> None:
    """Remove the lock file of a holder that died; one that is held stays."""
    with suppress(FileNotFoundError), _opened(path, os.O_RDWR) as descriptor:
        if _taken(descriptor, fcntl.LOCK_EX) and _is_current(descriptor, path):
            path.unlink()


def write_note(descriptor: int, text: str) -> None:
    """Say in the held file who holds it; in place, since the lock belongs to the file and not to its name."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)
    os.fsync(descriptor)


def take(descriptor: int) -> bool:
    """Hold an open file until it is closed, if nobody else does."""
    return _taken(descriptor, fcntl.LOCK_EX)


def take_bytes(descriptor: int, first: int, count: int) -> bool:
    """Lock a part of a file for this process, if no other has a lock there."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
    except (BlockingIOError, PermissionError):
        return False
    return True


def free_bytes(descriptor: int, first: int, count: int) -> None:
    fcntl.lockf(descriptor, fcntl.LOCK_UN, count, first)


def _acquired(path: Path, wait: float, refused: Callable[[], RalphError | None]) -> int:
    until = time.monotonic() + wait
    while True:
        descriptor = _made(path)
        if _taken(descriptor, fcntl.LOCK_EX) and _is_current(descriptor, path):
            return descriptor
        os.close(descriptor)
        if time.monotonic() > until and (error := refused()) is not None:
            raise error
        time.sleep(POLL_SECONDS)


def _taken(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(descriptor: int, path: Path) -> bool:
    """Tell whether the name still leads to the file that was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _made(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot open {path}: {problem.strerror}") from problem

"""Files below a folder that are opened while something runs there.

Linux tells by inotify, without privileges, also through the mounts of a sandbox; elsewhere nobody does.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

IN_OPEN: Final = 0x20
IN_Q_OVERFLOW: Final = 0x4000
IN_ONLYDIR: Final = 0x01000000
IN_ISDIR: Final = 0x40000000
EVENT: Final = struct.Struct("iIII")
BUFFER: Final = 256 * 1024
MOST_FOLDERS: Final = 8000
"""As many as old kernels let one user watch."""


@dataclass
class OpenedFiles:
    """Grows while it is watched."""

    files: set[str] = field(default_factory=set)
    """Relative to the folder."""
    problem: str = ""
    """Why some or all are missing; empty where none is."""
    watcher: _Watcher | None = field(default=None, repr=False, compare=False)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What is opened meanwhile, by whomever, is not noted."""
        if self.watcher is None:
            yield
            return
        self.watcher.note(on=False)
        try:
            yield
        finally:
            self.watcher.note(on=True)


@contextmanager
def watched(root: Path, folders: Iterable[str], opened: OpenedFiles) -> Iterator[None]:
    """Note what is opened in these folders below `root` until the end; where that cannot be, say why."""
    opened.watcher = watcher = _start(root, sorted(set(folders)), opened)
    try:
        yield
    finally:
        opened.watcher = None
        if watcher is not None:
            watcher.stop()


def _start(root: Path, folders: list[str], opened: OpenedFiles) -> _Watcher | None:
    if not sys.platform.startswith("linux"):
        opened.problem = "this platform does not tell which files are opened"
    elif len(folders) > MOST_FOLDERS:
        opened.problem = f"there are {len(folders)} folders, too many to be watched"
    else:
        try:
            return _Watcher(root, folders, opened)
        except OSError as error:
            opened.problem = f"folders cannot be watched: {_why(error)}"
    return None


def _why(error: OSError) -> str:
    limits = {errno.ENOSPC: "fs.inotify.max_user_watches", errno.EMFILE: "fs.inotify.max_user_instances"}
    limit = limits.get(error.errno or 0)
    return f"{limit} is used up" if limit else error.strerror or str(error)


class _Watcher:
    """Reads in a thread, lest the kernel's queue be full."""

    def __init__(self, root: Path, folders: Iterable[str], opened: OpenedFiles) -> None:
        self.opened = opened
        self.notes = True
        self.turn = threading.Lock()
        library = ctypes.CDLL(None, use_errno=True)
        self.descriptor = _checked(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self.places: dict[int, str] = {}
        try:
            for folder in folders:
                path = os.fsencode(root / folder)
                try:
                    number = _checked(library.inotify_add_watch(self.descriptor, path, IN_OPEN | IN_ONLYDIR))
                except (FileNotFoundError, NotADirectoryError):
                    continue
                self.places[number] = folder
        except OSError:
            os.close(self.descriptor)
            raise
        self.end, self.told_to_end = os.pipe()
        self.thread = threading.Thread(target=self._read_on, name="opened-files", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Everything that was opened so far is noted by then."""
        os.close(self.told_to_end)
        self.thread.join()
        self._read()
        os.close(self.end)
        os.close(self.descriptor)

    def _read_on(self) -> None:
        waiting = select.poll()
        for number in (self.descriptor, self.end):
            waiting.register(number, select.POLLIN | select.POLLHUP)
        while all(number != self.end for number, _ in waiting.poll()):
            self._read()

    def note(self, *, on: bool) -> None:
        """From here on what is opened is noted, or not; what was opened before is dealt with as was said."""
        with self.turn:
            self._read_all()
            self.notes = on

    def _read(self) -> None:
        with self.turn:
            self._read_all()

    def _read_all(self) -> None:
        with suppress(BlockingIOError):
            while data := os.read(self.descriptor, BUFFER):
                if self.notes:
                    self._note(data)

    def _note(self, data: bytes) -> None:
        place = 0
        while place < len(data):
            number, mask, _, length = EVENT.unpack_from(data, place)
            name = data[place + EVENT.size : place + EVENT.size + length].rstrip(b"\0")
            place += EVENT.size + length
            if mask & IN_Q_OVERFLOW:
                self.opened.problem = "more files were opened at once than the kernel told of"
            elif name and not mask & IN_ISDIR and number in self.places:
                folder = self.places[number]
                self.opened.files.add(f"{folder}/{os.fsdecode(name)}" if folder else os.fsdecode(name))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

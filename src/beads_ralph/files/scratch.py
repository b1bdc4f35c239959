"""Folders that nobody can guess, for as long as a process lives, in the temporary folder."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock

MARK: Final = ".beads-ralph"
"""A file that the folder's process holds locked, so that what a killed one left can be told."""
_held: Final[dict[Path, int]] = {}
_owner: Final = os.getpid()


def make() -> Path:
    """A new folder with a random name."""
    try:
        folder = Path(tempfile.mkdtemp()).resolve()
        descriptor = os.open(folder / f"{MARK}-new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (folder / f"{MARK}-new").rename(folder / MARK)  # with its lock: nobody sees it free
    except OSError as problem:
        message = f"cannot make a folder in {tempfile.gettempdir()}: {problem.strerror}"
        raise RalphError(Code.WRITE_FAILED, message, suggested_action="Set TMPDIR to another place") from None
    _held[folder] = descriptor
    return folder


def discard(folder: Path) -> None:
    """Remove a folder of ours with all that is in it."""
    if (descriptor := _held.pop(folder, None)) is not None:
        remove(folder)
        os.close(descriptor)


def sweep() -> list[Path]:
    """Remove what killed processes left; what was removed."""
    place = Path(tempfile.gettempdir()).resolve()
    left = [folder for folder in place.glob("tmp*") if _is_left(folder)]
    for folder in left:
        remove(folder)
    return left


def _is_left(folder: Path) -> bool:
    try:
        own = folder.lstat().st_uid == os.getuid() and stat.S_ISDIR(folder.lstat().st_mode)
        return own and (folder / MARK).is_file() and not lock.is_held(folder / MARK)
    except OSError:
        return False


def remove(folder: Path) -> None:
    """The folder and everything in it, also what its makers made read-only."""
    shutil.rmtree(folder, onerror=_writable_first)


def _writable_first(remove: Callable[[str], Any], name: str, _problem: object) -> None:
    """Some tools make their caches read-only, folders included."""
    parent = Path(name).parent
    for place in (parent, Path(name)):
        if place.exists() and not place.is_symlink():
            place.chmod(place.stat().st_mode | stat.S_IRWXU)
    if remove in (os.open, os.scandir, os.lstat):
        shutil.rmtree(name, ignore_errors=True)
    elif Path(name).exists() or Path(name).is_symlink():
        remove(name)


@atexit.register
def _discard_all() -> None:
    for folder in list(_held) if os.getpid() == _owner else ():
        discard(folder)

"""Folders that nobody can guess, for as long as a process lives, in the temporary folder."""

from __future__ import annotations

import atexit
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock

MARK: Final = ".beads-ralph"
"""A file that the folder's process holds locked, so that what a killed one left can be told."""
PASSING: Final = "beads-ralph-new-"
"""How a folder is named while it is made or removed; the number of the process follows."""
_held: Final[dict[Path, int]] = {}
_owner: Final = os.getpid()


def make() -> Path:
    """A new folder with a random name."""
    import tempfile  # as late as this, like the others: looking at things needs none of it

    try:
        new = Path(tempfile.mkdtemp(prefix=f"{PASSING}{os.getpid()}-")).resolve()
        descriptor = os.open(new / MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        lock.take(descriptor)
        folder = new.with_name(f"tmp{os.urandom(4).hex()}")
        new.rename(folder)  # with its mark and its lock: nobody sees it free
    except OSError as problem:
        message = f"cannot make a folder in {tempfile.gettempdir()}: {problem.strerror}"
        raise RalphError(Code.WRITE_FAILED, message, suggested_action="Set TMPDIR to another place") from None
    _held[folder] = descriptor
    return folder


def discard(folder: Path) -> None:
    """Remove a folder of ours with all that is in it."""
    if (descriptor := _held.pop(folder, None)) is not None:
        _remove_whole(folder)
        os.close(descriptor)


def _remove_whole(folder: Path) -> None:
    """Under a name that says whose it is: killed halfway, its mark may be gone."""
    passing = folder.with_name(f"{PASSING}{os.getpid()}-{os.urandom(4).hex()}")
    with suppress(FileNotFoundError):
        folder.rename(passing)
        remove(passing)


def sweep() -> list[Path]:
    """Remove what killed processes left; what was removed."""
    import tempfile

    place = Path(tempfile.gettempdir()).resolve()
    passing = [folder for folder in place.glob(f"{PASSING}*") if _is_left(folder)]
    for folder in passing:
        remove(folder)
    return [*passing, *(folder for folder in place.glob("tmp*") if _remove_left(folder))]


def _is_left(folder: Path) -> bool:
    """Tell whether whoever was making or removing a folder of ours was killed."""
    pid = folder.name.removeprefix(PASSING).partition("-")[0]
    try:
        mine = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return mine
    except (OSError, ValueError, OverflowError):
        return False
    return False


def _remove_left(folder: Path) -> bool:
    """Whoever removes a folder holds its mark, as its owner does: so there is one."""
    try:
        about = folder.lstat()
        if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode):
            return False
        descriptor = os.open(folder / MARK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if not lock.take(descriptor):  # its owner lives
            return False
        _remove_whole(folder)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def remove(path: Path) -> None:
    """A file, or a folder and everything in it, also what its makers made read-only. A link goes, not what it
    leads to."""
    import shutil

    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, onerror=_writable_first)


def _writable_first(remove: Callable[[str], Any], name: str, _problem: object) -> None:
    """Some tools make their caches read-only, folders included."""
    parent = Path(name).parent
    for place in (parent, Path(name)):
        if place.exists() and not place.is_symlink():
            with suppress(FileNotFoundError):
                place.chmod(place.stat().st_mode | stat.S_IRWXU)
    if remove in (os.open, os.scandir, os.lstat):
        import shutil

        shutil.rmtree(name, ignore_errors=True)
    elif Path(name).exists() or Path(name).is_symlink():
        remove(name)


@atexit.register
def _discard_all() -> None:
    for folder in list(_held) if os.getpid() == _owner else ():
        discard(folder)

"""Text files and the `.ralph` folder: read bounded, written whole or not at all, errors name the path."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock

MAX_BYTES: Final = 32 * 1024 * 1024
RALPH_DIR: Final = ".ralph"
"""The directory of our own files in a repository, which git does not see."""
PRIVATE: Final = lock.PRIVATE
PRIVATE_FOLDER: Final = 0o700
OTHERS: Final = 0o077
TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")
"""A file of ours until it is whole."""
UNSWEPT: Final = frozenset({"jobs", "objects"})
"""Folders of transcripts and of git's objects: there are many files there, and none of these."""


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """A file's text, its line ends and BOM untouched."""
    return _text(read_bytes(path, limit), str(path))


def read_stdin(limit: int = MAX_BYTES) -> str:
    """All of stdin as UTF-8, whatever the locale says."""
    return _text(_bounded(sys.stdin.buffer.read(limit + 1), "<stdin>", limit), "<stdin>")


def _text(data: bytes, path: str) -> str:
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise RalphError(Code.NOT_TEXT, f"{path}:{line}: not a text file (it holds NUL bytes)")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        byte = data[problem.start]
        raise RalphError(Code.NOT_TEXT, f"{path}:{line}: not UTF-8 text (byte 0x{byte:02x})") from None


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """All of a file, or of a pipe such as `<(command)`, up to a limit. Other pipes and devices are
    refused: they could keep us waiting for ever."""
    try:
        with open(path, "rb", opener=_opened) as source:
            data = source.read(limit + 1)
    except FileNotFoundError:
        raise RalphError(Code.FILE_NOT_FOUND, f"{path} does not exist") from None
    except IsADirectoryError:
        raise RalphError(Code.FILE_NOT_FOUND, f"{path} is a directory, not a file") from None
    except PermissionError:
        raise RalphError(Code.PERMISSION_DENIED, f"cannot read {path}: permission denied") from None
    except (OSError, ValueError) as problem:  # ValueError: a path with a NUL byte in it
        raise RalphError(Code.FILE_NOT_FOUND, f"cannot read {path}: {problem}") from None
    return _bounded(data, str(path), limit)


GIVEN_OPEN: Final = ("/dev/fd/", "/dev/stdin")
"""Where the shell puts what it has opened for us."""


def _opened(path: str, flags: int) -> int:
    """Open without waiting for somebody at the other end."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    mode = os.fstat(descriptor).st_mode
    known = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path == os.devnull
    if known or path.startswith(GIVEN_OPEN):
        return descriptor
    os.close(descriptor)
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    action = "Name a file, or - for stdin where the command takes it"
    raise RalphError(Code.FILE_NOT_FOUND, f"{path} is {kind}, not a file", suggested_action=action)


def _bounded(data: bytes, path: str, limit: int) -> bytes:
    if len(data) > limit:
        most = f"{limit / 2**20:.0f} MiB, the most that is read"
        raise RalphError(Code.TOO_LARGE, f"{path} is larger than {most}")
    return data


def make_folder(path: Path, *, private: bool = False) -> None:
    """The folder and those above it. Below `.ralph`, and where it is `private`, only the user gets in."""
    try:
        for place in reversed((path, *path.parents)):
            if not place.is_dir():
                place.mkdir(PRIVATE_FOLDER if private or is_ours(place) else 0o777, exist_ok=True)
    except PermissionError:
        raise RalphError(Code.PERMISSION_DENIED, f"cannot make {path}: permission denied") from None
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot make {path}: {problem.strerror or problem}") from None


def write_text(path: Path, text: str, *, sync: bool = True, private: bool = False) -> None:
    """Replace the file in one step, keeping its mode; on any failure the old one stays as it was. Without
    `sync` it may take the disk a moment: for what can be made again from elsewhere. Below `.ralph`, and where
    it is `private`, only the user can read it."""
    target = path.resolve()  # a link stays a link
    private = private or is_ours(target)
    temporary: Path | None = None
    try:
        descriptor, temporary = _held_temporary(target, PRIVATE if private else 0o666)
        with os.fdopen(descriptor, "wb") as out:  # held until it has its name
            out.write(text.encode("utf-8"))
            out.flush()
            if sync:
                os.fsync(out.fileno())
            if target.exists() and not private:
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
    except PermissionError:
        raise RalphError(Code.PERMISSION_DENIED, f"cannot write {path}: permission denied") from None
    except UnicodeEncodeError:
        message = f"cannot write {path}: half of a surrogate pair in the text"
        raise RalphError(Code.NOT_TEXT, message) from None
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _held_temporary(target: Path, mode: int) -> tuple[int, Path]:
    """A new file beside the target, locked, so that those who sweep can tell it from what a killed process
    left."""
    while True:
        path = target.with_name(f".{target.name}.{os.urandom(4).hex()}.tmp")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            held = lock.take(descriptor)
        except OSError:  # a file system without locks
            return descriptor, path
        if held and path.exists():
            return descriptor, path
        os.close(descriptor)  # somebody sweeps, and has found it before it was locked


def sweep(folder: Path, *, deep: bool = False) -> list[Path]:
    """Remove what processes that were killed had half written in the folder, with `deep` below it too; what
    was removed. A file that somebody is writing stays, and so does whatever is not ours."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if deep and name not in UNSWEPT]
        found += [Path(place, name) for name in names if TEMPORARY.fullmatch(name)]
    return [path for path in found if _remove_left(path)]


def _remove_left(path: Path) -> bool:
    with suppress(OSError):  # gone meanwhile, or somebody else's
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if lock.take(descriptor):
                path.unlink()
                return True
        finally:
            os.close(descriptor)
    return False


# --- files of ours that nobody else has to see ------------------------------------------------------


def is_ours(path: Path) -> bool:
    """Tell whether it lies in a `.ralph` folder, or is one."""
    return RALPH_DIR in path.parts


def open_private(path: Path, flags: int) -> int:
    """A descriptor of the file, which is made where it is missing, for the user alone."""
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, PRIVATE)


def tighten(folder: Path) -> None:
    """Take from everybody else what older versions let them have of a folder of ours. The folder itself comes
    last: while it stands open, not all of it is done. Checkouts in it are left to git."""
    if not (folder.is_dir() and folder.stat().st_mode & OTHERS):
        return
    for place, folders, names in os.walk(folder):
        if ".git" in (*folders, *names):
            folders.clear()
            continue
        for path in (Path(place, name) for name in (*folders, *names)):
            _keep_for_user(path)
    _keep_for_user(folder)


def _keep_for_user(path: Path) -> None:
    with suppress(OSError):  # gone meanwhile, or somebody else's
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~OTHERS)


# --- the .ralph folder ----------------------------------------------------------------------------


def ralph_dir(root: Path) -> Path:
    """Make `root/.ralph` with a .gitignore that hides everything in it, itself included."""
    directory = root / RALPH_DIR
    ignore = directory / ".gitignore"
    try:
        if not directory.is_dir():
            directory.parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(PRIVATE_FOLDER, exist_ok=True)
        if not ignore.exists():
            ignore.touch(PRIVATE)
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as problem:
        raise _cannot_make(directory, problem) from problem
    return directory


def check_ralph_dir(root: Path) -> None:
    """Raise what making it would meet, without making it."""
    directory = root / RALPH_DIR
    if os.path.lexists(directory) and not directory.is_dir():
        raise _cannot_make(directory, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)))
    nearest = next(place for place in (directory, *directory.parents) if place.exists())
    if not os.access(nearest, os.W_OK):
        raise _cannot_make(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _cannot_make(directory: Path, problem: OSError) -> RalphError:
    code = Code.PERMISSION_DENIED if isinstance(problem, PermissionError) else Code.WRITE_FAILED
    above, name = directory.parent, directory.name
    advice = f"Make {above} a directory that you may write in, with no file named {name} in it"
    message = f"cannot make {directory}: {problem.strerror}"
    return RalphError(code, message, suggested_action=advice)

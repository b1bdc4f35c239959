"""Reading and writing text files: bounded, whole or not at all, with errors that name the path."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError

MAX_BYTES: Final = 32 * 1024 * 1024


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """A regular file's text, its line ends and BOM untouched."""
    data = read_bytes(path, limit)
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
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            raise RalphError(Code.FILE_NOT_FOUND, f"{path} is a directory, not a file")
        if not stat.S_ISREG(facts.st_mode):
            raise RalphError(Code.FILE_NOT_FOUND, f"{path} is not a regular file")
        if facts.st_size > limit:
            size, most = facts.st_size / 2**20, limit / 2**20
            raise RalphError(Code.TOO_LARGE, f"{path} has {size:.0f} MiB; at most {most:.0f} MiB are read")
        return path.read_bytes()
    except FileNotFoundError:
        raise RalphError(Code.FILE_NOT_FOUND, f"{path} does not exist") from None
    except PermissionError:
        raise RalphError(Code.PERMISSION_DENIED, f"cannot read {path}: permission denied") from None
    except (OSError, ValueError) as problem:  # ValueError: a path with a NUL byte in it
        raise RalphError(Code.FILE_NOT_FOUND, f"cannot read {path}: {problem}") from None


def write_text(path: Path, text: str) -> None:
    """Replace the file in one step, keeping its mode; on any failure the old one stays as it was."""
    target = path.resolve()  # a link stays a link
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(text.encode("utf-8"))
            out.flush()
            os.fsync(out.fileno())
        Path(temporary).chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644)
        Path(temporary).replace(target)
    except PermissionError:
        raise RalphError(Code.PERMISSION_DENIED, f"cannot write {path}: permission denied") from None
    except OSError as problem:
        raise RalphError(Code.WRITE_FAILED, f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                Path(temporary).unlink()

"""`.ralph`: the directory of our own files in a repository, which git does not see."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError

NAME: Final = ".ralph"


def ralph_dir(root: Path) -> Path:
    """Make `root/.ralph` with a .gitignore that hides everything in it, itself included."""
    directory = root / NAME
    ignore = directory / ".gitignore"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as problem:
        raise _cannot_make(directory, problem) from problem
    return directory


def check_ralph_dir(root: Path) -> None:
    """Raise what making it would meet, without making it."""
    directory = root / NAME
    if os.path.lexists(directory) and not directory.is_dir():
        raise _cannot_make(directory, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)))
    nearest = next(place for place in (directory, *directory.parents) if place.exists())
    if not os.access(nearest, os.W_OK):
        raise _cannot_make(directory, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _cannot_make(directory: Path, problem: OSError) -> RalphError:
    code = Code.PERMISSION_DENIED if isinstance(problem, PermissionError) else Code.WRITE_FAILED
    advice = f"Make {directory.parent} a directory that you may write in, with no file named {NAME} in it"
    message = f"cannot make {directory}: {problem.strerror}"
    return RalphError(code, message, suggested_action=advice)

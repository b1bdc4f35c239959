"""A full disk: how it is told from other trouble, and named."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NAMED: Final = "the disk is full"
WORDS: Final = (os.strerror(errno.ENOSPC).lower(), os.strerror(errno.EDQUOT).lower(), "disk is full")
"""In small letters: git, SQLite and the programs of bd say it each in their own."""
LEAST: Final = 1024 * 1024
"""Where fewer bytes are free, what failed has failed for that."""


@contextmanager
def named(*places: Path) -> Iterator[None]:
    """Errors that come of a full disk name it, and say what to do; `places` are where it may be."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        where = [Path(os.fsdecode(problem.filename))] if problem.filename else []
        raise full([*where, *places]) from problem
    except RalphError as error:
        if error.code == Code.DISK_FULL or not says_full(f"{error.message} {error.text}"):
            raise
        raise full(places, error.message) from error


def says_full(text: str) -> bool:
    said = text.lower()
    return any(words in said for words in WORDS)


def full(places: list[Path] | tuple[Path, ...], said: str = "") -> RalphError:
    """The error that names the one of the places with the least room."""
    free = {place: _free(place) for place in (*places, Path(tempfile.gettempdir()))}
    worst = min(free, key=lambda place: free[place])
    message = f"{NAMED}: {worst} has {free[worst]} bytes free"
    action = (
        f"Free some space on the disk of {worst}, then run again: beads-ralph run; no attempt was counted"
    )
    return RalphError(Code.DISK_FULL, message, details=said, suggested_action=action)


def full_place(*places: Path) -> Path | None:
    """One of the places on whose disk there is no room left."""
    everywhere = (*places, Path(tempfile.gettempdir()))
    return next((place for place in everywhere if _free(place) < LEAST), None)


def _free(place: Path) -> int:
    """Bytes that may still be written there; none where no further file can be made."""
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        found = os.statvfs(place)
    except OSError:
        return LEAST
    return 0 if found.f_files and not found.f_favail else found.f_bavail * found.f_frsize

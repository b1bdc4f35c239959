"""Files as they were at one moment, so that what somebody changed since then can be named.

Nobody but the kernel sets the time of a file's last change (ctime): a file that is put there, moved there or
written to has a later one, whatever its other times say.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

SMALL: Final = 256 * 1024
"""Files up to this size are compared by content, so that one which was only touched counts as unchanged."""
COMPILED: Final = "__pycache__"


Facts = tuple[int, int, int, int]
"""Mode, inode, size and time of change. There may be hundreds of files to look at before each check, so
names are plain strings here."""


@dataclass(frozen=True)
class Mark:
    """What tells a file from another one."""

    facts: Facts
    content: bytes | None
    """Its hash; None for a large file, or for something else than a file."""


def _facts(path: str) -> Facts | None:
    """Of the file, or of what a link leads to; None where there is none that could be looked at."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_ctime_ns


def _mark(path: str) -> Mark | None:
    if (facts := _facts(path)) is None:
        return None
    content = None
    with suppress(OSError):
        if stat.S_ISREG(facts[0]) and facts[2] <= SMALL:
            content = blake2b(Path(path).read_bytes(), digest_size=16).digest()
    return Mark(facts, content)


@dataclass(frozen=True)
class Snapshot:
    """Marks of files, by path."""

    marks: dict[str, Mark | None]

    @classmethod
    def of(cls, paths: Iterable[str]) -> Snapshot:
        return cls({path: _mark(path) for path in paths})

    def changed(self, paths: Iterable[str]) -> list[str]:
        """Those that are other files than before, or new; and those that are gone."""
        now = dict.fromkeys(paths)
        gone = [path for path, before in self.marks.items() if before and path not in now]
        return [path for path in now if not _same(self.marks.get(path), path)] + gone


def _same(before: Mark | None, path: str) -> bool:
    """The content is looked at only where the kernel has noted a change."""
    if before is not None and before.facts == _facts(path):
        return True
    now = _mark(path)
    if before is None or now is None:
        return before is now
    return now.content is not None and (before.facts[0], before.content) == (now.facts[0], now.content)


def programs(folder: str) -> list[str]:
    """The files of a folder, those in folders below it not among them."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if not entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


@dataclass(frozen=True)
class FolderSurvey:
    """A whole folder, too large to be read: how many files it has, and which were changed lately."""

    count: int
    newer: list[Path]
    compiled: bool
    """True if only Python's compiled modules were: it makes those by itself."""


def survey(folder: Path, moment: int) -> FolderSurvey:
    """Look at everything below; `moment` is a time in nanoseconds."""
    count, newer, compiled = 0, [], False
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        late = [path for name in (*names, *links) if _changed_at(path := Path(place, name)) > moment]
        if Path(place).name == COMPILED:
            compiled = compiled or bool(late)
        else:
            count += len(names)
            newer += late
    return FolderSurvey(count, newer, compiled)


def _changed_at(path: Path) -> int:
    try:
        return path.lstat().st_ctime_ns
    except OSError:
        return 0

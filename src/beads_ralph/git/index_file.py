"""git's index, read from its file: whether a checkout is still what git has put there.

Most checks change nothing. To see that, it takes a look at every file, and no git: the index says what each
of them was like when git wrote it. Whatever is not plain to see (another format, a submodule, a file that
was touched, a file that nobody knows) is left to git itself.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HEADER: Final = struct.Struct(">4sII")
FACTS: Final = struct.Struct(">10I")
PLAIN_FORMAT: Final = 2
OTHER_STATES: Final = 0xF000
"""Flags of an entry: assumed to be unchanged, extended, and at which stage of a merge."""
NAME_LENGTH: Final = 0x0FFF
WORD: Final = 0xFFFFFFFF
"""What the index keeps of a number."""
MOST_FILES: Final = 2000
"""git looks at many more faster than we do."""
TICK: Final = 20_000_000
"""Nanoseconds in which a file system may give two changes the same time."""
REPOSITORY: Final = ".git"


@dataclass(frozen=True)
class _IndexEntry:
    facts: tuple[int, ...]
    """Times, inode, mode, owner and size, as git writes them."""
    id: bytes

    @property
    def changed_at(self) -> int:
        return max(self.facts[at] * 1_000_000_000 + self.facts[at + 1] for at in (0, 2))


def is_unchanged(tree: Path, index: Path, id_length: int) -> bool:
    """Every file of the index is as git has put it there, and there is no other; False where git has to be
    asked. `id_length` is that of a commit's name."""
    try:
        entries = _entries(index.read_bytes(), id_length // 2)
        if entries is None or not _are_all(str(tree), entries):
            return False
        written = index.stat().st_mtime_ns - TICK
        return all(_is_as_written(f"{tree}/{name}", entry, written) for name, entry in entries.items())
    except (OSError, ValueError, struct.error):
        return False


def _entries(data: bytes, length: int) -> dict[str, _IndexEntry] | None:
    signature, version, count = HEADER.unpack_from(data)
    if signature != b"DIRC" or version != PLAIN_FORMAT or count > MOST_FILES:
        return None
    found: dict[str, _IndexEntry] = {}
    place = HEADER.size
    for _ in range(count):
        after = place + FACTS.size + length
        (flags,) = struct.unpack_from(">H", data, after)
        end = data.index(b"\0", after + 2 + min(flags & NAME_LENGTH, NAME_LENGTH))
        entry = _IndexEntry(FACTS.unpack_from(data, place), data[after - length : after])
        if flags & OTHER_STATES or stat.S_IFMT(entry.facts[6]) not in (stat.S_IFREG, stat.S_IFLNK):
            return None
        found[os.fsdecode(data[after + 2 : end])] = entry
        place += (end - place + 8) // 8 * 8  # filled up with zeros, at least one
    return found


def _are_all(tree: str, entries: dict[str, _IndexEntry]) -> bool:
    """No file lies there that is not in the index; an empty folder is nothing to git."""
    return all(name in entries for name in _files(tree, ""))


def _files(folder: str, below: str) -> Iterator[str]:
    with os.scandir(folder) as found:
        for one in found:
            if one.is_dir(follow_symlinks=False):
                if below or one.name != REPOSITORY:
                    yield from _files(one.path, f"{below}{one.name}/")
            else:
                yield f"{below}{one.name}"


def _is_as_written(path: str, entry: _IndexEntry, written: int) -> bool:
    now = os.lstat(path)
    if _facts(now) != _without_device(entry.facts):
        return False
    return entry.changed_at < written or _hash_of(path, now, len(entry.id)) == entry.id


def _facts(now: os.stat_result) -> tuple[int, ...]:
    mode = stat.S_IFMT(now.st_mode)
    if mode == stat.S_IFREG:
        mode |= 0o755 if now.st_mode & stat.S_IXUSR else 0o644
    times = (*divmod(now.st_ctime_ns, 1_000_000_000), *divmod(now.st_mtime_ns, 1_000_000_000))
    return tuple(one & WORD for one in (*times, now.st_ino, mode, now.st_uid, now.st_gid, now.st_size))


def _without_device(facts: tuple[int, ...]) -> tuple[int, ...]:
    """Some systems number their devices anew at every start, so git does not go by it either."""
    return (*facts[:4], *facts[5:])


def _hash_of(path: str, now: os.stat_result, length: int) -> bytes:
    """The id that the content has for git; a file that git converts on its way is none of ours to judge."""
    content = bytes(Path(path).readlink()) if stat.S_ISLNK(now.st_mode) else Path(path).read_bytes()
    kind = hashlib.sha1 if length == hashlib.sha1().digest_size else hashlib.sha256  # noqa: S324 - git's own
    return kind(b"blob %d\0" % len(content) + content).digest()

"""A commit with all that is new in it as a pack, made from objects that are read one by one.

A fetch starts six processes to bring what a bead has changed, mostly a handful of objects. What is read here
is hashed anew, and whatever it refers to is in the pack, or in a commit that is whole where the pack goes to.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beads_ralph.git.objects import FOLDER, SUBMODULE, ObjectReader, TreeEntry, entries_of

KINDS: Final = {"commit": 1, "tree": 2, "blob": 3}
MOST_OBJECTS: Final = 500
MOST_BYTES: Final = 16 * 1024 * 1024
"""More than that git brings by itself, and faster."""
TREE: Final = re.compile(rb"tree ([0-9a-f]+)\n")
PARENT: Final = re.compile(rb"^parent ([0-9a-f]+)$", re.MULTILINE)


class TooMuchError(Exception):
    """Something is not to be had in this way: too many objects, or one that is missing or damaged."""


@dataclass(frozen=True)
class Pack:
    """Objects, and where each of them is: the two files that git keeps."""

    content: bytes
    index: bytes

    @property
    def name(self) -> str:
        """Nobody else's, unless it holds the same."""
        return f"pack-{hashlib.sha256(self.content).hexdigest()[:40]}"

    def put(self, folder: Path) -> bool:
        """Place both there; git takes a pack for one as soon as it has its index."""
        try:
            for end, data in ((".pack", self.content), (".idx", self.index)):
                new = folder / f"tmp_{self.name}-{secrets.token_hex(4)}"
                new.write_bytes(data)
                new.chmod(0o444)
                new.replace(folder / f"{self.name}{end}")
        except OSError:
            return False
        return True


@dataclass
class NewObjects:
    """What commits have that the known ones have not. A known commit is whole where the pack goes to."""

    reader: ObjectReader
    is_known: Callable[[str], bool]
    found: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    _size: int = 0

    def add(self, commit: str) -> None:
        """TooMuchError where git has to bring it."""
        waiting = [commit]
        while waiting:
            id_ = waiting.pop()
            if id_ in self.found or self.is_known(id_):
                continue
            content = self._taken(id_, "commit")
            parents = _parents(content)
            self._add_tree(_tree(content), [_tree(self._read(one, "commit")) for one in parents])
            waiting += parents

    @property
    def commits(self) -> set[str]:
        return {id_ for id_, (kind, _) in self.found.items() if kind == "commit"}

    def packed(self) -> Pack:
        """Where nothing is new, there is nothing to pack."""
        content, rows = bytearray(b"PACK" + struct.pack(">II", 2, len(self.found))), []
        for id_, (kind, said) in self.found.items():
            entry = _header(KINDS[kind], len(said)) + zlib.compress(said, 1)
            rows.append((bytes.fromhex(id_), zlib.crc32(entry), len(content)))
            content += entry
        length = len(next(iter(self.found)))
        content += _hash(content, length)
        return Pack(bytes(content), _index(sorted(rows), bytes(content[-length // 2 :]), length))

    def _add_tree(self, id_: str, others: list[str]) -> None:
        """A tree, without what one of the others has in the same place."""
        if id_ in self.found or id_ in others:
            return
        known = [self._entries(self._read(one, "tree"), one) for one in others]
        for name, entry in self._entries(self._taken(id_, "tree"), id_).items():
            if entry.mode == SUBMODULE or any(one.get(name) == entry for one in known):
                continue
            if entry.mode == FOLDER:
                there = [one[name].id for one in known if name in one and one[name].mode == FOLDER]
                self._add_tree(entry.id, there)
            elif entry.id not in self.found:
                self._taken(entry.id, "blob")

    def _entries(self, content: bytes, id_: str) -> Mapping[str, TreeEntry]:
        return dict(entries_of(content, len(id_) // 2))

    def _taken(self, id_: str, kind: str) -> bytes:
        content = self._read(id_, kind)
        self.found[id_] = kind, content
        self._size += len(content)
        if len(self.found) > MOST_OBJECTS or self._size > MOST_BYTES:
            raise TooMuchError
        return content

    def _read(self, id_: str, kind: str) -> bytes:
        if id_ in self.found:
            return self.found[id_][1]
        content = self.reader.whole(id_, kind)
        if (
            content is None
            or _hash(b"%s %d\0" % (kind.encode(), len(content)) + content, len(id_)).hex() != id_
        ):
            raise TooMuchError
        return content


def _parents(commit: bytes) -> list[str]:
    return [one.decode() for one in PARENT.findall(commit.partition(b"\n\n")[0])]


def _tree(commit: bytes) -> str:
    named = TREE.match(commit)
    if named is None:
        raise TooMuchError
    return named[1].decode()


def _hash(data: bytes | bytearray, length: int) -> bytes:
    sha1 = hashlib.sha1(usedforsecurity=False)
    kind = sha1 if length == 2 * sha1.digest_size else hashlib.sha256()
    kind.update(data)
    return kind.digest()


def _index(rows: list[tuple[bytes, int, int]], checksum: bytes, length: int) -> bytes:
    """Of ids in order: how many begin with each byte or a lower one, the ids, and where they are."""
    firsts = [id_[0] for id_, _, _ in rows]
    parts = [
        b"\xfftOc" + struct.pack(">I", 2),
        struct.pack(">256I", *(sum(first <= byte for first in firsts) for byte in range(256))),
        b"".join(id_ for id_, _, _ in rows),
        b"".join(struct.pack(">I", crc) for _, crc, _ in rows),
        b"".join(struct.pack(">I", place) for _, _, place in rows),
        checksum,
    ]
    data = b"".join(parts)
    return data + _hash(data, length)


def _header(kind: int, size: int) -> bytes:
    return bytes(_bytes_of(kind << 4 | size & 0x0F, size >> 4))


def _bytes_of(first: int, rest: int) -> Iterator[int]:
    """Seven bits to a byte, of which the eighth says whether more follow."""
    while rest:
        yield first | 0x80
        first, rest = rest & 0x7F, rest >> 7
    yield first

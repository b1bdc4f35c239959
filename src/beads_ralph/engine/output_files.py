"""A session's output on its way to the coordinator: pieces of files, each with its place in the file.

The files of a host are the spool: what could not be sent yet is read again later. A piece that comes twice is
written to the same place twice.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from beads_ralph.files import text_files
from beads_ralph.journal.runs import RunFolder

PIECE: Final = 256 * 1024
MOST: Final = 600 * 1024
"""So much, compressed, one batch carries: a payload of the server may have 2 MiB."""
SUFFIXES: Final = (".out", ".err")

Piece = Mapping[str, Any]


@dataclass
class GrowingFiles:
    """The files of a folder, read from where they were read to before."""

    sent: dict[str, int] = field(default_factory=dict)

    def pieces(self, folder: Path | None) -> list[Piece]:
        """The next pieces, as many as a batch takes; `taken` says that they have arrived."""
        if folder is None or not folder.is_dir():
            return []
        found: list[Piece] = []
        room = MOST
        for path in sorted(folder.iterdir()):
            for piece in self._of(path):
                room -= len(piece["data"])
                if room < 0 and found:
                    return found
                found.append(piece)
        return found

    def _of(self, path: Path) -> Iterator[Piece]:
        at = self.sent.get(path.name, 0)
        try:
            size = path.stat().st_size
            if path.suffix not in SUFFIXES or size <= at:
                return
            with path.open("rb") as file:
                file.seek(at)
                while data := file.read(PIECE):
                    packed = base64.b64encode(zlib.compress(data, 6)).decode()
                    yield {"file": path.name, "at": at, "data": packed, "end": at + len(data)}
                    at += len(data)
        except OSError:  # its job may remove it
            return

    def taken(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            self.sent[piece["file"]] = piece["end"]


@dataclass
class Mirror:
    """The same files in a run's folder here, under names that nothing else has there."""

    folder: RunFolder
    bead_id: str
    names: dict[str, Path] = field(default_factory=dict)

    def path_of(self, name: str) -> Path:
        """Where the file of that name on the host is here."""
        base = Path(name)
        stem = base.name.removesuffix(base.suffix) if base.suffix in SUFFIXES else base.name
        if stem not in self.names:
            self.names[stem] = self.folder.transcript(self.bead_id, stem).out
            self.names[stem].touch(text_files.PRIVATE)
        return self.names[stem].with_suffix(base.suffix or ".out")

    def write(self, piece: Piece) -> None:
        path = self.path_of(piece["file"])
        path.touch(text_files.PRIVATE)
        with path.open("r+b") as file:
            file.seek(piece["at"])
            file.write(zlib.decompress(base64.b64decode(piece["data"])))

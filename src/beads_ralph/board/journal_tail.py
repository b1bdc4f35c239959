"""A journal read to its end, and then only what is new: late comers get all of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

PART: Final = 1 << 20
"""So many bytes are held at a time, however long the journal is."""
LONGEST: Final = 64 << 20
"""A line longer than that is none of ours."""
KIND: Final = b'{"kind": "'
"""How the lines begin that a run writes."""
READ: Final = json.JSONDecoder().raw_decode
"""json's own reader, without the looks before and after a text that a line of ours has no need of."""


class JournalTail:
    """Yields the whole lines of a journal that it has not yielded before: all of them, or those of the kinds
    that are wanted, and then the others are not even decoded."""

    def __init__(self, path: Path, wanted: Collection[bytes] | None = None) -> None:
        self.path = path
        self.wanted = wanted
        self.offset = 0
        """Bytes of whole lines that were read."""
        self.broken = 0
        """Lines among them that are no JSON object."""

    def new_rows(self) -> Iterator[dict[str, Any]]:
        try:
            file = self.path.open("rb")
        except OSError:
            return
        with file:
            self.offset = min(self.offset, file.seek(0, 2))
            file.seek(self.offset)
            rest = b""
            while part := file.read(PART):
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    self.offset += len(line) + 1
                    row = self._row(line)
                    if row is not None:
                        yield row
                if len(rest) > LONGEST:
                    self.offset += len(rest)
                    self.broken += 1
                    rest = b""

    def _row(self, line: bytes) -> dict[str, Any] | None:
        if self.wanted is not None and line.startswith(KIND):
            kind = line[len(KIND) : line.find(b'"', len(KIND))]
            if kind not in self.wanted and line.endswith(b"}"):
                return None
        row = _decoded(line)
        if type(row) is dict:
            return row
        self.broken += bool(line.strip())
        return None


def _decoded(line: bytes) -> Any:
    """None where it is no JSON."""
    try:
        text = line.decode()
        row, end = READ(text)
        return row if end == len(text) else json.loads(text)
    except (ValueError, RecursionError):
        return None

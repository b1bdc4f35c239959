"""The ledger of proofs, `.ralph/proofs.jsonl`: the beads that runs on this repository have proven, and those
that a person has accepted. Anybody can write to a store; a close counts only with a row here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from beads_ralph.bead import json_fields
from beads_ralph.bead.json_fields import FieldError
from beads_ralph.bead.words import utc_text
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files

NAME: Final = "proofs.jsonl"


@dataclass(frozen=True)
class LedgerRow:
    """One bead's right to be closed."""

    bead: str
    kind: Literal["proven", "accepted", "reopened"]
    at: str
    commit: str = ""
    """The proven commit."""
    by: str = ""
    """The run that proved it, or the person who accepted it."""
    reason: str = ""


@dataclass(frozen=True)
class Ledger:
    """Append-only; of several rows on a bead the last one counts."""

    home: Path

    @property
    def path(self) -> Path:
        return self.home / NAME

    def prove(self, bead_id: str, commit: str, run_id: str) -> None:
        self._append(LedgerRow(bead_id, "proven", utc_text(datetime.now(UTC)), commit, run_id))

    def accept(self, bead_id: str, person: str, reason: str) -> LedgerRow:
        row = LedgerRow(bead_id, "accepted", utc_text(datetime.now(UTC)), by=person, reason=reason)
        self._append(row)
        return row

    def reopen(self, bead_id: str) -> None:
        """Take back whatever was said of the bead."""
        self._append(LedgerRow(bead_id, "reopened", utc_text(datetime.now(UTC))))

    def rows(self) -> Mapping[str, LedgerRow]:
        """The last row of each bead. A line that a crash cut off is left out."""
        return {row.bead: row for row in self._read()}

    def changed(self) -> tuple[int, int]:
        """Differs when somebody has written to it."""
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    def _read(self) -> Iterator[LedgerRow]:
        with suppress(FileNotFoundError), self.path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with suppress(ValueError, FieldError):
                    yield json_fields.from_json(LedgerRow, json.loads(line))

    def _append(self, row: LedgerRow) -> None:
        """On disk when this returns. A line that a crash cut off before ends here."""
        text = json.dumps(asdict(row), ensure_ascii=False)
        try:
            text_files.make_folder(self.home)
            with os.fdopen(text_files.open_private(self.path, os.O_RDWR | os.O_APPEND), "r+b") as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    text = text if file.read(1) == b"\n" else f"\n{text}"
                file.write(f"{text}\n".encode("utf-8", "replace"))
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise RalphError(Code.WRITE_FAILED, f"cannot write {self.path}: {problem.strerror}") from None

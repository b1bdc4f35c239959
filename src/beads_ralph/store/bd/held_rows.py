"""The rows of beads that we hold: while nobody else writes, bd need not be asked what it has just said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from beads_ralph.store.bd.shape import Row

EMBEDDED: Final = "embeddeddolt/*/.dolt/noms"
"""Where bd keeps a database of its own, without a server."""
MANIFEST: Final = "manifest"
JOURNAL: Final = "v" * 32


def database_mark(beads: Path) -> tuple[object, ...]:
    """Another one after every write to the database, and the same after every read. Empty for one that a
    server keeps: nobody can tell from here what is written there."""
    found: list[object] = []
    try:
        for place in sorted(beads.glob(EMBEDDED)):
            journal = place / JOURNAL
            found += [(place / MANIFEST).read_bytes(), journal.stat().st_size if journal.exists() else 0]
    except OSError:
        return ()
    return tuple(found)


@dataclass
class HeldRows:
    """Used by one writer at a time, in its turn. Who writes with bd itself in the very moment in which we do
    is as if it had come after us: bd still refuses what ends our work where the bead is not ours."""

    beads: Path
    rows: dict[str, Row] = field(default_factory=dict)
    mark: tuple[object, ...] = ()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Forgets all of it where somebody else has written since our last turn, or something goes wrong."""
        if not self.mark or self.mark != database_mark(self.beads):
            self.rows.clear()
        try:
            yield
        except BaseException:
            self.rows.clear()
            raise
        finally:
            self.mark = database_mark(self.beads) if self.rows else ()

    def keep(self, row: Row) -> None:
        self.rows[row["id"]] = row

    def renew(self, row: Row) -> None:
        """After a change of ours, if it is held."""
        if row["id"] in self.rows:
            self.keep(row)

    def forget(self, bead_id: str) -> None:
        self.rows.pop(bead_id, None)

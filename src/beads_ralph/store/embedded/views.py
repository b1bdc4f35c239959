"""The embedded store for those who only look: sealed rows are shown as they are, all others validated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from beads_ralph.errors import RalphError
from beads_ralph.store.embedded import queries, rows
from beads_ralph.store.embedded.database import Database
from beads_ralph.store.embedded.rows import Raw, StoredBead
from beads_ralph.store.query import Query, StoreInfo, UnreadableBead
from beads_ralph.store.views import BeadView, ViewListing, arranged, view_of

if TYPE_CHECKING:
    from beads_ralph.bead.model import Bead
    from beads_ralph.store.protocol import Store


class EmbeddedViews:
    """Loads the models only where a row is not sealed: edited by hand, or written by another version."""

    kind = "embedded"

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._database = Database(self._root)

    @property
    def store(self) -> Store:
        from beads_ralph.store.embedded.embedded_store import EmbeddedStore

        return EmbeddedStore(self._root)

    def check(self) -> StoreInfo:
        return self._database.check()

    def show(self, bead_id: str) -> BeadView:
        with self._database.reading() as connection:
            found = rows.stored(connection, rows.row_of(connection, bead_id))
        if found.is_sealed:
            return BeadView(arranged(found.raw))
        from beads_ralph.store import rules

        bead = rules.sound(found.raw, self._root)
        self._seal([bead])
        return view_of(bead)

    def find(self, query: Query) -> ViewListing:
        with self._database.reading() as connection:
            found = [rows.stored(connection, row) for row in queries.found(connection, query)]
            people = queries.has_peoples(connection)
        return self._viewed(found, people=people)

    def ready(self, limit: int | None = None) -> ViewListing:
        with self._database.reading() as connection:
            found = [rows.stored(connection, row) for row in queries.ready(connection, limit)]
            people = queries.has_peoples(connection)
        return self._viewed(found, people=people)

    def _viewed(self, found: Sequence[StoredBead], *, people: bool) -> ViewListing:
        loose = {one.row["id"]: one.raw for one in found if not one.is_sealed}
        sound, unreadable = self._validated(loose.values()) if loose else ({}, ())
        seen = (
            sound.get(one.row["id"]) if one.row["id"] in loose else BeadView(arranged(one.raw))
            for one in found
        )
        return ViewListing(tuple(view for view in seen if view is not None), unreadable, people)

    def _validated(self, raws: Iterable[Raw]) -> tuple[dict[str, BeadView], tuple[UnreadableBead, ...]]:
        from beads_ralph.store import rules

        listing = rules.listing(raws, self._root)
        self._seal(listing.beads)
        return {bead.id: view_of(bead) for bead in listing.beads}, listing.unreadable

    def _seal(self, beads: Iterable[Bead]) -> None:
        """The next look is quick then. Where nothing can be written now, that one validates again."""
        with suppress(RalphError), self._database.writing() as connection:
            for bead in beads:
                rows.seal(connection, bead)

"""The embedded store: beads in one SQLite file, `.ralph/beads.db`, with nothing to install."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import utc_text
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.store import rules
from beads_ralph.store.embedded import queries, rows
from beads_ralph.store.embedded.database import Database
from beads_ralph.store.embedded.items import EmbeddedItems
from beads_ralph.store.embedded.rows import Raw
from beads_ralph.store.protocol import (
    NOTHING,
    Changes,
    Claim,
    Findings,
    Items,
    Listing,
    Progress,
    Stored,
    silent,
)
from beads_ralph.store.query import Query, StoreInfo

LEASE: Final = timedelta(minutes=5)

CLAIM: Final = """UPDATE beads SET status = 'in_progress', claimed_by = :actor, lease_expires_at = :lease,
        updated_at = :now
    WHERE id = :id AND status = 'open' AND blockers = 0 AND item = 0 RETURNING *"""
HEARTBEAT: Final = """UPDATE beads SET lease_expires_at = :lease
    WHERE id = :id AND claimed_by = :actor RETURNING id"""
RELEASE: Final = """UPDATE beads SET status = :status, claimed_by = NULL, lease_expires_at = NULL,
        updated_at = :now
    WHERE id = :id AND claimed_by = :actor RETURNING *"""
RECLAIM: Final = """UPDATE beads SET status = 'open', claimed_by = NULL, lease_expires_at = NULL,
        updated_at = :now
    WHERE claimed_by IS NOT NULL AND lease_expires_at <= :expired RETURNING seq, id"""
CLOSE: Final = """UPDATE beads SET status = 'closed', claimed_by = NULL, lease_expires_at = NULL,
        updated_at = :now, closed_at = :now, close_reason = :reason
    WHERE id = :id AND claimed_by = :actor AND blockers = 0 RETURNING *"""
OPEN_CONVOY: Final = "SELECT 1 FROM tracks JOIN beads ON beads.id = convoy WHERE status <> 'closed' LIMIT 1"
# A container waits for its members.
REACHABLE: Final = """WITH RECURSIVE reached (id) AS (
        SELECT :id
        UNION SELECT needs FROM dependencies JOIN reached ON bead = reached.id
        UNION SELECT beads.id FROM beads JOIN reached ON parent = reached.id)
    SELECT bead, needs FROM dependencies WHERE bead IN reached
    UNION ALL SELECT parent, id FROM beads WHERE parent IN reached"""


def _utc_now() -> datetime:
    return datetime.now(UTC)


def initialise(root: Path) -> None:
    """Make the database where there is none; otherwise its first bead does."""
    with Database(root.absolute()).writing():
        pass


class EmbeddedStore:
    """Safe among threads and processes: every change is one transaction on disk."""

    kind = "embedded"

    def __init__(
        self, root: Path, *, clock: Callable[[], datetime] = _utc_now, lease: timedelta = LEASE
    ) -> None:
        self._root = root.absolute()
        self._clock = clock
        self._lease = lease
        self._database = Database(self._root)
        self.items: Items = EmbeddedItems(self._database, self._root, clock)

    # --- reading ------------------------------------------------------------------------------------

    def check(self) -> StoreInfo:
        return self._database.check()

    def show(self, bead_id: str) -> Bead:
        with self._database.reading() as connection:
            raw = rows.raw_of(connection, rows.row_of(connection, bead_id))
        return rules.sound(raw, self._root)

    def find(self, query: Query) -> Listing:
        with self._database.reading() as connection:
            raws = list(rows.raws_of(connection, queries.found(connection, query)))
            convoys = not query.ids and connection.execute(OPEN_CONVOY).fetchone() is not None
            people = not query.ids and queries.has_peoples(connection)
        whole = query == Query(wisps=True)
        return replace(rules.listing(raws, self._root), convoys=convoys, people=people, whole=whole)

    def closed(self) -> frozenset[str]:
        with self._database.reading() as connection:
            return queries.closed(connection)

    def ready(
        self, limit: int | None = None, *, wisps: bool = False, plan_file: str | None = None
    ) -> Listing:
        with self._database.reading() as connection:
            found = queries.ready(connection, limit, wisps=wisps, plan_file=plan_file)
            raws = list(rows.raws_of(connection, found))
            people = queries.has_peoples(connection)
        return replace(rules.listing(raws, self._root), people=people)

    def snapshot(self, target: Path) -> int:
        with self._database.reading() as connection:
            found = connection.execute("SELECT * FROM beads WHERE ephemeral = 0 ORDER BY seq")
            lines = [rows.line_of(rows.stored_raw(connection, row)) for row in found]
        text_files.write_text(target, "".join(lines))
        return len(lines)

    # --- creating and changing ----------------------------------------------------------------------

    def create(self, batch: Sequence[Stored], progress: Progress = silent) -> list[str]:
        now = self._now()
        raws = [_stored_form(thing, now) for thing in batch]
        with self._database.writing() as connection:
            rules.check_batch(list(map(rules.Entry.of, batch)), partial(rows.exists, connection))
            checked = [
                rules.checked_new(thing, raw, self._root) for thing, raw in zip(batch, raws, strict=True)
            ]
            rows.insert(connection, raws)
            for bead in checked:
                if isinstance(bead, Bead):
                    rows.seal(connection, bead)
            for parent in {thing.parent for thing in batch} - {None, *(thing.id for thing in batch)}:
                _refuse_cycle(connection, str(parent))
        return [raw["id"] for raw in raws]

    def update(self, bead_id: str, changes: Changes) -> Bead:
        with self._database.writing() as connection:
            return self._update(connection, bead_id, changes)

    def _update(self, connection: sqlite3.Connection, bead_id: str, changes: Changes) -> Bead:
        row = rows.row_of(connection, bead_id)
        rules.check_expected(bead_id, row["status"], changes.expected_status)
        old = rows.raw_of(connection, row)
        new = self._changed(old, changes)
        if changes.dependencies is not None:
            _replace_dependencies(connection, bead_id, new["dependencies"])
        bead = rules.sound(new, self._root)
        if (arranged := bead.to_json()["metadata"]) == new["metadata"]:
            new["metadata"] = arranged  # as the model writes it, so that a look need not arrange it
        rules.check_status_change(bead_id, row["status"], row["claimed_by"], new["status"])
        if changes.labels is not None:
            connection.execute("DELETE FROM labels WHERE bead = ?", (bead_id,))
            rows.write_labels(connection, bead_id, new["labels"])
        rows.change(connection, new)
        rows.seal(connection, bead)
        return bead

    def _changed(self, old: Raw, changes: Changes) -> Raw:
        fields = ("title", "description", "priority", "issue_type", "status", "external_ref")
        given = {name: getattr(changes, name) for name in fields if getattr(changes, name) is not None}
        new: Raw = {**old, **given, "updated_at": self._now()}
        if changes.labels is not None:
            new["labels"] = list(changes.labels)
        if changes.dependencies is not None:
            new["dependencies"] = list(dict.fromkeys(changes.dependencies))
        if changes.metadata is not None:
            metadata = old["metadata"] if isinstance(old["metadata"], dict) else {}
            new["metadata"] = {**metadata, **changes.metadata}
        if new["status"] != "closed":
            new["closed_at"] = None
            new.pop("close_reason", None)
        return new

    def comment(self, bead_id: str, author: str, text: str) -> None:
        with self._database.writing() as connection:
            rows.row_of(connection, bead_id)
            self._comment(connection, bead_id, author, text)
            self._seal_if_sound(connection, bead_id)

    def _comment(self, connection: sqlite3.Connection, bead_id: str, author: str, text: str) -> None:
        now = self._now()
        rows.add_comment(connection, bead_id, {"author": author, "text": text, "created_at": now})
        connection.execute("UPDATE beads SET updated_at = ? WHERE id = ?", (now, bead_id))

    # --- claims -------------------------------------------------------------------------------------

    def claim(self, bead_id: str, actor: str) -> Claim:
        rules.check_actor(actor)
        with self._database.writing() as connection:
            found = connection.execute(CLAIM, self._bound(bead_id, actor)).fetchall()
            row = found[0] if found else rows.row_of(connection, bead_id)
            if row["claimed_by"] != actor:
                return _refused(connection, row)
            bead = self._sealed(connection, bead_id)
            return Claim(bead, held_by=actor, lease_expires_at=row["lease_expires_at"])

    def heartbeat(self, bead_id: str, actor: str) -> bool:
        rules.check_actor(actor)
        with self._database.writing() as connection:
            return bool(connection.execute(HEARTBEAT, self._bound(bead_id, actor)).fetchall())

    def release(
        self, bead_id: str, actor: str, *, status: str = "open", reason: str = "", found: Findings = NOTHING
    ) -> None:
        rules.check_release(status)
        with self._database.writing() as connection:
            if not connection.execute(RELEASE, self._bound(bead_id, actor, status=status)).fetchall():
                raise _not_held(rows.row_of(connection, bead_id), actor)
            if found != NOTHING:
                self._update(connection, bead_id, found.changes)
            if reason:
                self._comment(connection, bead_id, actor, reason)
            self._seal_if_sound(connection, bead_id)

    def reclaim(self, older_than: timedelta) -> list[str]:
        # A negative age would take beads from workers whose lease still runs.
        expired = _before(self._clock(), max(older_than, timedelta(0)))
        with self._database.writing() as connection:
            found = connection.execute(RECLAIM, {"now": self._now(), "expired": expired}).fetchall()
            for row in found:
                self._seal_if_sound(connection, row["id"])
        return [row["id"] for row in sorted(found, key=lambda row: int(row["seq"]))]

    def close(self, bead_id: str, actor: str, reason: str, found: Findings = NOTHING) -> Bead:
        with self._database.writing() as connection:
            closed = connection.execute(CLOSE, self._bound(bead_id, actor, reason=reason)).fetchall()
            if closed and found != NOTHING:
                return self._update(connection, bead_id, found.changes)
            row = closed[0] if closed else rows.row_of(connection, bead_id)
            if row["status"] != "closed":
                _not_closable(connection, row, actor)
            return self._sealed(connection, bead_id)

    # --- seals --------------------------------------------------------------------------------------

    def _sealed(self, connection: sqlite3.Connection, bead_id: str) -> Bead:
        """The bead as it is stored now, sealed so that whoever looks at it need not validate it."""
        bead = rules.sound(rows.raw_of(connection, rows.row_of(connection, bead_id)), self._root)
        rows.seal(connection, bead)
        return bead

    def _seal_if_sound(self, connection: sqlite3.Connection, bead_id: str) -> None:
        with suppress(RalphError):
            self._sealed(connection, bead_id)

    # --- time ---------------------------------------------------------------------------------------

    def _now(self) -> str:
        return utc_text(self._clock())

    def _bound(self, bead_id: str, actor: str, **more: str) -> dict[str, str]:
        now = self._clock()
        lease = utc_text(now + self._lease)
        return {"id": bead_id, "actor": actor, "now": utc_text(now), "lease": lease, **more}


def _stored_form(thing: Stored, now: str) -> Raw:
    """A bead or an item as it will be stored."""
    if isinstance(thing, Item):
        return {**rows.new_raw(thing.model_dump(mode="json"), now), "assignee": thing.assignee or ""}
    return rows.new_raw(thing.to_json(), now)


# --- rules ------------------------------------------------------------------------------------------


def _replace_dependencies(connection: sqlite3.Connection, bead_id: str, needs: Sequence[str]) -> None:
    """A new cycle can only run through this bead, so only what it reaches needs a look."""
    unknown = [other for other in needs if not rows.exists(connection, other)]
    faults = rules.needs_faults(bead_id, needs, unknown)
    if faults:
        raise gathered(faults, f"bead {bead_id}")
    rows.replace_dependencies(connection, bead_id, needs)
    _refuse_cycle(connection, bead_id)


def _refuse_cycle(connection: sqlite3.Connection, start: str) -> None:
    """Among all that a bead, or a container that has got a new member, waits for."""
    edges: dict[str, list[str]] = {start: []}
    for bead, other in connection.execute(REACHABLE, {"id": start}):
        edges.setdefault(bead, []).append(other)
    rules.refuse_cycle(edges)


def _refused(connection: sqlite3.Connection, row: sqlite3.Row) -> Claim:
    if row["claimed_by"] is not None:
        holder = row["claimed_by"]
        return Claim(None, f"already claimed by {holder}", holder, row["lease_expires_at"])
    needs = rows.open_needs(connection, row["id"])
    if row["status"] == "open" and needs:
        return Claim(None, f"blocked by {', '.join(needs)}")
    return Claim(None, f"status {row['status']}")


def _not_closable(connection: sqlite3.Connection, row: sqlite3.Row, actor: str) -> NoReturn:
    """Not the actor's, or a dependency was reopened: what the work was built on is no longer proven."""
    if row["claimed_by"] != actor:
        raise _not_held(row, actor)
    needs = rows.open_needs(connection, row["id"])
    raise RalphError(
        Code.CONFLICT,
        f"{row['id']} cannot be closed: it is blocked by {', '.join(needs)} again",
        suggested_action="Release the bead; it becomes ready when those are closed",
    )


def _not_held(row: sqlite3.Row, actor: str) -> RalphError:
    return rules.not_held(row["id"], row["status"], row["claimed_by"], actor)


def _before(now: datetime, age: timedelta) -> str:
    try:
        return utc_text(now - age)
    except OverflowError:  # older than the calendar: nothing is
        return ""

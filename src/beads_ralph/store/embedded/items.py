"""The items of the embedded store: they lie among its beads, in the same table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.items import Item
from beads_ralph.bead.names import CONTAINERS
from beads_ralph.bead.words import utc_text
from beads_ralph.errors import gathered
from beads_ralph.store import rules
from beads_ralph.store.embedded import rows
from beads_ralph.store.embedded.database import Database
from beads_ralph.store.protocol import Listing, Settled
from beads_ralph.store.query import ItemQuery, nothing_there
from beads_ralph.store.rules import Container, settled

CLOSE: Final = """UPDATE beads SET status = 'closed', updated_at = :now, closed_at = :now,
        close_reason = :reason
    WHERE id = :id"""
REOPEN: Final = """UPDATE beads SET status = 'open', updated_at = :now, closed_at = NULL, close_reason = NULL
    WHERE id = :id AND status = 'closed'"""
MEMBERS: Final = """SELECT id, status FROM beads WHERE parent = :id
    UNION SELECT id, status FROM beads JOIN tracks ON member = id WHERE convoy = :id"""
BELOW: Final = """WITH RECURSIVE below (id) AS (
        SELECT :id UNION SELECT beads.id FROM beads JOIN below ON parent = below.id)
    SELECT beads.* FROM beads JOIN below USING (id) ORDER BY seq"""
DEPENDENTS: Final = "SELECT bead FROM dependencies WHERE needs = ? AND inherited = 0"
ALL_CLOSED: Final = "everything in it is closed"


class EmbeddedItems:
    """Every change is one transaction, as in the store that these belong to."""

    def __init__(self, database: Database, root: Path, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._root = root
        self._clock = clock

    def _now(self) -> str:
        return utc_text(self._clock())

    def find(self, query: ItemQuery) -> list[Item]:
        with self._database.reading() as connection:
            raws = [rows.item_raw(connection, row) for row in _found(connection, query)]
        return rules.items(raws, query)

    def wisps(self) -> tuple[Listing, list[Item]]:
        query = ItemQuery(wisps_only=True)
        beads = "SELECT * FROM beads WHERE ephemeral = 1 AND item = 0 ORDER BY priority, seq"
        with self._database.reading() as connection:
            raws = [rows.raw_of(connection, row) for row in connection.execute(beads)]
            items = [rows.item_raw(connection, row) for row in _found(connection, query)]
        return rules.listing(raws, self._root), rules.items(items, query)

    # --- changing -----------------------------------------------------------------------------------

    def close(self, item_id: str, actor: str, reason: str) -> Item:
        rules.check_actor(actor)
        with self._database.writing() as connection:
            row = _item_row(connection, item_id)
            if row["status"] != "closed":
                members = connection.execute(MEMBERS, {"id": item_id})
                unfinished = [name for name, status in members if status != "closed"]
                rules.check_closable(item_id, unfinished, rows.open_needs(connection, item_id))
                self._close(connection, item_id, actor, reason.strip() or "closed")
            return _shown(connection, item_id)

    def _close(self, connection: sqlite3.Connection, item_id: str, actor: str, reason: str) -> None:
        now = self._now()
        connection.execute(CLOSE, {"id": item_id, "now": now, "reason": reason})
        rows.add_comment(connection, item_id, {"author": actor, "text": reason, "created_at": now})

    def track(self, convoy_id: str, ids: Sequence[str]) -> Item:
        with self._database.writing() as connection:
            rules.check_convoy(convoy_id, _item_row(connection, convoy_id)["issue_type"])
            unknown = [name for name in ids if not rows.exists(connection, name)]
            if faults := rules.track_faults(convoy_id, ids, unknown):
                raise gathered(faults, f"convoy {convoy_id}")
            rows.write_tracks(connection, convoy_id, ids)
            if any(status != "closed" for _, status in connection.execute(MEMBERS, {"id": convoy_id})):
                self._reopen(connection, convoy_id)
            return _shown(connection, convoy_id)

    def _reopen(self, connection: sqlite3.Connection, item_id: str) -> None:
        connection.execute(REOPEN, {"id": item_id, "now": self._now()})

    def settle(self) -> Settled:
        with self._database.writing() as connection:
            outcome = _settled(connection)
            for name in outcome.closed:
                connection.execute(CLOSE, {"id": name, "now": self._now(), "reason": ALL_CLOSED})
            for name in outcome.reopened:
                self._reopen(connection, name)
        return outcome

    def burn(self, ids: Sequence[str]) -> list[str]:
        with self._database.writing() as connection:
            burnt = _below(connection, ids)
            rules.check_burnable([_burning(connection, row) for row in burnt.values()])
            for bead_id in burnt:
                _forget(connection, bead_id)
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.executemany("DELETE FROM beads WHERE id = ?", [(bead_id,) for bead_id in burnt])
        return list(burnt)


# --- reading ----------------------------------------------------------------------------------------


def _found(connection: sqlite3.Connection, query: ItemQuery) -> list[sqlite3.Row]:
    terms: list[str] = ["item = 1"]
    bound: list[str] = []
    asked = (("issue_type", query.types), ("status", query.statuses), ("parent", query.parents))
    for column, wanted in asked:
        if wanted:
            terms.append(f"{column} IN ({', '.join('?' * len(wanted))})")
            bound += wanted
    if query.wisps_only:
        terms.append("ephemeral = 1")
    # The condition is made of constants; everything from outside is bound.
    sql = f"SELECT * FROM beads WHERE {' AND '.join(terms)}"  # noqa: S608
    if not query.ids:
        return connection.execute(f"{sql} ORDER BY seq", bound).fetchall()
    named = (connection.execute(f"{sql} AND id = ?", (*bound, name)) for name in dict.fromkeys(query.ids))
    return sorted((row for found in named for row in found), key=lambda row: int(row["seq"]))


def _item_row(connection: sqlite3.Connection, item_id: str) -> sqlite3.Row:
    row = rows.any_row(connection, item_id)
    if row is None:
        raise nothing_there(item_id)
    if not row["item"]:
        raise rules.no_item(item_id)
    return row


def _shown(connection: sqlite3.Connection, item_id: str) -> Item:
    return rules.sound_item(rows.item_raw(connection, _item_row(connection, item_id)))


def _settled(connection: sqlite3.Connection) -> Settled:
    marks = ", ".join("?" * len(CONTAINERS))
    query = f"SELECT id, status FROM beads WHERE item = 1 AND issue_type IN ({marks}) ORDER BY seq"  # noqa: S608
    status: dict[str, str] = {}
    containers = [
        _container(connection, row["id"], row["status"], status)
        for row in connection.execute(query, CONTAINERS).fetchall()
    ]
    return settled(containers, lambda name: status[name] != "closed")


def _container(connection: sqlite3.Connection, name: str, status: str, known: dict[str, str]) -> Container:
    """One container; what is learnt of its members' statuses is noted in `known`."""
    members = dict(connection.execute(MEMBERS, {"id": name}).fetchall())
    needs = dict.fromkeys(rows.open_needs(connection, name), "open")
    known |= {**needs, **members}
    return Container(name, status == "closed", tuple(members), tuple(needs))


# --- burning ----------------------------------------------------------------------------------------


def _below(connection: sqlite3.Connection, ids: Collection[str]) -> dict[str, sqlite3.Row]:
    """The rows of the ids and of everything below them."""
    found: dict[str, sqlite3.Row] = {}
    for bead_id in ids:
        if not rows.exists(connection, bead_id):
            raise nothing_there(bead_id)
        found |= {row["id"]: row for row in connection.execute(BELOW, {"id": bead_id})}
    return found


def _burning(connection: sqlite3.Connection, row: sqlite3.Row) -> rules.Burning:
    dependents = [found[0] for found in connection.execute(DEPENDENTS, (row["id"],))]
    return rules.Burning(row["id"], bool(row["ephemeral"]), row["claimed_by"], tuple(dependents))


def _forget(connection: sqlite3.Connection, bead_id: str) -> None:
    """Everything about it in the other tables."""
    bound: dict[str, Any] = {"id": bead_id}
    connection.execute("DELETE FROM dependencies WHERE bead = :id OR needs = :id", bound)
    connection.execute("DELETE FROM tracks WHERE convoy = :id OR member = :id", bound)
    connection.execute("DELETE FROM labels WHERE bead = :id", bound)
    connection.execute("DELETE FROM comments WHERE bead = :id", bound)

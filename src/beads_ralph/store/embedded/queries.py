"""Which rows of the database answer a question."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from beads_ralph.bead.names import CONTAINERS
from beads_ralph.store.query import Query

# INDEXED BY: without it SQLite may choose to sort every open bead, which gets slower with each of them.
READY: Final = """SELECT * FROM beads INDEXED BY ready_beads
    WHERE status = 'open' AND blockers = 0 AND item = 0 AND ephemeral = 0 ORDER BY priority, seq LIMIT ?"""
READY_WISPS: Final = """SELECT * FROM beads INDEXED BY ready_wisps
    WHERE status = 'open' AND blockers = 0 AND item = 0 AND ephemeral = 1 ORDER BY priority, seq LIMIT ?"""

# Beads have item = 0, containers end with their members.
PEOPLES: Final = f"""SELECT 1 FROM beads
    WHERE item = 1 AND issue_type NOT IN ({", ".join("?" * len(CONTAINERS))}) LIMIT 1"""  # noqa: S608


def has_peoples(connection: sqlite3.Connection) -> bool:
    """True where there is an item that a person may have to end."""
    return connection.execute(PEOPLES, CONTAINERS).fetchone() is not None


def found(connection: sqlite3.Connection, query: Query) -> list[sqlite3.Row]:
    """The beads of a query, in the store's order."""
    condition, values = _condition(query)
    # The condition is made of constants; everything from outside is bound.
    sql = f"SELECT * FROM beads WHERE {condition} ORDER BY priority, seq"  # noqa: S608
    return sorted((row for bound in values for row in connection.execute(sql, bound)), key=_store_order)


def ready(connection: sqlite3.Connection, limit: int | None, *, wisps: bool = False) -> list[sqlite3.Row]:
    """The beads that can be claimed, in the store's order."""
    most = -1 if limit is None else max(limit, 0)
    beads = connection.execute(READY, (most,)).fetchall()
    if not wisps:
        return beads
    beads += connection.execute(READY_WISPS, (most,)).fetchall()
    return sorted(beads, key=_store_order)[: None if limit is None else most]


def _store_order(row: sqlite3.Row) -> tuple[str, int]:
    return str(row["priority"]), row["seq"]  # a priority may be a text if edited by hand


def _condition(query: Query) -> tuple[str, list[tuple[Any, ...]]]:
    """The WHERE of a query and the values to bind, once for each id so that their number has no limit."""
    terms: list[str] = ["item = 0"]
    bound: list[Any] = []
    if query.statuses:
        terms.append(f"status IN ({', '.join('?' * len(query.statuses))})")
        bound += query.statuses
    if query.parents:
        terms.append(f"parent IN ({', '.join('?' * len(query.parents))})")
        bound += query.parents
    for label in query.labels:
        terms.append("id IN (SELECT bead FROM labels WHERE label = ?)")
        bound.append(label)
    if query.plan_file is not None:
        terms.append("plan_file = ?")
        bound.append(query.plan_file)
    if not query.wisps and not query.ids:
        terms.append("ephemeral = 0")
    if not query.ids:
        return " AND ".join(terms), [tuple(bound)]
    return " AND ".join([*terms, "id = ?"]), [(*bound, bead_id) for bead_id in dict.fromkeys(query.ids)]

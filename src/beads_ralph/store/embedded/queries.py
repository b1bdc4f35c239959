"""Which rows of the database answer a question."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from beads_ralph.bead.names import CONTAINERS
from beads_ralph.store.query import Query

# INDEXED BY: without it SQLite may choose to sort every open bead, which gets slower with each of them.
READY: Final = """SELECT * FROM beads INDEXED BY ready_beads
    WHERE status = 'open' AND blockers = 0 AND item = 0 AND ephemeral = 0 ORDER BY priority, seq LIMIT ?"""
READY_WISPS: Final = """SELECT * FROM beads INDEXED BY ready_wisps
    WHERE status = 'open' AND blockers = 0 AND item = 0 AND ephemeral = 1 ORDER BY priority, seq LIMIT ?"""

READY_OF_PLAN: Final = """SELECT * FROM beads INDEXED BY beads_by_plan
    WHERE plan_file = ? AND status = 'open' AND blockers = 0 AND item = 0 AND ephemeral <= ?
    ORDER BY priority, seq LIMIT ?"""
CLOSED: Final = "SELECT json_group_array(id) FROM beads WHERE status = 'closed' AND item = 0"

# Not `<> 'closed'`, which no index answers. Statuses that nobody knows are among them.
NOT_CLOSED: Final = """WITH RECURSIVE found (status) AS (
        SELECT min(status) FROM beads
        UNION ALL SELECT (SELECT min(beads.status) FROM beads WHERE beads.status > found.status)
            FROM found WHERE found.status IS NOT NULL)
    SELECT seq FROM beads
    WHERE item = 0 AND status IN (SELECT status FROM found WHERE status <> 'closed')"""
GATES: Final = """SELECT seq FROM beads WHERE instr(metadata, '"gate"') > 0 AND item = 0
    UNION SELECT seq FROM labels JOIN beads ON id = bead WHERE label = 'gate' AND item = 0"""
HELD: Final = "SELECT seq FROM beads WHERE claimed_by IS NOT NULL AND item = 0"
# Of beads that are given as a JSON list of their places.
THESE: Final = "SELECT * FROM beads WHERE seq IN (SELECT value FROM json_each(?)) ORDER BY priority, seq"
NEEDED: Final = """SELECT other.seq FROM json_each(?) JOIN beads ON beads.seq = value
        JOIN dependencies ON bead = beads.id JOIN beads AS other ON other.id = needs
    WHERE beads.status <> 'closed' AND other.item = 0"""
MATES: Final = tuple(
    f"""SELECT seq FROM beads WHERE item = 0 AND {shared} IN (
        SELECT {shared} FROM json_each(?) JOIN beads ON seq = value)"""  # noqa: S608
    for shared in ("plan_file", "team")
)

# Beads have item = 0, containers end with their members.
PEOPLES: Final = f"""SELECT 1 FROM beads
    WHERE item = 1 AND issue_type NOT IN ({", ".join("?" * len(CONTAINERS))}) LIMIT 1"""  # noqa: S608


def has_peoples(connection: sqlite3.Connection) -> bool:
    """True where there is an item that a person may have to end."""
    return connection.execute(PEOPLES, CONTAINERS).fetchone() is not None


def found(connection: sqlite3.Connection, query: Query) -> list[sqlite3.Row]:
    """The beads of a query, in the store's order."""
    if query.for_run:
        return _for_run(connection, query)
    condition, values = _condition(query)
    # The condition is made of constants; everything from outside is bound.
    sql = f"SELECT * FROM beads WHERE {condition} ORDER BY priority, seq"  # noqa: S608
    return sorted((row for bound in values for row in connection.execute(sql, bound)), key=_store_order)


def _for_run(connection: sqlite3.Connection, query: Query) -> list[sqlite3.Row]:
    """Only what is asked for is read, so that it does not matter how much else there is."""
    about = _asked_about(connection, query)
    gates = {seq for (seq,) in connection.execute(GATES)}
    found = about | gates | {seq for (seq,) in connection.execute(HELD)}
    found |= _places(connection, NEEDED, about | gates)
    for mates in MATES:
        found |= _places(connection, mates, about)
    rows = connection.execute(THESE, (json.dumps(sorted(found)),))
    shown = (row for row in rows if query.wisps or not row["ephemeral"] or row["id"] in query.ids)
    return sorted(shown, key=_store_order)


def _asked_about(connection: sqlite3.Connection, query: Query) -> set[int]:
    if not (query.ids or query.statuses or query.labels or query.plan_file or query.parents):
        return {seq for (seq,) in connection.execute(NOT_CLOSED)}
    condition, values = _condition(query)
    sql = f"SELECT seq FROM beads WHERE {condition}"  # noqa: S608 - as above
    return {seq for bound in values for (seq,) in connection.execute(sql, bound)}


def _places(connection: sqlite3.Connection, sql: str, of: Iterable[int]) -> set[int]:
    return {seq for (seq,) in connection.execute(sql, (json.dumps(sorted(of)),))}


def closed(connection: sqlite3.Connection) -> frozenset[str]:
    """The ids of the closed beads."""
    return frozenset(json.loads(connection.execute(CLOSED).fetchone()[0]))


def ready(
    connection: sqlite3.Connection, limit: int | None, *, wisps: bool = False, plan_file: str | None = None
) -> list[sqlite3.Row]:
    """The beads that can be claimed, in the store's order."""
    most = -1 if limit is None else max(limit, 0)
    if plan_file is not None:
        return connection.execute(READY_OF_PLAN, (plan_file, int(wisps), most)).fetchall()
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

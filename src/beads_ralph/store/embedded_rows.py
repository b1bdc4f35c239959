"""Beads as rows of the embedded store's tables, and rows as beads in the seed's shape."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.models import ASSIGNEE

Raw = dict[str, Any]

CORE: Final = (
    "id",
    "title",
    "description",
    "status",
    "priority",
    "issue_type",
    "assignee",
    "owner",
    "dependencies",
    "labels",
    "comments",
    "external_ref",
    "created_at",
    "updated_at",
    "closed_at",
)
"""The seed's fifteen, in the seed's order."""

PARTS: Final = ("dependencies", "labels", "comments")
"""Those of them that have tables of their own."""

INSERT: Final = """INSERT INTO beads (id, title, description, status, priority, issue_type, assignee, owner,
        external_ref, created_at, updated_at, closed_at, close_reason, plan_file, extra, metadata)
    VALUES (:id, :title, :description, :status, :priority, :issue_type, :assignee, :owner,
        :external_ref, :created_at, :updated_at, :closed_at, :close_reason, :plan_file, :extra, :metadata)"""
CHANGE: Final = """UPDATE beads SET title = :title, description = :description, status = :status,
        priority = :priority, issue_type = :issue_type, external_ref = :external_ref,
        updated_at = :updated_at, closed_at = :closed_at, close_reason = :close_reason,
        plan_file = :plan_file, metadata = :metadata
    WHERE id = :id"""


# --- beads → rows -----------------------------------------------------------------------------------


def new_raw(given: Raw, now: str) -> Raw:
    """A bead as it will be stored: every core field present, and no claim, which cannot travel."""
    defaults = {**dict.fromkeys(CORE), "description": "", "priority": 1, "assignee": ASSIGNEE}
    raw: Raw = {**defaults, **given}
    for key in PARTS:
        raw[key] = given.get(key) or []
    raw["created_at"] = given.get("created_at") or now
    raw["updated_at"] = given.get("updated_at") or now
    if raw["status"] == "closed":
        raw["closed_at"] = given.get("closed_at") or now
    return {key: value for key, value in raw.items() if key not in ("claimed_by", "lease_expires_at")}


def insert(connection: sqlite3.Connection, raws: Sequence[Raw]) -> None:
    connection.executemany(INSERT, [_row(raw) for raw in raws])
    for raw in raws:
        write_labels(connection, raw["id"], raw["labels"])
        for body in raw["comments"]:
            add_comment(connection, raw["id"], body)
    for raw in raws:  # after all the beads, since they may need one another
        write_dependencies(connection, raw["id"], raw["dependencies"])


def change(connection: sqlite3.Connection, raw: Raw) -> None:
    connection.execute(CHANGE, _row(raw))


def write_dependencies(connection: sqlite3.Connection, bead_id: str, needs: Iterable[str]) -> None:
    connection.executemany(
        "INSERT INTO dependencies (bead, position, needs) VALUES (?, ?, ?)",
        [(bead_id, position, other) for position, other in enumerate(dict.fromkeys(needs))],
    )


def write_labels(connection: sqlite3.Connection, bead_id: str, labels: Iterable[str]) -> None:
    connection.executemany(
        "INSERT INTO labels (bead, position, label) VALUES (?, ?, ?)",
        [(bead_id, position, label) for position, label in enumerate(labels)],
    )


def add_comment(connection: sqlite3.Connection, bead_id: str, body: Any) -> None:
    connection.execute("INSERT INTO comments (bead, body) VALUES (?, ?)", (bead_id, dumped(body)))


def _row(raw: Raw) -> Raw:
    known = {*CORE, "metadata", "close_reason", "claimed_by", "lease_expires_at"}
    columns = {key: value for key, value in raw.items() if key not in PARTS}
    columns["close_reason"] = raw.get("close_reason")
    columns["plan_file"] = raw["metadata"].get("plan_file")
    columns["extra"] = dumped({key: value for key, value in raw.items() if key not in known})
    columns["metadata"] = dumped(raw["metadata"])
    return columns


def dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        advice = "Use only what JSON has: no NaN, no infinite numbers, no objects of the program"
        raise RalphError(Code.BEAD_SCHEMA, f"not JSON: {problem}", suggested_action=advice) from problem


def line_of(raw: Raw) -> str:
    """The bead as one line; half a surrogate pair, which UTF-8 lacks, becomes JSON's own escape."""
    return dumped(raw).encode("utf-8", "backslashreplace").decode() + "\n"


# --- rows → beads -----------------------------------------------------------------------------------


def row_of(connection: sqlite3.Connection, bead_id: str) -> sqlite3.Row:
    """The row of exactly that id."""
    row: sqlite3.Row | None = connection.execute("SELECT * FROM beads WHERE id = ?", (bead_id,)).fetchone()
    if row is None:
        raise RalphError(Code.BEAD_NOT_FOUND, f"there is no bead {bead_id}")
    return row


def raw_of(connection: sqlite3.Connection, row: sqlite3.Row) -> Raw:
    """The bead in the seed's shape, whatever somebody may have written into the file."""
    needs = connection.execute(
        "SELECT needs FROM dependencies WHERE bead = ? ORDER BY position", (row["id"],)
    )
    labels = connection.execute("SELECT label FROM labels WHERE bead = ? ORDER BY position", (row["id"],))
    comments = connection.execute("SELECT body FROM comments WHERE bead = ? ORDER BY seq", (row["id"],))
    parts = {
        "dependencies": [found[0] for found in needs],
        "labels": [found[0] for found in labels],
        "comments": [_loaded(found[0]) for found in comments],
    }
    raw = {key: parts[key] if key in parts else _shown(row[key]) for key in CORE}
    return {**raw, "metadata": _loaded(row["metadata"]), **_extra(row)}


def raws_of(connection: sqlite3.Connection, rows: Iterable[sqlite3.Row]) -> Iterator[Raw]:
    return (raw_of(connection, row) for row in rows)


def _extra(row: sqlite3.Row) -> Mapping[str, Any]:
    """Core keys that the schema does not know, and what the store itself adds."""
    loaded = _loaded(row["extra"])
    extra = dict(loaded) if isinstance(loaded, dict) else {"extra": loaded}
    if row["claimed_by"] is not None:
        extra |= {"claimed_by": row["claimed_by"], "lease_expires_at": row["lease_expires_at"]}
    if row["status"] == "closed" and row["close_reason"] is not None:
        extra["close_reason"] = row["close_reason"]
    return extra


def _loaded(text: Any) -> Any:
    """JSON, or the text itself, which then does not validate: shown, never dropped."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return _shown(text)


def _shown(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

"""The tables of the embedded store's file, version by version, and beads as their rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.bead.names import ASSIGNEE, ISSUE_TYPES
from beads_ralph.errors import Code, RalphError
from beads_ralph.files.fingerprint import fingerprint
from beads_ralph.store.query import no_bead, nothing_there
from beads_ralph.store.views import arranged

if TYPE_CHECKING:
    from beads_ralph.bead.model import Bead

# --- tables -----------------------------------------------------------------------------------------


# `blockers` counts the dependencies that are not closed. The triggers keep it, so that no statement,
# not even one typed by hand, can leave it wrong, and `ready_beads` holds exactly what can be claimed.
TABLES: Final = (
    """CREATE TABLE beads (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL,
        priority INTEGER NOT NULL,
        blockers INTEGER NOT NULL DEFAULT 0,
        claimed_by TEXT,
        lease_expires_at TEXT,
        issue_type TEXT NOT NULL,
        plan_file TEXT,
        title TEXT NOT NULL,
        assignee TEXT NOT NULL,
        owner TEXT,
        external_ref TEXT,
        created_at TEXT,
        updated_at TEXT,
        closed_at TEXT,
        close_reason TEXT,
        description TEXT NOT NULL,
        extra TEXT NOT NULL,
        metadata TEXT NOT NULL
    )""",
    """CREATE TABLE dependencies (
        bead TEXT NOT NULL REFERENCES beads (id),
        needs TEXT NOT NULL REFERENCES beads (id),
        position INTEGER NOT NULL,
        PRIMARY KEY (bead, needs)
    ) WITHOUT ROWID""",
    """CREATE TABLE labels (
        bead TEXT NOT NULL REFERENCES beads (id),
        position INTEGER NOT NULL,
        label TEXT NOT NULL,
        PRIMARY KEY (bead, position)
    ) WITHOUT ROWID""",
    """CREATE TABLE comments (
        seq INTEGER PRIMARY KEY,
        bead TEXT NOT NULL REFERENCES beads (id),
        body TEXT NOT NULL
    )""",
    "CREATE INDEX ready_beads ON beads (priority, seq) WHERE status = 'open' AND blockers = 0",
    "CREATE INDEX claimed_beads ON beads (lease_expires_at) WHERE claimed_by IS NOT NULL",
    "CREATE INDEX beads_by_status ON beads (status)",
    "CREATE INDEX beads_by_plan ON beads (plan_file)",
    "CREATE INDEX dependents ON dependencies (needs)",
    "CREATE INDEX labelled ON labels (label)",
    "CREATE INDEX commented ON comments (bead)",
    """CREATE TRIGGER dependency_added AFTER INSERT ON dependencies
        WHEN (SELECT status FROM beads WHERE id = NEW.needs) <> 'closed'
        BEGIN UPDATE beads SET blockers = blockers + 1 WHERE id = NEW.bead; END""",
    """CREATE TRIGGER dependency_removed AFTER DELETE ON dependencies
        WHEN (SELECT status FROM beads WHERE id = OLD.needs) <> 'closed'
        BEGIN UPDATE beads SET blockers = blockers - 1 WHERE id = OLD.bead; END""",
    """CREATE TRIGGER bead_closed AFTER UPDATE OF status ON beads
        WHEN OLD.status <> 'closed' AND NEW.status = 'closed'
        BEGIN UPDATE beads SET blockers = blockers - 1
            WHERE id IN (SELECT bead FROM dependencies WHERE needs = NEW.id); END""",
    """CREATE TRIGGER bead_reopened AFTER UPDATE OF status ON beads
        WHEN OLD.status = 'closed' AND NEW.status <> 'closed'
        BEGIN UPDATE beads SET blockers = blockers + 1
            WHERE id IN (SELECT bead FROM dependencies WHERE needs = NEW.id); END""",
)

# Items lie among the beads, so that one may wait for the other; `item` tells them apart and not the issue
# type, so that a bead whose type was spoilt by hand is still shown as a bead that cannot be read.
# `inherited` marks what a member waits for since something above it does; it counts among the blockers.
ITEMS: Final = (
    "ALTER TABLE beads ADD COLUMN item INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE beads ADD COLUMN ephemeral INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE beads ADD COLUMN parent TEXT REFERENCES beads (id)",
    "ALTER TABLE dependencies ADD COLUMN inherited INTEGER NOT NULL DEFAULT 0",
    """CREATE TABLE tracks (
        convoy TEXT NOT NULL REFERENCES beads (id),
        member TEXT NOT NULL REFERENCES beads (id),
        position INTEGER NOT NULL,
        PRIMARY KEY (convoy, member)
    ) WITHOUT ROWID""",
    "DROP INDEX ready_beads",
    """CREATE INDEX ready_beads ON beads (priority, seq)
        WHERE status = 'open' AND blockers = 0 AND item = 0 AND ephemeral = 0""",
    """CREATE INDEX ready_wisps ON beads (priority, seq)
        WHERE status = 'open' AND blockers = 0 AND item = 0 AND ephemeral = 1""",
    "CREATE INDEX items ON beads (seq) WHERE item = 1",
    "CREATE INDEX wisps ON beads (seq) WHERE ephemeral = 1",
    "CREATE INDEX beads_by_parent ON beads (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX tracked ON tracks (member)",
)

# A seal tells that the models have found the row sound as it is; see `StoredBead`.
SEALS: Final = ("ALTER TABLE beads ADD COLUMN seal TEXT",)

# What a run has to see of a store, however much else there is: the beads of its teams, and every gate.
RUNS: Final = (
    "ALTER TABLE beads ADD COLUMN team TEXT",
    """UPDATE beads SET team = json_extract(metadata, '$.team_name')
        WHERE item = 0 AND typeof(metadata) = 'text' AND json_valid(metadata)""",
    "CREATE INDEX beads_by_team ON beads (team) WHERE team IS NOT NULL",
    """CREATE INDEX gates ON beads (seq) WHERE instr(metadata, '"gate"') > 0""",
)

STEPS: Final = (TABLES, ITEMS, SEALS, RUNS)
"""The statements from each version to the next; a new file goes through all of them."""
VERSION: Final = len(STEPS)


# --- rows -------------------------------------------------------------------------------------------


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
KNOWN: Final = {
    *(*CORE, "metadata", "parent", "ephemeral", "tracks"),
    *("close_reason", "claimed_by", "lease_expires_at"),
}
"""Fields with a column or table of their own; everything else is kept beside them."""

SEALED: Final = (
    *("id", "title", "description", "status", "priority", "issue_type", "assignee", "owner"),
    *("external_ref", "created_at", "updated_at", "closed_at", "ephemeral", "parent", "extra", "metadata"),
)
"""The columns that a seal tells of."""

INSERT: Final = """INSERT INTO beads (id, title, description, status, priority, issue_type, assignee, owner,
        external_ref, created_at, updated_at, closed_at, close_reason, plan_file, team, extra, metadata,
        item, ephemeral, parent)
    VALUES (:id, :title, :description, :status, :priority, :issue_type, :assignee, :owner,
        :external_ref, :created_at, :updated_at, :closed_at, :close_reason, :plan_file, :team, :extra,
        :metadata, :item, :ephemeral, :parent)"""
CHANGE: Final = """UPDATE beads SET title = :title, description = :description, status = :status,
        priority = :priority, issue_type = :issue_type, external_ref = :external_ref,
        updated_at = :updated_at, closed_at = :closed_at, close_reason = :close_reason,
        plan_file = :plan_file, team = :team, metadata = :metadata
    WHERE id = :id"""
# A member waits for whatever something above it waits for: bd holds the members of what is blocked.
INHERIT: Final = """WITH RECURSIVE above (id) AS (
        SELECT parent FROM beads WHERE id = :id AND parent IS NOT NULL
        UNION SELECT parent FROM beads JOIN above ON beads.id = above.id WHERE parent IS NOT NULL)
    INSERT OR IGNORE INTO dependencies (bead, position, needs, inherited)
        SELECT :id, 0, needs, 1 FROM dependencies WHERE bead IN above AND inherited = 0"""

OPEN_NEEDS: Final = """SELECT needs FROM dependencies JOIN beads ON beads.id = needs
    WHERE bead = ? AND status <> 'closed' ORDER BY position"""


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
    connection.execute("PRAGMA defer_foreign_keys = ON")  # a member may stand before what it lies below
    connection.executemany(INSERT, [_row(raw) for raw in raws])
    for raw in raws:
        write_labels(connection, raw["id"], raw["labels"])
        for body in raw["comments"]:
            add_comment(connection, raw["id"], body)
    for raw in raws:  # after all the beads, since they may need one another
        write_dependencies(connection, raw["id"], raw["dependencies"])
        write_tracks(connection, raw["id"], raw.get("tracks") or ())
    for raw in raws:
        if raw.get("parent"):
            connection.execute(INHERIT, {"id": raw["id"]})


def replace_dependencies(connection: sqlite3.Connection, bead_id: str, needs: Iterable[str]) -> None:
    connection.execute("DELETE FROM dependencies WHERE bead = ?", (bead_id,))
    write_dependencies(connection, bead_id, needs)
    connection.execute(INHERIT, {"id": bead_id})


def write_tracks(connection: sqlite3.Connection, convoy: str, members: Iterable[str]) -> None:
    """Those that it does not track yet, behind the others."""
    query = "SELECT count(*) FROM tracks WHERE convoy = ?"
    (start,) = connection.execute(query, (convoy,)).fetchone()
    connection.executemany(
        "INSERT OR IGNORE INTO tracks (convoy, position, member) VALUES (?, ?, ?)",
        [(convoy, position, member) for position, member in enumerate(dict.fromkeys(members), start)],
    )


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
    columns = {key: value for key, value in raw.items() if key not in PARTS}
    columns["close_reason"] = raw.get("close_reason")
    columns["plan_file"] = raw["metadata"].get("plan_file")
    columns["team"] = raw["metadata"].get("team_name")
    columns["extra"] = dumped({key: value for key, value in raw.items() if key not in KNOWN})
    columns["metadata"] = dumped(raw["metadata"])
    columns["item"] = int(raw["issue_type"] not in ISSUE_TYPES)
    columns["ephemeral"] = int(bool(raw.get("ephemeral")))
    columns["parent"] = raw.get("parent")
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
    """The row of exactly that bead."""
    row = any_row(connection, bead_id)
    if row is None:
        raise nothing_there(bead_id)
    if row["item"]:
        raise no_bead(bead_id, row["issue_type"])
    return row


def any_row(connection: sqlite3.Connection, bead_id: str) -> sqlite3.Row | None:
    """The row of a bead or an item."""
    row: sqlite3.Row | None = connection.execute("SELECT * FROM beads WHERE id = ?", (bead_id,)).fetchone()
    return row


def exists(connection: sqlite3.Connection, bead_id: str) -> bool:
    return connection.execute("SELECT 1 FROM beads WHERE id = ?", (bead_id,)).fetchone() is not None


def open_needs(connection: sqlite3.Connection, bead_id: str) -> list[str]:
    """The ids that it still waits for."""
    return [found[0] for found in connection.execute(OPEN_NEEDS, (bead_id,))]


@dataclass(frozen=True)
class StoredBead:
    """A bead's row, and what the other tables have of it."""

    row: sqlite3.Row
    needs: Sequence[str]
    labels: Sequence[str]
    comments: Sequence[str]

    @property
    def raw(self) -> Raw:
        """The bead in the seed's shape, whatever somebody may have written into the file."""
        parts = {
            "dependencies": self.needs,
            "labels": self.labels,
            "comments": [_loaded(body) for body in self.comments],
        }
        raw = {key: parts[key] if key in parts else _shown(self.row[key]) for key in CORE}
        return {**raw, "metadata": _loaded(self.row["metadata"]), **_place(self.row), **_extra(self.row)}

    @property
    def seal(self) -> str:
        """The seal that the row has if these very models have found this very content sound; empty where
        nobody can tell. Claims are left out: a heartbeat changes them, and any text is a sound one."""
        models = fingerprint("bead", "store", "store/embedded")
        content = ([self.row[column] for column in SEALED], self.needs, self.labels, self.comments)
        said = f"{models} {content!r}".encode("utf-8", "surrogatepass")
        return blake2b(said, digest_size=16).hexdigest() if models else ""

    @property
    def is_sealed(self) -> bool:
        return bool(self.row["seal"]) and self.row["seal"] == self.seal


def stored(connection: sqlite3.Connection, row: sqlite3.Row) -> StoredBead:
    needs = connection.execute(
        "SELECT needs FROM dependencies WHERE bead = ? AND inherited = 0 ORDER BY position", (row["id"],)
    )
    labels = connection.execute("SELECT label FROM labels WHERE bead = ? ORDER BY position", (row["id"],))
    comments = connection.execute("SELECT body FROM comments WHERE bead = ? ORDER BY seq", (row["id"],))
    return StoredBead(row, *([found[0] for found in part] for part in (needs, labels, comments)))


def raw_of(connection: sqlite3.Connection, row: sqlite3.Row) -> Raw:
    return stored(connection, row).raw


def seal(connection: sqlite3.Connection, bead: Bead) -> None:
    """Seal a sound bead, if a view of its row is the very JSON that the model gives."""
    found = stored(connection, row_of(connection, bead.id))
    if dumped(arranged(found.raw)) == dumped(bead.to_json()):
        connection.execute("UPDATE beads SET seal = ? WHERE id = ?", (found.seal, bead.id))


def item_raw(connection: sqlite3.Connection, row: sqlite3.Row) -> Raw:
    """The item as its model has it."""
    raw = raw_of(connection, row)
    tracks = connection.execute("SELECT member FROM tracks WHERE convoy = ? ORDER BY position", (row["id"],))
    found = {**raw, "assignee": raw["assignee"] or None, "tracks": [member for (member,) in tracks]}
    empty = {key for key in ("comments", "external_ref") if not raw[key]}  # an item has no fields for them
    return {key: value for key, value in found.items() if key not in empty}


def stored_raw(connection: sqlite3.Connection, row: sqlite3.Row) -> Raw:
    return item_raw(connection, row) if row["item"] else raw_of(connection, row)


def _place(row: sqlite3.Row) -> Raw:
    """Where it belongs; most beads have nothing above them and stay."""
    parent = {"parent": _shown(row["parent"])} if row["parent"] is not None else {}
    return {**parent, "ephemeral": True} if row["ephemeral"] else parent


def raws_of(connection: sqlite3.Connection, rows: Iterable[sqlite3.Row]) -> Iterator[Raw]:
    return (raw_of(connection, row) for row in rows)


def _extra(row: sqlite3.Row) -> Mapping[str, Any]:
    """Core keys that the schema does not know, and what the store itself adds."""
    loaded = _loaded(row["extra"])
    extra = dict(loaded) if isinstance(loaded, dict) else {"extra": loaded}
    if row["claimed_by"] is not None:
        extra |= {key: _shown(row[key]) for key in ("claimed_by", "lease_expires_at")}
    if row["status"] == "closed" and row["close_reason"] is not None:
        extra["close_reason"] = _shown(row["close_reason"])
    return extra


def _loaded(text: Any) -> Any:
    """JSON, or the text itself, which then does not validate: shown, never dropped."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return _shown(text)


def _shown(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

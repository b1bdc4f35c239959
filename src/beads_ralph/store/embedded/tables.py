"""The tables of the embedded store's file, version by version."""

from __future__ import annotations

from typing import Final

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

STEPS: Final = (TABLES, ITEMS)
"""What leads from each version to the next; a new file goes through all of them."""
VERSION: Final = len(STEPS)

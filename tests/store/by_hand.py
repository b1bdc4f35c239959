"""The embedded store's file without the store: to spoil it and to count again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def database_of(root: Path) -> Path:
    return root / ".ralph" / "beads.db"


def by_hand(root: Path, *statements: str) -> None:
    """What a user with the sqlite3 program could do."""
    with closing(sqlite3.connect(database_of(root))) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def miscounted(root: Path) -> list[tuple[str, int, int]]:
    """Beads whose count of open blockers is not what a recount gives: must be none."""
    recount = """SELECT id, blockers,
            (SELECT count(*) FROM dependencies JOIN beads AS needed ON needed.id = needs
                WHERE bead = beads.id AND needed.status <> 'closed') AS counted
        FROM beads WHERE blockers <> counted"""
    with closing(sqlite3.connect(database_of(root))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return connection.execute(recount).fetchall()

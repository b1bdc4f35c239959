"""Files that an older beads-ralph made: they open, keep everything, and survive being killed on the way."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from beads_ralph.bead.names import GATE
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.items import make_item
from tests.store.by_hand import database_of, miscounted

PROJECT = Path(__file__).parents[2]
OLD = PROJECT / "tests" / "fixtures" / "store" / "version-1.sql"  # as the first version of the store made it
SCHEMA = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return made(tmp_path / "app")


def made(root: Path) -> Path:
    """A file of version 1."""
    database_of(root).parent.mkdir(parents=True)
    with closing(sqlite3.connect(database_of(root))) as connection:
        connection.executescript(OLD.read_text("utf-8"))
        connection.execute("PRAGMA journal_mode = WAL")
    return root


def schema(root: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(database_of(root))) as connection:
        return connection.execute(SCHEMA).fetchall()


def version(root: Path) -> int:
    with closing(sqlite3.connect(database_of(root))) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def contents(root: Path, target: Path) -> str:
    EmbeddedStore(root).snapshot(target)
    return target.read_text("utf-8")


def child(act: str, root: Path, name: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "tests.store.embedded_child", act, str(root), name]
    return subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(started: subprocess.Popen[str]) -> int:
    _, said = started.communicate(timeout=60)
    assert "Traceback" not in said, said
    return started.returncode


def test_an_old_file_opens_and_keeps_everything(old: Path, tmp_path: Path) -> None:
    assert contents(old, tmp_path / "now.jsonl") == OLD.with_suffix(".jsonl").read_text("utf-8")
    store = EmbeddedStore(old)
    assert [bead.id for bead in store.ready().beads] == ["bd-ready"]
    assert store.heartbeat("bd-claimed", "ben")
    store.close("bd-claimed", "ben", "proven")
    assert [bead.id for bead in store.ready().beads] == ["bd-waits", "bd-ready"]
    assert miscounted(old) == []


def test_an_old_file_becomes_as_a_new_one(old: Path, tmp_path: Path) -> None:
    store, fresh = EmbeddedStore(old), tmp_path / "fresh"
    EmbeddedStore(fresh).create([make_bead("bd-new")])
    store.check()
    assert schema(old) == schema(fresh)
    assert version(old) == version(fresh) > 1

    store.create([make_item("bd-gate", GATE), make_bead("bd-next", dependencies=["bd-gate", "bd-closed"])])
    assert len(store.find(Query()).beads) == 6
    store.items.close("bd-gate", "ann", "go")
    assert store.claim("bd-next", "ann").won


def test_many_processes_may_open_an_old_file_at_once(old: Path, tmp_path: Path) -> None:
    openers = [child("kill_at", old, "0") for _ in range(8)]
    assert [ended(opener) for opener in openers] == [0] * 8
    assert contents(old, tmp_path / "now.jsonl") == OLD.with_suffix(".jsonl").read_text("utf-8")


def test_killed_in_the_midst_of_it_the_file_is_as_it_was(tmp_path: Path) -> None:
    """Before every third statement, until one comes through."""
    before = schema(made(tmp_path / "untouched"))
    for statement in range(1, 60, 3):
        root = made(tmp_path / str(statement))
        code = ended(child("kill_at", root, str(statement)))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        assert (version(root), schema(root)) == (1, before) or version(root) > 1
        assert contents(root, tmp_path / "now.jsonl") == OLD.with_suffix(".jsonl").read_text("utf-8")
    assert 20 < statement < 55


def test_killed_in_the_midst_of_a_create_nothing_is_there(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path).create([make_bead("bd-old")])
    before = contents(tmp_path, tmp_path / "before.jsonl")
    for statement in range(1, 80, 3):
        code = ended(child("create_killed_at", tmp_path, str(statement)))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        assert contents(tmp_path, tmp_path / "now.jsonl") == before
        assert miscounted(tmp_path) == []
    assert 20 < statement < 75
    assert [bead.id for bead in EmbeddedStore(tmp_path).find(Query()).beads] == ["bd-old", "bd-a", "bd-b"]

"""What the embedded store promises of its file beyond the contract: crashes, races, damage, full disks."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.store.embedded import database
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.store.by_hand import by_hand, database_of, miscounted

PROJECT = Path(__file__).parents[2]


def child_command(act: str, root: Path, name: str) -> list[str]:
    return [sys.executable, "-m", "tests.store.embedded_child", act, str(root), name]


def start(act: str, root: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        child_command(act, root, name),
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(act: str, root: Path, name: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        child_command(act, root, name),
        cwd=PROJECT,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(store: Store) -> RalphError:
    """The error that every kind of operation meets alike."""
    errors = []
    for operation in (store.check, store.ready, lambda: store.create([make_bead("bd-a")])):
        with pytest.raises(RalphError) as caught:
            operation()
        errors.append(caught.value)
    assert len({(error.code, error.message) for error in errors}) == 1
    return errors[0]


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


# --- crashes and races ------------------------------------------------------------------------------


def test_killed_processes_lose_nothing_that_they_reported(tmp_path: Path) -> None:
    told: list[str] = []
    for number in range(5):
        with start("churn", tmp_path, f"run{number}") as child:
            assert child.stdout is not None
            told += [child.stdout.readline().strip() for _ in range(3)]
            time.sleep(random.uniform(0, 0.05))
            child.kill()
            told += child.stdout.read().split("\n")[:-1]  # what follows the last newline was cut off

    store = EmbeddedStore(tmp_path)
    assert miscounted(tmp_path) == []
    found = {bead.id: bead for bead in store.find(Query()).beads}
    assert set(told) <= found.keys()
    assert {bead_id[:-1] + "a" for bead_id in told} <= found.keys()
    assert len(found) % 4 == 0  # no batch of four was torn
    assert store.create([make_bead("bd-after")]) == ["bd-after"]


def test_eight_processes_share_the_work_without_a_double_or_a_loss(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create([make_bead(f"bd-{number}") for number in range(480)])
    children = [start("claim", tmp_path, f"worker-{number}") for number in range(8)]
    try:
        assert [child.stdout.readline() for child in children if child.stdout] == ["ready\n"] * 8
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [child.communicate(timeout=120)[0].split() for child in children]
    finally:
        for child in children:
            child.kill()
            child.communicate()

    claims = [(bead_id, f"worker-{number}") for number, won in enumerate(said) for bead_id in won]
    assert len(claims) == len(dict(claims)) == 480
    held = {bead.id: bead.to_json()["claimed_by"] for bead in store.find(Query()).beads}
    assert held == dict(claims)


def test_many_may_make_the_file_at_once(tmp_path: Path) -> None:
    begin = threading.Barrier(8)

    def create(number: int) -> list[str]:
        store = EmbeddedStore(tmp_path)
        begin.wait(30)
        return store.create([make_bead(f"bd-{number}")])

    with ThreadPoolExecutor(8) as pool:
        created = [bead_id for ids in pool.map(create, range(8)) for bead_id in ids]
    assert sorted(bead.id for bead in EmbeddedStore(tmp_path).ready().beads) == sorted(created)


def test_a_first_user_waits_for_another_who_is_at_it(store: EmbeddedStore, tmp_path: Path) -> None:
    database_of(tmp_path).parent.mkdir()
    with closing(sqlite3.connect(database_of(tmp_path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(1) as pool:
            created = pool.submit(store.create, [make_bead("bd-a")])
            time.sleep(0.2)
            assert not created.done()
            other.execute("ROLLBACK")
            assert created.result(30) == ["bd-a"]


def test_a_forked_child_can_go_on_with_the_store(tmp_path: Path) -> None:
    assert run("fork", tmp_path, "x") == "[0, 0, 0, 0]\n"
    assert miscounted(tmp_path) == []
    assert len(EmbeddedStore(tmp_path).find(Query()).beads) == 2 + 4 * 2


def test_a_long_wait_for_another_writer_ends_with_advice(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    store.create([make_bead("bd-a")])
    with closing(sqlite3.connect(database_of(tmp_path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert [bead.id for bead in store.ready().beads] == ["bd-a"]  # readers do not wait
        with pytest.raises(RalphError, match=r"beads\.db") as caught:
            store.claim("bd-a", "me")
    assert caught.value.code == Code.DATABASE_TIMEOUT
    assert store.claim("bd-a", "me").won


# --- files that are not ours ------------------------------------------------------------------------


def test_a_file_that_is_no_database_is_named_and_left_alone(store: EmbeddedStore, tmp_path: Path) -> None:
    database_of(tmp_path).parent.mkdir()
    database_of(tmp_path).write_bytes(b"My shopping list\n" * 500)
    error = refusal(store)
    assert error.code == Code.NOT_INITIALIZED
    assert str(database_of(tmp_path)) in error.message
    assert str(database_of(tmp_path)) in error.suggested_action
    assert database_of(tmp_path).read_bytes() == b"My shopping list\n" * 500


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path).create([make_bead(f"bd-{number}") for number in range(50)])
    with database_of(tmp_path).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (database_of(tmp_path).stat().st_size - 4096))
    with pytest.raises(RalphError, match=r"beads\.db is damaged") as caught:
        EmbeddedStore(tmp_path).find(Query())
    assert caught.value.code == Code.NOT_INITIALIZED


def test_a_newer_version_is_left_alone(store: EmbeddedStore, tmp_path: Path) -> None:
    EmbeddedStore(tmp_path).create([make_bead("bd-old")])
    by_hand(tmp_path, "PRAGMA user_version = 99")
    before = database_of(tmp_path).read_bytes()
    error = refusal(store)
    assert error.code == Code.NOT_INITIALIZED
    assert "version 99" in error.message
    assert "Update beads-ralph" in error.suggested_action
    assert database_of(tmp_path).read_bytes() == before


def test_the_database_of_another_program_is_left_alone(store: EmbeddedStore, tmp_path: Path) -> None:
    database_of(tmp_path).parent.mkdir()
    by_hand(tmp_path, "CREATE TABLE recipes (name TEXT)")
    before = database_of(tmp_path).read_bytes()
    error = refusal(store)
    assert error.code == Code.NOT_INITIALIZED
    assert "another program" in error.message
    assert database_of(tmp_path).read_bytes() == before


def test_a_database_that_lost_a_table_is_named(store: EmbeddedStore, tmp_path: Path) -> None:
    store.create([make_bead("bd-a")])
    by_hand(tmp_path, "DROP TABLE labels")
    with pytest.raises(RalphError, match="no such table: labels") as caught:
        store.show("bd-a")
    assert caught.value.code == Code.NOT_INITIALIZED


def test_an_old_sqlite_is_told(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    error = refusal(store)
    assert error.code == Code.NOT_INITIALIZED
    assert "SQLite 3.35" in error.message


def test_a_file_in_the_place_of_the_directory(store: EmbeddedStore, tmp_path: Path) -> None:
    (tmp_path / ".ralph").write_text("mine")
    error = refusal(store)
    assert error.code == Code.WRITE_FAILED
    assert str(tmp_path / ".ralph") in error.message
    assert (tmp_path / ".ralph").read_text() == "mine"


def test_a_file_removed_under_an_open_store_is_made_anew(store: EmbeddedStore, tmp_path: Path) -> None:
    store.create([make_bead("bd-a")])
    shutil.rmtree(tmp_path / ".ralph")
    assert store.create([make_bead("bd-b")]) == ["bd-b"]
    assert [bead.id for bead in EmbeddedStore(tmp_path).find(Query()).beads] == ["bd-b"]


# --- full disks and missing rights ------------------------------------------------------------------


def test_a_full_disk_leaves_whole_batches(tmp_path: Path) -> None:
    code, stored = run("fill", tmp_path, "x").split()
    assert code == Code.WRITE_FAILED
    assert int(stored) > 0
    assert miscounted(tmp_path) == []
    assert len(EmbeddedStore(tmp_path).find(Query()).beads) == int(stored) + 1


def test_a_full_database_says_so_and_recovers(store: EmbeddedStore) -> None:
    store.create([make_bead("bd-a")])
    with store._database.writing() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    batch = [make_bead(f"bd-{number}") for number in range(100)]
    with pytest.raises(RalphError, match="disk is full") as caught:
        store.create(batch)
    assert caught.value.code == Code.WRITE_FAILED
    assert [bead.id for bead in store.find(Query()).beads] == ["bd-a"]
    assert len(store.create(batch)) == 100


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A directory that another user can reach, which pytest's are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        Path(name).chmod(0o755)


@pytest.mark.parametrize("existing", [False, True])
def test_a_read_only_directory(public_dir: Path, existing: bool) -> None:
    if existing:
        EmbeddedStore(public_dir).create([make_bead("bd-old")])
    before = {path: path.read_bytes() for path in public_dir.rglob("*") if path.is_file()}
    for path in (*public_dir.rglob("*"), public_dir):
        path.chmod(0o555 if path.is_dir() else 0o444)
    # The child gives up root's rights, after which coverage could not write its figures.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    try:
        outcomes = run("attempt", public_dir, "bd-new", environment).splitlines()
    finally:
        for path in (public_dir, *public_dir.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    refused = [outcome for outcome in outcomes if outcome != "done"]
    assert [outcome.split()[0] for outcome in refused] == [Code.PERMISSION_DENIED] * (1 + existing), outcomes
    assert all(str(public_dir / ".ralph") in outcome for outcome in refused)
    assert outcomes[-1] == "done" or existing  # looking needs no right to write where there is nothing
    assert {path: path.read_bytes() for path in public_dir.rglob("*") if path.is_file()} == before


def test_a_snapshot_that_fails_leaves_the_old_one(store: EmbeddedStore, tmp_path: Path) -> None:
    store.create([make_bead("bd-a", comments=["by hand"]), make_bead("bd-b", dependencies=["bd-a"])])
    target = tmp_path / "snapshots" / "beads.jsonl"
    with pytest.raises(RalphError, match="snapshots") as caught:
        store.snapshot(target)
    assert caught.value.code == Code.WRITE_FAILED
    target.parent.mkdir()
    target.write_text("old")
    by_hand(tmp_path, "ALTER TABLE comments RENAME TO hidden")
    with pytest.raises(RalphError):
        store.snapshot(target)
    assert target.read_text() == "old"
    by_hand(tmp_path, "ALTER TABLE hidden RENAME TO comments")
    assert store.snapshot(target) == 2
    first, second = map(json.loads, target.read_text().splitlines())
    assert (first["id"], first["comments"]) == ("bd-a", ["by hand"])
    assert (second["id"], second["dependencies"]) == ("bd-b", ["bd-a"])
    assert [path.name for path in target.parent.iterdir()] == ["beads.jsonl"]

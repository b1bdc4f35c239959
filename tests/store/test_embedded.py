"""What the embedded store promises beyond the contract: crashes, races, damage, full disks, hand edits."""

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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.legacy import LegacyBead
from beads_ralph.models import ASSIGNEE, WORK
from beads_ralph.protocols import Changes, Query, Store
from beads_ralph.store import embedded, embedded_database
from beads_ralph.store.embedded import EmbeddedStore
from tests.beads import make_bead

PROJECT = Path(__file__).parents[2]


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


def run(act: str, root: Path, name: str, **how: Any) -> str:
    command = child_command(act, root, name)
    XX    assert done.returncode == 0, done.stderr
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


def test_a_forked_child_can_go_on_with_the_store(tmp_path: Path) -> None:
    assert run("fork", tmp_path, "x") == "[0, 0, 0, 0]\n"
    assert miscounted(tmp_path) == []
    assert len(EmbeddedStore(tmp_path).find(Query()).beads) == 2 + 4 * 2


def test_a_long_wait_for_another_writer_ends_with_advice(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_database, "BUSY_SECONDS", 0.05)
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
    assert [outcome.split()[0] for outcome in outcomes] == [Code.PERMISSION_DENIED] * 2, outcomes
    assert all(str(public_dir / ".ralph") in outcome for outcome in outcomes)
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


# --- time -------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 2, 7, 10, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


def test_only_reclaim_frees_an_expired_claim_and_only_a_heartbeat_extends_it(tmp_path: Path) -> None:
    clock = Clock()
    store = EmbeddedStore(tmp_path, clock=clock)
    store.create([make_bead(f"bd-{letter}") for letter in "abc"])
    for letter in "cab":
        assert store.claim(f"bd-{letter}", "one").lease_expires_at == "2026-02-07T10:05:00Z"
    clock.pass_minutes(4)
    assert store.claim("bd-a", "one").lease_expires_at == "2026-02-07T10:05:00Z"
    assert store.heartbeat("bd-b", "one")
    assert store.show("bd-b").to_json()["lease_expires_at"] == "2026-02-07T10:09:00Z"
    assert store.reclaim(timedelta(0)) == store.reclaim(timedelta(minutes=-30)) == []

    clock.pass_minutes(3)  # 10:07: the leases of a and c ran out two minutes ago
    assert store.claim("bd-a", "two").refusal == "already claimed by one"
    assert store.reclaim(timedelta(minutes=3)) == store.reclaim(timedelta.max) == []
    assert store.reclaim(timedelta(minutes=2)) == ["bd-a", "bd-c"]
    freed = store.show("bd-a").to_json()
    assert (freed["status"], freed["updated_at"]) == ("open", "2026-02-07T10:07:00Z")
    assert "claimed_by" not in freed
    assert not store.heartbeat("bd-a", "one")
    assert store.claim("bd-a", "two").won
    with pytest.raises(RalphError, match="two"):
        store.close("bd-a", "one", "too late")


def test_times_are_kept_and_maintained(tmp_path: Path) -> None:
    clock = Clock()
    store = EmbeddedStore(tmp_path, clock=clock)
    store.create([make_bead("bd-a", created_at="2020-01-01T00:00:00Z"), make_bead("bd-b")])
    assert store.show("bd-a").created_at == "2020-01-01T00:00:00Z"
    assert store.show("bd-b").created_at == store.show("bd-b").updated_at == "2026-02-07T10:00:00Z"
    clock.pass_minutes(1)
    assert store.update("bd-a", Changes(title="New")).updated_at == "2026-02-07T10:01:00Z"
    clock.pass_minutes(1)
    store.comment("bd-b", "me", "hm")
    assert store.show("bd-b").updated_at == "2026-02-07T10:02:00Z"
    assert store.show("bd-b").comments == [
        {"author": "me", "text": "hm", "created_at": "2026-02-07T10:02:00Z"}
    ]
    clock.pass_minutes(1)
    store.claim("bd-a", "me")
    closed = store.close("bd-a", "me", "done")
    assert closed.updated_at == closed.closed_at == "2026-02-07T10:03:00Z"


# --- shapes -----------------------------------------------------------------------------------------


def test_everything_given_at_creation_is_kept(store: EmbeddedStore) -> None:
    bead = make_bead(
        "bd-a",
        owner="ann",
        comments=["plain", {"author": "ann", "text": "object", "mood": "good"}],
        labels=["twice", "twice"],
        colour="green",
        metadata={"zeta": 1, "alpha": {"z": 10**30, "a": 0.1}, "nothing": None},
    )
    store.create([bead])
    shown = store.show("bd-a")
    assert json.dumps(shown.metadata.to_json()) == json.dumps(bead.metadata.to_json())  # the order, too
    assert shown.to_json() == {
        **bead.to_json(),
        "created_at": shown.created_at,
        "updated_at": shown.updated_at,
    }
    assert store.update("bd-a", Changes(priority=2)).to_json()["colour"] == "green"
    assert store.show("bd-a").to_json()["colour"] == "green"


def test_a_claim_does_not_travel_but_a_closed_bead_does(store: EmbeddedStore, tmp_path: Path) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b")])
    store.claim("bd-a", "one")
    closed = store.close("bd-a", "one", "done")
    held = store.claim("bd-b", "one").bead
    assert held is not None

    other = EmbeddedStore(tmp_path / "other")
    other.create([closed, held])
    assert other.show("bd-a") == closed
    assert "claimed_by" not in other.show("bd-b").to_json()
    assert other.claim("bd-b", "two").refusal == "status in_progress"
    assert other.update("bd-b", Changes(status="open")).status == "open"


def test_a_bead_of_the_old_schema_is_stored_as_it_is_and_read_as_new(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    old = {
        "rig": "beads-ralph",
        "worktree_path": "../trees/a",
        "branch": "feature/a",
        "source_branch": "develop",
        "phase": "1",
        "sprint": "1.1",
        "plan_file": "plan.md",
        "plan_section": "### Sprint 1.1: A",
        "plan_sprint_id": "1.1",
        "dev_prompts": ["Go"],
        "dev_agent_path": "dev",
        "dev_model": "sonnet",
        "qa_agents": [{"agent_path": "qa", "model": "haiku", "prompt": "Look"}],
    }
    core = {"id": "bd-a", "title": "Old", "status": "open", "issue_type": WORK, "assignee": ASSIGNEE}
    assert store.create([LegacyBead.model_validate({**core, "metadata": old})]) == ["bd-a"]

    bead = store.show("bd-a")
    assert bead.metadata.dev_agents[0].agent == ".claude/agents/dev.md"
    assert Path(bead.metadata.worktree_path).is_absolute()
    assert store.update("bd-a", Changes(metadata={"attempt_count": 1})).metadata.attempt_count == 1
    assert store.snapshot(tmp_path / "all.jsonl") == 1
    assert json.loads((tmp_path / "all.jsonl").read_text())["metadata"] == {**old, "attempt_count": 1}


@pytest.mark.parametrize(
    "edit",
    [
        "metadata = 'no JSON'",
        "extra = 'no JSON', metadata = '{}'",
        "metadata = '[1, 2]'",
        "metadata = CAST(x'ff00' AS TEXT)",
        "metadata = x'ff00'",
        "priority = 'high'",
        "priority = 9",
        "status = 'merged'",
        "title = ''",
        "assignee = 'ann'",
        "created_at = 'yesterday'",
        "issue_type = x'ff'",
    ],
)
def test_what_somebody_wrote_by_hand_harms_only_its_bead(
    store: EmbeddedStore, tmp_path: Path, edit: str
) -> None:
    store.create([make_bead("bd-bad"), make_bead("bd-good")])
    by_hand(tmp_path, f"UPDATE beads SET {edit} WHERE id = 'bd-bad'")  # noqa: S608
    listing = store.find(Query(ids=["bd-good", "bd-bad"]))
    assert [bead.id for bead in listing.beads] == ["bd-good"]
    assert [bead.id for bead in listing.unreadable] == ["bd-bad"]
    assert listing.unreadable[0].faults
    assert store.snapshot(tmp_path / "all.jsonl") == 2
    with pytest.raises(RalphError) as caught:
        store.show("bd-bad")
    assert caught.value.code.startswith("VALIDATION.")


def test_an_update_can_mend_a_bead(store: EmbeddedStore, tmp_path: Path) -> None:
    store.create([make_bead("bd-a")])
    by_hand(tmp_path, "UPDATE beads SET metadata = 'gone', title = ''")
    with pytest.raises(RalphError):
        store.update("bd-a", Changes(title="New"))
    given = make_bead("bd-a").to_json()["metadata"]
    assert store.update("bd-a", Changes(title="New", metadata=given)) == store.show("bd-a")


@pytest.mark.parametrize("value", ["\ud800", float("nan"), {1, 2}])
def test_what_json_cannot_hold_is_refused(store: EmbeddedStore, value: object) -> None:
    store.create([make_bead("bd-a")])
    before = store.show("bd-a")
    with pytest.raises(RalphError) as caught:
        store.update("bd-a", Changes(title="New", metadata={"invented": value}))
    assert caught.value.code == Code.BEAD_SCHEMA
    assert store.show("bd-a") == before


def test_a_bead_changed_without_validation_is_not_stored(store: EmbeddedStore) -> None:
    bead = make_bead("bd-a")
    for update, code in (
        ({"title": ""}, Code.CONSTRAINT),
        ({"dependencies": ["bd-a"]}, Code.SELF_DEP),
        ({"title": "\ud800"}, Code.BEAD_SCHEMA),
    ):
        with pytest.raises(RalphError) as caught:
            store.create([make_bead("bd-b"), bead.model_copy(update=update)])
        assert caught.value.code == code
    assert store.find(Query()).beads == ()


def test_all_faults_of_a_batch_are_named(store: EmbeddedStore) -> None:
    store.create([make_bead("bd-a")])
    with pytest.raises(RalphError) as caught:
        store.create([make_bead("bd-a"), make_bead("bd-b", dependencies=["bd-x", "bd-y"])])
    assert [fault.code for fault in caught.value.faults] == [
        Code.DUPLICATE_ID,
        Code.UNRESOLVED,
        Code.UNRESOLVED,
    ]


@pytest.mark.parametrize(
    ("status", "wanted", "allowed"),
    [
        ("open", "open", True),
        ("open", "blocked", True),
        ("open", "in_progress", False),
        ("open", "closed", False),
        ("blocked", "open", True),
        ("blocked", "in_progress", False),
        ("blocked", "closed", False),
        ("in_progress", "open", False),
        ("in_progress", "blocked", False),
        ("in_progress", "in_progress", True),
        ("in_progress", "closed", False),
        ("closed", "open", True),
        ("closed", "blocked", False),
        ("closed", "in_progress", False),
        ("closed", "closed", True),
    ],
)
def test_how_an_update_may_change_the_status(
    store: EmbeddedStore, status: str, wanted: str, allowed: bool
) -> None:
    store.create([make_bead("bd-a", status=status if status in ("open", "blocked") else "open")])
    if status in ("in_progress", "closed"):
        assert store.claim("bd-a", "one").won
    if status == "closed":
        store.close("bd-a", "one", "done")
    if allowed:
        assert store.update("bd-a", Changes(status=wanted)).status == wanted
    else:
        with pytest.raises(RalphError) as caught:
            store.update("bd-a", Changes(status=wanted))
        assert caught.value.code == Code.CONFLICT
        assert store.show("bd-a").status == status


@pytest.mark.parametrize("status", ["closed", "in_progress", "merged"])
def test_a_bead_is_released_as_open_or_blocked(store: EmbeddedStore, status: str) -> None:
    store.create([make_bead("bd-a")])
    store.claim("bd-a", "one")
    with pytest.raises(RalphError, match="open or blocked"):
        store.release("bd-a", "one", status=status)
    assert store.show("bd-a").status == "in_progress"


# --- size -------------------------------------------------------------------------------------------


def test_ready_and_claim_use_their_indexes(store: EmbeddedStore) -> None:
    """What keeps them as fast with a hundred thousand beads as with a few; no clock needed."""
    store.create([make_bead("bd-a")])
    values = {"id": "bd-a", "actor": "one", "lease": "", "now": ""}
    with store._database.reading() as connection:
        plans = [
            [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bound)]
            for sql, bound in ((embedded.READY, (20,)), (embedded.CLAIM, values))
        ]
    assert plans[0] == ["SCAN beads USING INDEX ready_beads"]
    assert plans[1] == ["SEARCH beads USING INDEX sqlite_autoindex_beads_1 (id=?)"]


def test_long_chains_need_no_recursion(store: EmbeddedStore) -> None:
    chain = [make_bead("bd-0")]
    chain += [make_bead(f"bd-{number}", dependencies=[f"bd-{number - 1}"]) for number in range(1, 3000)]
    random.shuffle(chain)
    store.create(chain)
    with pytest.raises(RalphError, match="bd-0 → bd-2999 → bd-2998 →") as caught:
        store.update("bd-0", Changes(dependencies=["bd-2999"]))
    assert caught.value.code == Code.CYCLE_DETECTED
    assert [bead.id for bead in store.ready().beads] == ["bd-0"]
    assert len(store.find(Query(ids=[bead.id for bead in chain])).beads) == 3000

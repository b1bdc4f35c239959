"""What the embedded store promises of its beads beyond the contract: leases, shapes, hand edits, size."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from beads_ralph.bead.legacy import LegacyBead
from beads_ralph.bead.names import ASSIGNEE, WORK
from beads_ralph.errors import Code, RalphError
from beads_ralph.store.embedded import embedded_store, queries
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.store.by_hand import by_hand


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


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
            for sql, bound in ((queries.READY, (20,)), (embedded_store.CLAIM, values))
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

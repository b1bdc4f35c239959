"""Looking at beads without their models: the same answers as with them, and quicker."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.model import Bead
from beads_ralph.bead.schema import check
from beads_ralph.errors import RalphError
from beads_ralph.store.embedded import rows
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.embedded.views import EmbeddedViews
from beads_ralph.store.protocol import Changes, Findings
from beads_ralph.store.query import Query
from beads_ralph.store.views import FIELDS, StoreViews, Views
from tests.bead.samples import JSON, beads, new_metadata, old_metadata
from tests.beads import make_bead
from tests.store.by_hand import by_hand


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


def loose(root: Path) -> list[str]:
    """The beads that whoever looks has to validate."""
    with EmbeddedViews(root)._database.reading() as connection:
        found = [rows.stored(connection, row) for row in connection.execute("SELECT * FROM beads")]
    return [one.row["id"] for one in found if not one.is_sealed]


def seen(views: Views) -> str:
    """Everything that a look tells, as it is printed."""
    found = views.find(Query(wisps=True))
    each = [_shown(views, bead.id) for bead in found.beads]
    broken = [{"id": one.id, "faults": [fault.to_json() for fault in one.faults]} for one in found.unreadable]
    ready = [bead.to_json() for bead in views.ready().beads]
    return json.dumps([[bead.to_json() for bead in found.beads], ready, each, broken], ensure_ascii=False)


def _shown(views: Views, bead_id: str) -> Any:
    return views.show(bead_id).to_json()


def same_to_the_eye(root: Path) -> None:
    assert seen(EmbeddedViews(root)) == seen(StoreViews(EmbeddedStore(root)))


def test_the_fields_stand_in_the_models_order() -> None:
    assert tuple(Bead.model_fields) == FIELDS


# --- the same answers -------------------------------------------------------------------------------


@given(
    st.lists(beads(new_metadata()) | beads(old_metadata()), max_size=4, unique_by=lambda raw: str(raw["id"]))
)
def test_a_look_tells_what_the_store_tells(raws: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        batch = [bead for raw in raws if (bead := check(_storable(raw)).bead) is not None]
        EmbeddedStore(root).create(batch)
        same_to_the_eye(root)
        assert loose(root) == [bead.id for bead in batch if not isinstance(bead, Bead)]
        same_to_the_eye(root)


def _storable(raw: dict[str, Any]) -> dict[str, Any]:
    return {**raw, "status": "open", "dependencies": []}


SPOILED = ("status", "priority", "title", "metadata", "extra", "created_at", "closed_at", "assignee", "seal")


@given(st.sampled_from(SPOILED), JSON)
def test_what_was_edited_by_hand_is_validated(column: str, value: Any) -> None:
    """The edit leaves the seal where it is, and so does one that only edits the seal."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        EmbeddedStore(root).create([make_bead("bd-a"), make_bead("bd-b")])
        text = json.dumps(value).replace("'", "''")
        by_hand(root, f"UPDATE beads SET {column} = '{text}' WHERE id = 'bd-a'")  # noqa: S608 - a column's name
        same_to_the_eye(root)
        assert "bd-b" not in loose(root)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE labels SET label = ' ' WHERE bead = 'bd-a'",
        "INSERT INTO comments (bead, body) VALUES ('bd-a', '5')",
        "UPDATE beads SET metadata = json_set(metadata, '$.parked', 'x') WHERE id = 'bd-a'",
        "UPDATE beads SET metadata = json_set(metadata, '$.sprint', '2.1') WHERE id = 'bd-a'",
    ],
)
def test_a_spoiled_bead_is_unreadable_and_the_others_are_not(statement: str, store: EmbeddedStore) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b")])
    root = store._root
    by_hand(root, statement)
    found = EmbeddedViews(root).find(Query())
    assert [bead.id for bead in found.beads] == ["bd-b"]
    assert [bead.id for bead in found.unreadable] == ["bd-a"]
    assert found.unreadable[0].faults[0].field
    with pytest.raises(RalphError):
        EmbeddedViews(root).show("bd-a")
    same_to_the_eye(root)


def test_what_no_seal_tells_of_can_be_anything(store: EmbeddedStore) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b")])
    by_hand(
        store._root,
        "UPDATE beads SET claimed_by = x'6fff', lease_expires_at = 5.5, close_reason = x'00'",
        "UPDATE beads SET status = 'closed' WHERE id = 'bd-b'",
    )
    same_to_the_eye(store._root)
    assert "bd-a" not in loose(store._root)


# --- quicker ----------------------------------------------------------------------------------------


def claimed(store: EmbeddedStore) -> None:
    assert store.claim("bd-a", "one").won


def alive(store: EmbeddedStore) -> None:
    claimed(store)
    assert store.heartbeat("bd-a", "one")


def closed(store: EmbeddedStore) -> None:
    claimed(store)
    store.close("bd-a", "one", "done", Findings({"pr_url": "u", "attempt_count": 1}))


def given_back(store: EmbeddedStore) -> None:
    claimed(store)
    store.release("bd-a", "one", status="blocked", reason="no", found=Findings({"attempt_count": 2}))


def reclaimed(store: EmbeddedStore) -> None:
    EmbeddedStore(store._root, lease=timedelta(seconds=-10)).claim("bd-a", "one")
    assert store.reclaim(timedelta(0)) == ["bd-a"]


ACTS: list[Callable[[EmbeddedStore], object]] = [
    lambda store: store.update("bd-a", Changes(title="New", labels=["x"], dependencies=[])),
    lambda store: store.update("bd-a", Changes(metadata={"x_mine": [1], "parked": {"reason": "r"}})),
    lambda store: store.update("bd-a", Changes(metadata={"scrum_result": None}, external_ref="e")),
    lambda store: store.comment("bd-a", "me", "said"),
    claimed,
    alive,
    closed,
    given_back,
    reclaimed,
]


@pytest.mark.parametrize("act", ACTS)
def test_what_the_store_writes_need_not_be_validated_again(
    act: Callable[[EmbeddedStore], object], store: EmbeddedStore
) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b", dependencies=["bd-a"])])
    act(store)
    assert loose(store._root) == []
    same_to_the_eye(store._root)


def test_what_was_validated_once_is_not_validated_again(store: EmbeddedStore) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b")])
    by_hand(store._root, "UPDATE beads SET seal = NULL", "UPDATE beads SET title = 'Other' WHERE id = 'bd-b'")
    assert loose(store._root) == ["bd-a", "bd-b"]
    EmbeddedViews(store._root).find(Query())
    assert loose(store._root) == []
    by_hand(store._root, "UPDATE beads SET seal = NULL")
    EmbeddedViews(store._root).show("bd-b")
    assert loose(store._root) == ["bd-a"]


def test_nobody_believes_the_seal_of_another_version(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create([make_bead("bd-a")])
    monkeypatch.setattr(rows, "fingerprint", lambda *_rooms: "another")
    assert loose(store._root) == ["bd-a"]
    monkeypatch.setattr(rows, "fingerprint", lambda *_rooms: "")  # the source is not there to be read
    EmbeddedViews(store._root).find(Query())
    assert loose(store._root) == ["bd-a"]

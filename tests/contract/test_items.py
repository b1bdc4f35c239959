"""The laws of what lies in a store beside the beads, once, over every store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.items import GateRule, Item
from beads_ralph.bead.names import CONVOY, EPIC, GATE, MOLECULE, TASK
from beads_ralph.errors import Code, RalphError
from beads_ralph.store.protocol import Changes, Listing, Settled, Store, Stored
from beads_ralph.store.query import ItemQuery, Query
from tests.beads import make_bead
from tests.contract.places import Place
from tests.items import make_item

PROJECT = Path(__file__).parents[2]
TIMES = {"created_at", "updated_at"}


def ids(listing: Listing) -> list[str]:
    return [bead.id for bead in listing.beads]


def found(store: Store, **query: Any) -> list[str]:
    return [item.id for item in store.items.find(ItemQuery(**query))]


def item(store: Store, item_id: str) -> Item:
    (only,) = store.items.find(ItemQuery(ids=[item_id]))
    return only


def finish(store: Store, *bead_ids: str) -> None:
    for bead_id in bead_ids:
        assert store.claim(bead_id, "worker").won
        store.close(bead_id, "worker", "done")


def refused(act: Any, *arguments: Any) -> RalphError:
    with pytest.raises(RalphError) as caught:
        act(*arguments)
    return caught.value


def release(root: str = "bd-release-001", **more: Any) -> list[Stored]:
    """What a pour makes: a root, an epic with a bead and a task, a gate, and a bead behind all of it."""
    return [
        make_item(root, MOLECULE, **more),
        make_item(f"{root}-prepare", EPIC, parent=root, **more),
        make_bead(f"{root}-build", parent=f"{root}-prepare", **more),
        make_item(f"{root}-notes", TASK, parent=f"{root}-prepare", assignee="ann", **more),
        make_item(f"{root}-gate", GATE, parent=root, metadata={"gate": {"type": "human"}}, **more),
        make_bead(
            f"{root}-ship",
            parent=root,
            dependencies=[f"{root}-build", f"{root}-notes", f"{root}-gate"],
            **more,
        ),
    ]


# --- creating and finding ---------------------------------------------------------------------------


@pytest.mark.core
def test_items_come_back_as_they_were(store: Store) -> None:
    gate = make_item(
        "bd-gate",
        GATE,
        title="Wait — for “ann” ✓",
        description="First\n\n- second",
        notes="read this\nand that",
        priority=0,
        owner="ben@example.com",
        labels=["größe", "x"],
        parent="bd-root",
        metadata={"gate": {"type": "timer", "timeout": "2h"}, "other": {"deep": [1, None, "日本"]}},
    )
    batch: list[Stored] = [
        gate,
        make_bead("bd-work", parent="bd-root", dependencies=["bd-gate"]),
        make_item("bd-root", MOLECULE),
    ]
    convoy = make_item(
        "bd-follow", CONVOY, tracks=["bd-gate", "bd-work"], assignee="ann", owner="ann@example.com"
    )

    assert store.create(batch) == ["bd-gate", "bd-work", "bd-root"]
    assert store.create([convoy]) == ["bd-follow"]

    for expected in (gate, convoy):
        shown = item(store, expected.id)
        assert shown.model_dump(exclude=TIMES) == expected.model_dump(exclude=TIMES)
        assert shown.created_at is not None
        assert shown.updated_at is not None
    assert item(store, "bd-gate").gate == GateRule(type="timer", timeout="2h")
    assert store.show("bd-work").parent == "bd-root"
    assert store.show("bd-work").dependencies == ["bd-gate"]
    assert store.show("bd-work").ephemeral is None


def test_find_by_type_status_parent_and_id(store: Store) -> None:
    root = "bd-release-001"
    store.create(release())
    store.items.close(f"{root}-notes", "ann", "written")

    assert sorted(found(store)) == sorted([root, f"{root}-prepare", f"{root}-notes", f"{root}-gate"])
    assert found(store, types=[GATE]) == [f"{root}-gate"]
    assert sorted(found(store, types=[GATE, MOLECULE])) == [root, f"{root}-gate"]
    assert found(store, statuses=["closed"]) == [f"{root}-notes"]
    assert found(store, parents=[f"{root}-prepare"]) == [f"{root}-notes"]
    assert sorted(found(store, parents=[root, f"{root}-prepare"], statuses=["open"])) == [
        f"{root}-gate",
        f"{root}-prepare",
    ]
    assert found(store, ids=[f"{root}-gate", f"{root}-ship", "bd-nothing", "bd-release"]) == [f"{root}-gate"]
    assert found(store, ids=[f"{root}-gate"], types=[TASK]) == []
    assert found(store, wisps_only=True) == []
    assert ids(store.find(Query(parents=[f"{root}-prepare"]))) == [f"{root}-build"]
    assert ids(store.find(Query(parents=[root, "bd-nothing"]))) == [f"{root}-ship"]


def test_items_are_no_beads(store: Store, tmp_path: Path) -> None:
    root = "bd-release-001"
    store.create(release())

    everything = store.find(Query())
    assert ids(everything) == [f"{root}-build", f"{root}-ship"]
    assert everything.unreadable == ()
    assert store.find(Query(ids=[root, f"{root}-gate"])) == Listing()
    assert store.ready() == store.find(Query(ids=[f"{root}-build"]))
    for act in (
        lambda: store.show(root),
        lambda: store.claim(f"{root}-notes", "worker"),
        lambda: store.update(root, Changes(title="Another")),
        lambda: store.comment(f"{root}-gate", "ann", "hello"),
        lambda: store.close(f"{root}-gate", "worker", "done"),
        lambda: store.release(f"{root}-gate", "worker"),
    ):
        error = refused(act)
        assert error.code == Code.BEAD_NOT_FOUND
        assert "not a bead" in error.message
    assert store.heartbeat(f"{root}-notes", "ann") is False
    assert store.snapshot(tmp_path / "all.jsonl") == 6
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert {line["id"]: line["issue_type"] for line in lines}[f"{root}-gate"] == GATE


def test_a_mixed_batch_is_created_whole_or_not_at_all(store: Store) -> None:
    store.create([make_item("bd-old", TASK), make_bead("bd-bead")])
    fresh = make_bead("bd-new")
    unsound = make_item("bd-x", GATE).model_copy(update={"priority": 9})
    gateless = make_item("bd-x", GATE).model_copy(update={"metadata": {"gate": {"type": ""}}})
    faulty: list[tuple[Code, str, list[Stored]]] = [
        (Code.DUPLICATE_ID, "id", [fresh, make_item("bd-bead", TASK)]),
        (Code.DUPLICATE_ID, "id", [fresh, make_item("bd-new", TASK)]),
        (Code.UNRESOLVED, "dependencies", [fresh, make_item("bd-x", TASK, dependencies=["bd-ol"])]),
        (Code.UNRESOLVED, "parent", [fresh, make_bead("bd-x", parent="bd-ol")]),
        (Code.UNRESOLVED, "tracks", [fresh, make_item("bd-x", CONVOY, tracks=["bd-new", "bd-ol"])]),
        (Code.SELF_DEP, "parent", [fresh, make_item("bd-x", EPIC, parent="bd-x")]),
        (Code.BEAD_SCHEMA, "priority", [fresh, unsound]),
        (Code.CONSTRAINT, "metadata.gate.type", [fresh, gateless]),
    ]
    for code, field, batch in faulty:
        error = refused(store.create, batch)
        assert (error.code, error.faults[0].field) == (code, field), error

    assert found(store) == ["bd-old"]
    assert ids(store.find(Query())) == ["bd-bead"]


def test_nothing_waits_in_a_circle(store: Store) -> None:
    epic = make_item("bd-epic", EPIC, dependencies=["bd-before"])
    circles: list[list[Stored]] = [
        [make_bead("bd-a", dependencies=["bd-t"]), make_item("bd-t", TASK, dependencies=["bd-a"])],
        [make_item("bd-e", EPIC, parent="bd-f"), make_item("bd-f", EPIC, parent="bd-e")],
        # A member cannot wait for what ends only with its members …
        [make_item("bd-e", EPIC), make_bead("bd-a", parent="bd-e", dependencies=["bd-e"])],
        # … nor can its container wait for it, or for what waits for it: the members wait, too.
        [make_item("bd-e", EPIC, dependencies=["bd-a"]), make_bead("bd-a", parent="bd-e")],
        [epic, make_bead("bd-m", parent="bd-epic"), make_bead("bd-before", dependencies=["bd-m"])],
    ]
    for batch in circles:
        assert refused(store.create, batch).code == Code.CYCLE_DETECTED
    assert found(store) == []
    assert store.find(Query()) == Listing()

    # A new member makes what is stored wait.
    store.create([make_item("bd-root", MOLECULE), make_item("bd-in", EPIC, parent="bd-root")])
    store.create([make_bead("bd-after", dependencies=["bd-in"])])
    for needed in ("bd-root", "bd-after"):
        error = refused(store.create, [make_bead("bd-m", parent="bd-in", dependencies=[needed])])
        assert error.code == Code.CYCLE_DETECTED
    assert ids(store.find(Query())) == ["bd-after"]


# --- waiting ----------------------------------------------------------------------------------------


def test_a_bead_behind_a_gate_is_ready_when_the_gate_is_closed(store: Store) -> None:
    store.create(
        [
            make_item("bd-gate", GATE, metadata={"gate": {"type": "human"}}),
            make_bead("bd-other"),
            make_bead("bd-ship", dependencies=["bd-gate"]),
        ]
    )
    assert ids(store.ready()) == ["bd-other"]
    claim = store.claim("bd-ship", "worker")
    assert not claim.won
    assert "bd-gate" in claim.refusal

    closed = store.items.close("bd-gate", "ann", 'looks "good" \\ to\nme')
    assert closed.status == "closed"
    assert closed.close_reason is not None
    assert closed.close_reason.split() == ["looks", '"good"', "\\", "to", "me"]
    assert closed.closed_at is not None
    again = store.items.close("bd-gate", "ben", "another reason")
    assert (again.close_reason, again.closed_at) == (closed.close_reason, closed.closed_at)

    assert ids(store.ready()) == ["bd-other", "bd-ship"]
    assert store.claim("bd-ship", "worker").won


def test_members_wait_for_what_their_container_waits_for(store: Store) -> None:
    store.create(
        [
            make_item("bd-first", TASK),
            make_item("bd-epic", EPIC, dependencies=["bd-first"]),
            make_item("bd-inner", EPIC, parent="bd-epic"),
            make_bead("bd-deep", parent="bd-inner"),
            make_bead("bd-free"),
        ]
    )
    store.create([make_bead("bd-late", parent="bd-inner")])
    assert ids(store.ready()) == ["bd-free"]
    assert not store.claim("bd-deep", "worker").won
    assert store.show("bd-deep").dependencies == []
    store.update("bd-deep", Changes(dependencies=["bd-free"]))
    store.items.close("bd-first", "ann", "done")
    assert ids(store.ready()) == ["bd-free", "bd-late"]
    finish(store, "bd-free", "bd-deep", "bd-late")
    assert refused(store.update, "bd-deep", Changes(dependencies=["bd-inner"])).code == Code.CYCLE_DETECTED


def test_what_can_be_closed_and_what_cannot(store: Store) -> None:
    root = "bd-release-001"
    store.create(release())
    store.create([make_item("bd-later", TASK, dependencies=[f"{root}-gate"]), make_item("bd-empty", EPIC)])

    for item_id in (f"{root}-build", "bd-nothing", "bd-release"):
        assert refused(store.items.close, item_id, "ann", "done").code == Code.BEAD_NOT_FOUND
    for item_id in (root, f"{root}-prepare", "bd-later"):
        assert refused(store.items.close, item_id, "ann", "done").code == Code.CONFLICT
    assert item(store, "bd-later").status == "open"
    # Whoever a task is assigned to: it is done when somebody says so.
    assert store.items.close(f"{root}-notes", "ben", "done").status == "closed"
    assert store.items.close("bd-empty", "ben", "").status == "closed"
    store.items.close(f"{root}-gate", "ben", "go")
    assert store.items.close("bd-later", "ben", "done").status == "closed"


# --- containers -------------------------------------------------------------------------------------


def test_containers_settle(store: Store) -> None:
    root = "bd-release-001"
    store.create(release())
    store.create(
        [make_item("bd-empty", MOLECULE), make_item("bd-all", CONVOY, tracks=[root, f"{root}-build"])]
    )
    assert store.items.settle() == Settled()

    finish(store, f"{root}-build")
    store.items.close(f"{root}-notes", "ann", "written")
    assert store.items.settle() == Settled(closed=(f"{root}-prepare",))
    assert item(store, f"{root}-prepare").close_reason == "everything in it is closed"
    store.items.close(f"{root}-gate", "ann", "go")
    finish(store, f"{root}-ship")
    outcome = store.items.settle()
    assert (set(outcome.closed), outcome.reopened) == ({root, "bd-all"}, ())
    assert store.items.settle() == Settled()
    assert found(store, types=[MOLECULE, CONVOY, EPIC], statuses=["open"]) == ["bd-empty"]

    store.update(f"{root}-build", Changes(status="open"))
    outcome = store.items.settle()
    assert (outcome.closed, set(outcome.reopened)) == ((), {root, f"{root}-prepare", "bd-all"})
    assert item(store, root).status == "open"
    assert item(store, root).closed_at is None
    assert item(store, root).close_reason is None
    finish(store, f"{root}-build")
    assert set(store.items.settle().closed) == {root, f"{root}-prepare", "bd-all"}


@pytest.mark.core
def test_what_waits_for_a_container_is_ready_when_it_settles(store: Store) -> None:
    store.create(
        [
            make_item("bd-epic", EPIC),
            make_bead("bd-in", parent="bd-epic"),
            make_bead("bd-after", dependencies=["bd-epic"]),
            make_item("bd-next", EPIC, dependencies=["bd-epic"]),
            make_bead("bd-within", parent="bd-next"),
        ]
    )
    finish(store, "bd-in")
    assert store.ready() == Listing()
    assert store.items.settle() == Settled(closed=("bd-epic",))
    assert ids(store.ready()) == ["bd-after", "bd-within"]


def test_a_convoy_follows_what_it_is_given(store: Store) -> None:
    store.create(
        [
            make_bead("bd-a"),
            make_bead("bd-b"),
            make_item("bd-t", TASK),
            make_item("bd-c", CONVOY, tracks=["bd-a"]),
        ]
    )
    assert store.items.settle() == Settled()
    finish(store, "bd-a")
    assert store.items.settle() == Settled(closed=("bd-c",))

    for wrong in (["bd-t", "bd-nothing"], ["bd-t", "bd"], ["bd-t", "bd-c"]):
        error = refused(store.items.track, "bd-c", wrong)
        assert error.code in (Code.UNRESOLVED, Code.SELF_DEP)
    assert refused(store.items.track, "bd-t", ["bd-a"]).code == Code.BEAD_NOT_FOUND
    assert refused(store.items.track, "bd-a", ["bd-b"]).code == Code.BEAD_NOT_FOUND
    assert refused(store.items.track, "bd-nothing", ["bd-a"]).code == Code.BEAD_NOT_FOUND
    assert item(store, "bd-c").tracks == ["bd-a"]

    assert store.items.track("bd-c", ["bd-a"]).status == "closed"
    grown = store.items.track("bd-c", ["bd-t", "bd-a", "bd-b", "bd-b"])
    assert (grown.status, sorted(grown.tracks)) == ("open", ["bd-a", "bd-b", "bd-t"])
    assert grown.closed_at is None
    assert ids(store.ready()) == ["bd-b"]
    finish(store, "bd-b")
    store.items.close("bd-t", "ann", "done")
    assert store.items.settle() == Settled(closed=("bd-c",))


# --- wisps ------------------------------------------------------------------------------------------


def test_wisps_are_seen_only_by_those_who_ask(store: Store, tmp_path: Path) -> None:
    root = "bd-patrol-001"
    store.create([make_bead("bd-plain", priority=2)])
    store.create(release(root, ephemeral=True))

    assert ids(store.ready()) == ids(store.find(Query())) == ["bd-plain"]
    assert ids(store.find(Query(statuses=["open"], labels=["phase-1"]))) == ["bd-plain"]
    assert store.snapshot(tmp_path / "all.jsonl") == 1
    assert root not in (tmp_path / "all.jsonl").read_text()

    assert ids(store.ready(wisps=True)) == [f"{root}-build", "bd-plain"]
    assert ids(store.ready(1, wisps=True)) == [f"{root}-build"]
    assert ids(store.find(Query(wisps=True))) == [f"{root}-build", f"{root}-ship", "bd-plain"]
    assert ids(store.find(Query(ids=[f"{root}-ship"]))) == [f"{root}-ship"]
    assert store.show(f"{root}-ship").ephemeral is True
    beads, items = store.items.wisps()
    assert ids(beads) == [f"{root}-build", f"{root}-ship"]
    assert {one.id for one in items} == {root, f"{root}-prepare", f"{root}-notes", f"{root}-gate"}
    assert all(one.ephemeral for one in items)
    assert set(found(store, wisps_only=True)) == {one.id for one in items}


def test_wisps_are_worked_on_as_other_beads(store: Store) -> None:
    root = "bd-patrol-001"
    store.create(release(root, ephemeral=True))
    store.ready(wisps=True)
    build, ship = f"{root}-build", f"{root}-ship"

    assert not store.claim(ship, "worker").won
    assert store.claim(build, "worker").won
    assert not store.claim(build, "another").won
    assert store.claim(build, "worker").won
    assert store.heartbeat(build, "worker")
    assert not store.heartbeat(build, "another")
    store.comment(build, "worker", "hello")
    store.release(build, "worker", status="blocked", reason="stuck")
    assert [said["text"] for said in store.show(build).comments if isinstance(said, dict)] == [
        "hello",
        "stuck",
    ]
    store.update(build, Changes(status="open", metadata={"attempt_count": 2}))
    assert store.show(build).metadata.attempt_count == 2
    finish(store, build)
    store.items.close(f"{root}-notes", "ann", "written")
    store.items.close(f"{root}-gate", "ann", "go")
    assert ids(store.ready(wisps=True)) == [ship]
    finish(store, ship)
    assert set(store.items.settle().closed) == {root, f"{root}-prepare"}
    assert store.show(ship).parent == root


def test_a_burnt_wisp_is_gone_for_good(store: Store) -> None:
    root = "bd-patrol-001"
    wisps = release(root, ephemeral=True)
    single = make_item("bd-single", TASK, ephemeral=True)
    convoy = make_item("bd-follow", CONVOY, tracks=[root, "bd-stay"])
    store.create([make_bead("bd-stay"), *wisps, single, convoy])

    assert set(store.items.burn([f"{root}-gate", root])) == {thing.id for thing in wisps}
    assert store.items.burn(["bd-single"]) == ["bd-single"]
    assert store.items.wisps() == (Listing(), [])
    assert ids(store.find(Query(wisps=True))) == ["bd-stay"]
    assert item(store, "bd-follow").tracks == ["bd-stay"]
    assert ids(store.ready(wisps=True)) == ["bd-stay"]
    assert refused(store.items.burn, [root]).code == Code.BEAD_NOT_FOUND
    store.create(wisps)  # the names are free again


def test_what_is_not_burnt(store: Store) -> None:
    root = "bd-patrol-001"
    store.create([*release(root, ephemeral=True), make_item("bd-mine", TASK, dependencies=[f"{root}-gate"])])
    store.create([make_item("bd-wisp", MOLECULE, ephemeral=True), make_bead("bd-solid", parent="bd-wisp")])
    before = [thing.to_json() for thing in store.items.wisps()[1]]

    assert refused(store.items.burn, [root, "bd-nothing"]).code == Code.BEAD_NOT_FOUND
    reasons = {
        root: "bd-mine waits for",
        "bd-wisp": "bd-solid is not a wisp",
        "bd-mine": "bd-mine is not a wisp",
        f"{root}-build": f"{root}-ship waits for",
    }
    for burnt, reason in reasons.items():
        error = refused(store.items.burn, [burnt])
        assert error.code == Code.CONFLICT
        assert reason in error.message
    assert store.claim(f"{root}-build", "worker").won
    assert "claimed by worker" in refused(store.items.burn, [f"{root}-build", f"{root}-ship"]).message
    assert [thing.to_json() for thing in store.items.wisps()[1]] == before


# --- many at once -----------------------------------------------------------------------------------


def test_many_processes_create_close_and_settle_at_once(store: Store, place: Place) -> None:
    store.create([make_item("bd-all", CONVOY)])
    words = [sys.executable, "-m", "tests.contract.settler", place.kind, str(place.root), place.bd or ""]

    def work(name: str) -> str:
        done = subprocess.run(
            [*words, name], cwd=PROJECT, capture_output=True, text=True, timeout=600, check=False
        )
        return f"{done.returncode} {done.stderr}"

    names = [f"w{number}" for number in range(place.racers)]
    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(work, names)) == ["0 "] * len(names)

    store.items.settle()
    assert found(store, statuses=["open", "in_progress", "blocked"]) == []
    assert store.items.settle() == Settled()
    assert set(item(store, "bd-all").tracks) == {
        f"bd-{name}-{turn}" for name in names for turn in turns(place)
    }


def turns(place: Place) -> Sequence[int]:
    return range(5 if place.kind == "embedded" else 1)

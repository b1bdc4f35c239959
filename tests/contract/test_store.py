"""The laws of the Store protocol, once, over every store."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.names import ASSIGNEE, MERGE
from beads_ralph.errors import Code, RalphError
from beads_ralph.store.protocol import Changes, Claim, Findings, Listing, Store
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.contract.places import Place

PROJECT = Path(__file__).parents[2]
TIMES = ("created_at", "updated_at", "closed_at")
# What comes back exactly as it was given.
SAME = (
    *("id", "title", "description", "status", "priority", "issue_type", "assignee", "owner"),
    *("labels", "comments", "external_ref"),
)
CORE = (*SAME, "dependencies", *TIMES)


def ids(listing: Listing) -> list[str]:
    return [bead.id for bead in listing.beads]


def stored(store: Store) -> dict[str, dict[str, Any]]:
    return {bead.id: bead.to_json() for bead in store.find(Query()).beads}


def finish(store: Store, bead_id: str) -> None:
    assert store.claim(bead_id, "worker").won
    store.close(bead_id, "worker", "done")


# --- creating and reading ---------------------------------------------------------------------------


@pytest.mark.core
def test_a_created_bead_comes_back_as_it_was(store: Store) -> None:
    bead = make_bead(
        "bd-1-1-schéma",
        title="Schéma — ünïcode ✓ 'quoted' \"twice\"",
        description="First line\n\n- second `line` with a \\ and a $HOME\n",
        priority=0,
        owner="ann@example.com",
        labels=["beads-ralph", "größe", "phase-1"],
        external_ref="plans/shop.md#1.1",
        metadata={
            "invented": {"zeta": [1, 2.5, None, True, "日本"], "alpha": {"deep": ["✓"]}},
            "other_key": "kept",
            "acceptance_criteria": ["It works", ""],
        },
    )
    follower = make_bead("bd-1-2-api", dependencies=[bead.id])
    merge = make_bead(
        "bd-1-3-merge",
        issue_type=MERGE,
        owner="ben@example.com",
        dependencies=[follower.id, bead.id],
        metadata={"branches_to_merge": ["feature/a", "feature/b"]},
    )

    assert store.create([bead]) == [bead.id]
    assert store.create([merge, follower]) == [merge.id, follower.id]

    for expected in (bead, merge):
        shown = store.show(expected.id)
        raw = shown.to_json()
        assert [key for key in CORE if key not in raw] == []
        assert {key: raw[key] for key in SAME} == {key: expected.to_json()[key] for key in SAME}
        assert set(shown.dependencies) == set(expected.dependencies)
        assert shown.metadata == expected.metadata
        assert raw["metadata"] == expected.to_json()["metadata"]
        assert shown.closed_at is None
        for moment in (shown.created_at, shown.updated_at):
            assert moment is not None
            assert datetime.fromisoformat(moment).tzinfo is not None
        assert not {"claimed_by", "lease_expires_at", "close_reason"} & raw.keys()


def test_a_batch_is_created_whole_or_not_at_all(store: Store) -> None:
    info = store.check()
    assert info.kind == store.kind
    assert info.location
    assert info.version
    assert store.create([]) == []
    store.create([make_bead("bd-old")])
    before = stored(store)

    faulty = {
        Code.DUPLICATE_ID: [make_bead("bd-new"), make_bead("bd-old", title="Another")],
        Code.UNRESOLVED: [make_bead("bd-new"), make_bead("bd-more", dependencies=["bd-ol"])],
        Code.CYCLE_DETECTED: [
            make_bead("bd-new"),
            make_bead("bd-a", dependencies=["bd-c", "bd-old"]),
            make_bead("bd-b", dependencies=["bd-a"]),
            make_bead("bd-c", dependencies=["bd-b"]),
        ],
    }
    for code, beads in faulty.items():
        with pytest.raises(RalphError) as caught:
            store.create(beads)
        assert caught.value.code == code
    with pytest.raises(RalphError) as caught:
        store.create([make_bead("bd-new"), make_bead("bd-new")])
    assert caught.value.code == Code.DUPLICATE_ID

    assert stored(store) == before


def test_find_by_status_label_plan_and_id(store: Store) -> None:
    store.create(
        [
            make_bead("bd-a", priority=3, labels=["phase-1", "slow"]),
            make_bead("bd-b", priority=0, labels=["phase-1"], dependencies=["bd-a"]),
            make_bead("bd-c", labels=["phase-2", "slow"], metadata={"plan_file": "plans/other.md"}),
        ]
    )
    assert store.claim("bd-c", "worker").won

    assert ids(store.find(Query())) == ["bd-b", "bd-c", "bd-a"]
    assert ids(store.find(Query(statuses=["open", "closed"]))) == ["bd-b", "bd-a"]
    assert ids(store.find(Query(labels=["slow"]))) == ["bd-c", "bd-a"]
    assert ids(store.find(Query(labels=["slow", "phase-1"]))) == ["bd-a"]
    assert ids(store.find(Query(plan_file="plans/other.md"))) == ["bd-c"]
    assert ids(store.find(Query(ids=["bd-a", "bd-b", "bd-a", "bd", "bd-nothing"]))) == ["bd-b", "bd-a"]
    assert ids(store.find(Query(ids=["bd-a", "bd-c"], statuses=["in_progress"]))) == ["bd-c"]
    assert store.find(Query(ids=["bd-nothing"])) == Listing()


def test_an_unreadable_bead_is_shown_and_harms_no_other(store: Store, place: Place, tmp_path: Path) -> None:
    store.create([make_bead("bd-bad", priority=0), make_bead("bd-good")])
    place.spoil("bd-bad")

    for listing in (store.ready(), store.find(Query())):
        assert ids(listing) == ["bd-good"]
        (unreadable,) = listing.unreadable
        assert unreadable.id == "bd-bad"
        assert unreadable.raw["metadata"]["sprint"] == "7.1"
        assert "sprint" in unreadable.faults[0].message
    for operation in (lambda: store.show("bd-bad"), lambda: store.claim("bd-bad", "worker")):
        with pytest.raises(RalphError, match="sprint") as caught:
            operation()
        assert caught.value.code == Code.CONSTRAINT
    (unreadable,) = store.find(Query(statuses=["open"])).unreadable  # so the claim left it alone

    store.comment("bd-good", "worker", "noted")
    target = tmp_path / "snapshot.jsonl"
    assert store.snapshot(target) == 2
    lines = {row["id"]: row for row in map(json.loads, target.read_text("utf-8").splitlines())}
    assert lines.keys() == {"bd-bad", "bd-good"}
    assert [comment["text"] for comment in lines["bd-good"]["comments"]] == ["noted"]
    assert lines["bd-good"]["metadata"] == make_bead("bd-good").to_json()["metadata"]


# --- order ------------------------------------------------------------------------------------------


@pytest.mark.core
def test_ready_follows_dependencies_and_priority(store: Store) -> None:
    """The rounds of 1.1, then 1.2a and 1.2b, then 1.3; only closing lets the next ones go."""
    store.create(
        [
            make_bead("bd-1-3", dependencies=["bd-1-2a", "bd-1-2b"]),
            make_bead("bd-1-2a", priority=2, dependencies=["bd-1-1"]),
            make_bead("bd-1-2b", priority=0, dependencies=["bd-1-1"]),
            make_bead("bd-1-1", priority=4),
        ]
    )
    assert ids(store.ready()) == ["bd-1-1"]
    refused = store.claim("bd-1-3", "worker")
    assert (refused.bead, refused.refusal) == (None, "blocked by bd-1-2a, bd-1-2b")

    assert store.claim("bd-1-1", "worker").won
    assert ids(store.ready()) == []
    store.close("bd-1-1", "worker", "done")
    assert ids(store.ready()) == ["bd-1-2b", "bd-1-2a"]
    assert ids(store.ready(limit=1)) == ["bd-1-2b"]

    finish(store, "bd-1-2b")
    assert ids(store.ready()) == ["bd-1-2a"]
    assert store.claim("bd-1-3", "worker").refusal == "blocked by bd-1-2a"
    finish(store, "bd-1-2a")
    assert ids(store.ready()) == ["bd-1-3"]


# --- claims -----------------------------------------------------------------------------------------


def assert_one_won(outcomes: list[str]) -> None:
    losers = [outcome for outcome in outcomes if outcome != "won"]
    assert len(losers) == len(outcomes) - 1, outcomes
    assert all(outcome.startswith("already claimed by racer-") for outcome in losers), outcomes


def test_one_thread_wins(store: Store, place: Place) -> None:
    store.create([make_bead("bd-prize")])
    start = threading.Barrier(place.racers)

    def race(number: int) -> Claim:
        own = place.open() if number % 2 else store  # a store may be shared by threads, too
        start.wait(30)
        return own.claim("bd-prize", f"racer-{number}")

    with ThreadPoolExecutor(place.racers) as pool:
        claims = list(pool.map(race, range(place.racers)))

    assert_one_won(["won" if claim.won else claim.refusal for claim in claims])
    (winner,) = [claim.held_by for claim in claims if claim.won]
    assert {claim.held_by for claim in claims} == {winner}


@pytest.mark.core
def test_one_process_wins(store: Store, place: Place) -> None:
    store.create([make_bead("bd-prize")])
    words = [sys.executable, "-m", "tests.contract.claimer", place.kind, str(place.root), str(place.bd or "")]
    racers = [
        subprocess.Popen(
            [*words, "bd-prize", f"racer-{number}"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(place.racers)
    ]
    try:
        assert [racer.stdout.readline() for racer in racers if racer.stdout] == ["ready\n"] * place.racers
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        outcomes = [racer.communicate(timeout=120)[0].strip() for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()

    assert_one_won(outcomes)
    shown = store.show("bd-prize").to_json()
    assert (shown["status"], shown["claimed_by"]) == ("in_progress", f"racer-{outcomes.index('won')}")


def test_a_claim_is_held_until_it_is_released_or_closed(store: Store) -> None:
    store.create([make_bead("bd-a")])
    first = store.claim("bd-a", "one")
    assert first.bead is not None
    assert (first.bead.status, first.bead.assignee) == ("in_progress", ASSIGNEE)
    assert first.bead.to_json()["claimed_by"] == first.held_by == "one"
    assert first.bead.to_json()["lease_expires_at"] == first.lease_expires_at

    again = store.claim("bd-a", "one")
    assert again.won
    assert again.lease_expires_at == first.lease_expires_at
    for nobody in ("", " ", ASSIGNEE):
        with pytest.raises(RalphError) as caught:
            store.claim("bd-a", nobody)
        assert caught.value.code == Code.CONSTRAINT
    refused = store.claim("bd-a", "two")
    assert (refused.won, refused.refusal, refused.held_by) == (False, "already claimed by one", "one")

    assert store.heartbeat("bd-a", "one")
    assert not store.heartbeat("bd-a", "two")
    assert store.reclaim(timedelta(0)) == []  # the lease still runs
    with pytest.raises(RalphError, match="one") as caught:
        store.release("bd-a", "two")
    assert caught.value.code == Code.CONFLICT

    store.release("bd-a", "one", status="blocked", reason="needs a key")
    given_back = store.show("bd-a")
    assert (given_back.status, given_back.assignee) == ("blocked", ASSIGNEE)
    assert not {"claimed_by", "lease_expires_at"} & given_back.to_json().keys()
    assert [comment["text"] for comment in given_back.to_json()["comments"]] == ["needs a key"]
    assert not store.heartbeat("bd-a", "one")
    assert ids(store.ready()) == []
    assert store.claim("bd-a", "one").refusal == "status blocked"


def test_an_update_may_name_the_status_it_expects(store: Store) -> None:
    store.create([make_bead("bd-a")])
    before = store.show("bd-a")
    with pytest.raises(RalphError, match="open") as caught:
        store.update("bd-a", Changes(title="New", expected_status="blocked"))
    assert caught.value.code == Code.CONFLICT
    assert store.show("bd-a") == before
    assert store.update("bd-a", Changes(title="New", expected_status="open")).title == "New"


@pytest.mark.core
def test_only_the_holder_closes_and_only_once(store: Store) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b", dependencies=["bd-a"])])
    with pytest.raises(RalphError, match="nobody") as caught:
        store.close("bd-a", "one", "done")
    assert caught.value.code == Code.CONFLICT
    assert store.claim("bd-a", "one").won
    with pytest.raises(RalphError, match="one") as caught:
        store.close("bd-a", "two", "done")
    assert caught.value.code == Code.CONFLICT
    assert store.show("bd-a").status == "in_progress"

    closed = store.close("bd-a", "one", "all verifiers passed")
    raw = closed.to_json()
    assert (closed.status, closed.assignee) == ("closed", ASSIGNEE)
    assert raw["close_reason"] == "all verifiers passed"
    assert closed.closed_at is not None
    assert not {"claimed_by", "lease_expires_at"} & raw.keys()

    assert store.close("bd-a", "two", "another reason") == store.show("bd-a")
    assert store.show("bd-a").to_json() == raw
    assert store.claim("bd-a", "two").refusal == "status closed"
    assert ids(store.ready()) == ["bd-b"]

    assert store.claim("bd-b", "two").won
    reopened = store.update("bd-a", Changes(status="open"))
    assert (reopened.status, reopened.closed_at) == ("open", None)
    assert ids(store.ready()) == ["bd-a"]
    with pytest.raises(RalphError, match="bd-a") as caught:  # what it was built on is no longer proven
        store.close("bd-b", "two", "done")
    assert caught.value.code == Code.CONFLICT
    assert store.show("bd-b").status == "in_progress"


def test_a_bead_ends_together_with_what_was_found(store: Store) -> None:
    store.create([make_bead("bd-a", metadata={"kept": 1})])
    first = Findings({"attempt_count": 1, "last_verdict": {"ruling": "fail"}})
    assert store.claim("bd-a", "one").won
    store.release("bd-a", "one", reason="red", found=first)
    given_back = store.show("bd-a")
    assert (given_back.status, given_back.metadata.attempt_count) == ("open", 1)
    assert given_back.metadata.to_json()["last_verdict"] == {"ruling": "fail"}
    assert len(given_back.comments) == 1

    assert store.claim("bd-a", "two").won
    held = store.show("bd-a")
    proof = Findings({"attempt_count": 2, "proven": {"commit": "c0ffee ✓"}}, "https://forge.test/pull/7")
    spoilt = Findings({"sprint": "7.1"}, "https://forge.test/pull/8")
    for act in (
        lambda: store.close("bd-a", "one", "done", proof),
        lambda: store.release("bd-a", "one", found=proof),
        lambda: store.close("bd-a", "two", "done", spoilt),
        lambda: store.release("bd-a", "two", reason="spoilt", found=spoilt),
    ):
        with pytest.raises(RalphError) as caught:
            act()
        assert caught.value.code in (Code.CONFLICT, Code.CONSTRAINT)
    assert store.show("bd-a") == held  # neither ended nor changed

    closed = store.close("bd-a", "two", "proven", proof)
    shown = store.show("bd-a")
    for bead in (closed, shown):
        raw = bead.to_json()
        assert (raw["status"], raw["close_reason"]) == ("closed", "proven")
        assert raw["external_ref"] == "https://forge.test/pull/7"
        assert raw["metadata"] == {**held.to_json()["metadata"], **proof.metadata}
        assert raw["closed_at"] is not None
    assert store.close("bd-a", "two", "again", Findings({"attempt_count": 3})).metadata == shown.metadata
    assert store.show("bd-a") == shown


def test_a_claim_after_a_listing_sees_what_changed_since(store: Store, place: Place) -> None:
    """Somebody else comes between `ready` and `claim`, and has the last word."""
    names = ("taken", "waits", "built", "held", "edited", "spoilt")
    base = make_bead("bd-base")
    rest = [make_bead(f"bd-{name}", dependencies=["bd-base"] * (name == "built")) for name in names]
    store.create([base, *rest])
    finish(store, "bd-base")
    other = place.open()

    assert set(ids(store.ready())) == {f"bd-{name}" for name in names}
    assert other.claim("bd-taken", "other").won
    other.update("bd-held", Changes(status="blocked"))
    other.update("bd-edited", Changes(title="Edited ✓", metadata={"attempt_count": 1}, labels=[]))
    place.spoil("bd-spoilt")
    taken = store.claim("bd-taken", "one")
    assert (taken.refusal, taken.held_by) == ("already claimed by other", "other")
    assert store.claim("bd-held", "one").refusal == "status blocked"
    edited = store.claim("bd-edited", "one").bead
    assert edited is not None
    assert (edited.title, edited.metadata.attempt_count, edited.labels) == ("Edited ✓", 1, [])
    assert edited == store.show("bd-edited")
    with pytest.raises(RalphError, match="sprint") as caught:
        store.claim("bd-spoilt", "one")
    assert caught.value.code == Code.CONSTRAINT
    assert [bad.id for bad in store.find(Query(statuses=["open"])).unreadable] == ["bd-spoilt"]

    assert {"bd-waits", "bd-built"} <= set(ids(store.ready()))
    other.update("bd-waits", Changes(dependencies=["bd-edited"]))
    assert store.claim("bd-waits", "one").refusal == "blocked by bd-edited"
    assert "bd-built" in ids(store.ready())
    other.update("bd-base", Changes(status="open"))
    assert store.claim("bd-built", "one").refusal == "blocked by bd-base"
    assert store.show("bd-built").status == "open"


def test_part_of_an_id_is_no_id(store: Store) -> None:
    store.create([make_bead("bd-1-2a-x")])
    assert store.claim("bd-1-2a-x", "one").won
    before = store.show("bd-1-2a-x")

    operations: list[Callable[[], object]] = [
        lambda: store.show("bd-1"),
        lambda: store.claim("bd-1", "one"),
        lambda: store.update("bd-1", Changes(title="Changed")),
        lambda: store.close("bd-1", "one", "done"),
        lambda: store.release("bd-1", "one"),
        lambda: store.comment("bd-1", "one", "noted"),
    ]
    for operation in operations:
        with pytest.raises(RalphError) as caught:
            operation()
        assert caught.value.code == Code.BEAD_NOT_FOUND
    assert not store.heartbeat("bd-1", "one")
    assert store.show("bd-1-2a-x") == before


# --- changing ---------------------------------------------------------------------------------------


def test_update_changes_what_is_given_and_keeps_the_rest(store: Store) -> None:
    store.create(
        [
            make_bead("bd-a", metadata={"invented": {"kept": True}, "list": [1, 2]}),
            make_bead("bd-b"),
            make_bead("bd-c"),
        ]
    )
    before = store.show("bd-a")
    given = {"attempt_count": 2, "list": [3], "added": "größe", "pr_url": None}
    after = store.update(
        "bd-a",
        Changes(
            title="Renamed ✓",
            description="New text",
            priority=4,
            labels=["new", "größe"],
            dependencies=["bd-b", "bd-c"],
            external_ref="plans/new.md#1",
            metadata=given,
        ),
    )
    assert after == store.show("bd-a")
    assert (after.title, after.description, after.priority) == ("Renamed ✓", "New text", 4)
    assert sorted(after.labels) == ["größe", "new"]
    assert sorted(after.dependencies) == ["bd-b", "bd-c"]
    assert after.external_ref == "plans/new.md#1"
    assert after.metadata.to_json() == {**before.metadata.to_json(), **given}
    assert (after.status, after.issue_type, after.created_at) == (
        "open",
        before.issue_type,
        before.created_at,
    )
    assert ids(store.ready()) == ["bd-b", "bd-c"]

    assert store.update("bd-a", Changes(dependencies=["bd-c"], labels=[])).dependencies == ["bd-c"]
    finish(store, "bd-c")
    assert ids(store.ready()) == ["bd-b", "bd-a"]
    assert store.show("bd-a").labels == []


def test_update_refuses_what_would_break_a_law(store: Store) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b", dependencies=["bd-a"])])
    before = stored(store)
    faulty = {
        Code.SELF_DEP: Changes(dependencies=["bd-a"]),
        Code.UNRESOLVED: Changes(dependencies=["bd"], title="Changed"),
        Code.CYCLE_DETECTED: Changes(dependencies=["bd-b"], title="Changed"),
        Code.BEAD_SCHEMA: Changes(priority=9, title="Changed"),
        Code.CONSTRAINT: Changes(metadata={"sprint": "7.1"}, title="Changed"),
        Code.CONFLICT: Changes(status="closed", title="Changed"),
    }
    for code, changes in faulty.items():
        with pytest.raises(RalphError) as caught:
            store.update("bd-a", changes)
        assert caught.value.code == code
    assert stored(store) == before

    assert store.update("bd-a", Changes(status="blocked")).status == "blocked"
    assert ids(store.ready()) == []
    assert store.update("bd-a", Changes(status="open")).status == "open"
    assert store.claim("bd-a", "one").won
    with pytest.raises(RalphError, match="one") as caught:
        store.update("bd-a", Changes(status="open"))
    assert caught.value.code == Code.CONFLICT
    assert store.update("bd-a", Changes(metadata={"attempt_count": 1})).metadata.attempt_count == 1


def test_comments_are_kept_in_order(store: Store) -> None:
    store.create([make_bead("bd-a")])
    texts = ["first ✓", "--second 'quoted'\nwith a line", "third"]
    for number, text in enumerate(texts):
        store.comment("bd-a", f"author-{number}", text)
    comments = store.show("bd-a").to_json()["comments"]
    assert [(comment["author"], comment["text"]) for comment in comments] == [
        (f"author-{number}", text) for number, text in enumerate(texts)
    ]
    assert all(datetime.fromisoformat(comment["created_at"]) for comment in comments)


# --- what a run has to see --------------------------------------------------------------------------


@pytest.mark.core
def test_a_run_sees_whatever_has_to_do_with_its_beads(store: Store) -> None:
    """A store may show it more, but not less."""
    mine = {"plan_file": "mine.md", "team_name": "mine"}
    other = {"plan_file": "other.md", "team_name": "other"}
    store.create(
        [
            make_bead("bd-before", metadata={**other, "team_name": "before"}),
            make_bead("bd-done", metadata=mine),
            make_bead("bd-gate", labels=["gate"], dependencies=["bd-before"], metadata=other),
            make_bead("bd-held", metadata=other),
            make_bead("bd-left", dependencies=["bd-before"], metadata=mine),
            make_bead("bd-mate", metadata={**other, "team_name": "mine"}),
            make_bead("bd-other", metadata=other),
        ]
    )
    for name in ("bd-before", "bd-done", "bd-mate"):
        finish(store, name)
    assert store.claim("bd-held", "somebody").won
    of_plan = {"bd-before", "bd-done", "bd-gate", "bd-held", "bd-left", "bd-mate"}
    about = store.find(Query(plan_file="mine.md", for_run=True))
    assert of_plan <= {*ids(about)} <= of_plan | {"bd-other"}
    named = store.find(Query(ids=["bd-left"], for_run=True))
    assert of_plan <= {*ids(named)} <= of_plan | {"bd-other"}
    everything = store.find(Query(for_run=True))
    assert {*ids(everything)} == of_plan | {"bd-other"}
    assert store.closed() == {"bd-before", "bd-done", "bd-mate"}
    assert ids(store.ready(plan_file="mine.md")) == ["bd-left"]
    assert ids(store.ready(1, plan_file="other.md", wisps=True)) == ["bd-gate"]

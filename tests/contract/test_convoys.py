"""Convoys: what they follow, how far they are, when they close and when they open again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.items import Item
from beads_ralph.errors import Code, RalphError
from beads_ralph.store import convoys
from beads_ralph.store.protocol import Changes, Findings, Store
from beads_ralph.store.query import ItemQuery, Query
from tests.beads import make_bead
from tests.cli.running import Ran, compiled_here, ralph
from tests.compile.plans import plan, sprint
from tests.contract.places import Place


def close(store: Store, *ids: str) -> None:
    """As a run does it."""
    for name in ids:
        assert store.claim(name, "worker").won
        store.close(name, "worker", "done")


def status(store: Store, name: str) -> str:
    (found,) = store.items.find(ItemQuery(ids=[name]))
    return found.status


def far(store: Store, name: str) -> tuple[int, int]:
    (found,) = convoys.progress(store, [convoys.named(store, name)])
    return found.closed, len(found.members)


def item(name: str, kind: str, **more: Any) -> Item:
    return Item(id=name, title=f"The {name}", issue_type=kind, **more)


# --- laws, on both stores ---------------------------------------------------------------------------


def test_a_convoy_closes_with_the_last_of_what_it_follows_and_opens_again_with_one_more(store: Store) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-b"), make_bead("bd-c")])
    assert not store.find(Query()).convoys
    made = convoys.create(store, "Launch day!", ["bd-a", "bd-b", "bd-a"])
    assert (made.id, made.title, sorted(made.tracks)) == (
        "bd-convoy-launch-day",
        "Launch day!",
        ["bd-a", "bd-b"],
    )
    assert [bead.id for bead in store.ready().beads] == ["bd-a", "bd-b", "bd-c"], "it holds nothing up"
    assert store.find(Query(statuses=["open"])).convoys, "a run need not ask for it"
    close(store, "bd-a")
    assert (far(store, "Launch day!"), store.items.settle().closed) == ((1, 2), ())
    close(store, "bd-b")
    assert store.items.settle().closed == (made.id,)
    assert status(store, made.id) == "closed"
    assert not store.find(Query()).convoys
    again = convoys.add(store, convoys.named(store, made.id), ["bd-b", "bd-c"])
    assert (again.status, sorted(again.tracks)) == ("open", ["bd-a", "bd-b", "bd-c"])
    assert far(store, made.id) == (2, 3)


def test_a_member_that_is_opened_again_opens_its_convoy(store: Store) -> None:
    store.create([make_bead("bd-a")])
    made = convoys.create(store, "One", ["bd-a"])
    close(store, "bd-a")
    store.items.settle()
    store.update("bd-a", Changes(status="open"))
    assert store.items.settle().reopened == (made.id,)
    assert status(store, made.id) == "open"


def test_a_molecule_counts_as_what_lies_below_it(store: Store) -> None:
    store.create(
        [
            item("bd-mol", "molecule"),
            item("bd-epic", "epic", parent="bd-mol"),
            make_bead("bd-a", parent="bd-epic"),
            item("bd-task", "task", parent="bd-mol", dependencies=["bd-a"]),
            make_bead("bd-b"),
        ]
    )
    made = convoys.create(store, "Both", ["bd-mol", "bd-b", "bd-a"])
    (progress,) = convoys.progress(store, [made])
    assert sorted(member.id for member in progress.members) == ["bd-a", "bd-b", "bd-task"], "each once"
    assert {member.of for member in progress.members if member.id == "bd-task"} == {"bd-mol"}
    assert {member.id: member.waits_for for member in progress.members}["bd-task"] == ("bd-a",)
    assert convoys.beads_of(store, made) == {"bd-a", "bd-b"}
    close(store, "bd-a", "bd-b")
    assert far(store, "Both") == (2, 3)
    store.items.close("bd-task", "anna", "done")
    settled = store.items.settle()
    assert set(settled.closed) == {"bd-epic", "bd-mol", made.id}


def test_everything_that_cannot_be_followed_is_named_at_once(store: Store) -> None:
    store.create([make_bead("bd-a"), make_bead("bd-w", ephemeral=True)])
    other = convoys.create(store, "Other", ["bd-a"])
    wrong = ["bd-nope", "bd-w", "bd-a", "bd-neither", other.id]
    attempts: list[Callable[[], Item]] = [
        lambda: convoys.create(store, "New", wrong),
        lambda: convoys.add(store, other, wrong),
    ]
    for attempt in attempts:
        with pytest.raises(RalphError) as caught:
            attempt()
        codes = {fault.message.split()[0]: fault.code for fault in caught.value.faults}
        assert codes == {
            "bd-nope": Code.UNRESOLVED,
            "bd-neither": Code.UNRESOLVED,
            "bd-w": Code.CONSTRAINT,
            other.id: Code.CONSTRAINT,
        }
    assert [found.id for found in convoys.every(store)] == [other.id], "nothing was made"
    assert far(store, "Other") == (0, 1)


def test_a_name_is_given_once_and_another_name_gets_another_id(store: Store) -> None:
    first = convoys.create(store, "Launch day", [])
    with pytest.raises(RalphError) as caught:
        convoys.create(store, " Launch  day ", [])
    assert caught.value.code == Code.DUPLICATE_ID
    assert f"convoy add {first.id}" in caught.value.suggested_action
    second = convoys.create(store, "Launch day!", [])
    assert (first.id, second.id) == ("bd-convoy-launch-day", "bd-convoy-launch-day-2")
    with pytest.raises(RalphError) as caught:
        convoys.create(store, "???", [])
    assert caught.value.code == Code.CONSTRAINT


def test_a_convoy_is_found_by_id_or_name_and_a_near_miss_is_named(store: Store) -> None:
    made = convoys.create(store, "Launch", [])
    assert convoys.named(store, "Launch").id == convoys.named(store, made.id).id == made.id
    with pytest.raises(RalphError) as caught:
        convoys.named(store, "Lanch")
    assert caught.value.code == Code.BEAD_NOT_FOUND
    assert "did you mean 'Launch'?" in caught.value.message
    store.create([Item(id="bd-convoy-twin", title="Launch", issue_type="convoy")])
    with pytest.raises(RalphError) as caught:
        convoys.named(store, "Launch")
    assert caught.value.code == Code.USAGE
    assert made.id in caught.value.message


def test_an_empty_convoy_stays_open(store: Store) -> None:
    made = convoys.create(store, "Later", [])
    assert store.items.settle().closed == ()
    assert status(store, made.id) == "open"


# --- the commands -----------------------------------------------------------------------------------


def said(place: Place, *words: str) -> Ran:
    env = {} if place.bd is None else {"BEADS_RALPH_BD": place.bd}
    return ralph(*words, "--store", place.kind, cwd=place.root, env=env)


def test_the_commands_say_how_far_it_is_what_holds_it_up_and_what_has_settled(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.bd is not None:
        monkeypatch.setenv("PATH", str(Path(place.bd).parent), prepend=":")
    place.root.mkdir(exist_ok=True)
    store = place.open()
    plans = [{"plan_file": "a.md"}, {"plan_file": "b.md"}]
    store.create(
        [
            make_bead("bd-a", metadata=plans[0]),
            make_bead("bd-b", metadata=plans[1], dependencies=["bd-a"]),
            make_bead("bd-c", metadata={"plan_file": "c.md"}),
        ]
    )
    made = said(place, "convoy", "create", "Both", "--plan", "a.md", "--plan", "b.md", "--json").data
    assert {row["id"]: row["waits_for"] for row in made["convoy"]["members"]} == {
        "bd-a": [],
        "bd-b": ["bd-a"],
    }
    assert (made["convoy"]["closed"], made["convoy"]["total"], made["convoy"]["status"]) == (0, 2, "open")
    close(store, "bd-a")
    shown = said(place, "convoy", "show", "Both").out
    assert "convoy Both: 1 of 2 closed" in shown
    listed = said(place, "convoy", "list", "--json").data["convoys"]
    assert [(row["name"], row["closed"], row["total"]) for row in listed] == [("Both", 1, 2)]
    close(store, "bd-b")
    ended = said(place, "convoy", "list", "--json").data
    assert (ended["convoys"], [row["title"] for row in ended["settled"]["closed"]]) == ([], ["Both"])
    assert "convoy Both: all 2 closed" in said(place, "convoy", "list", "--all").out
    assert store.claim("bd-c", "worker").won
    failed = Findings({"scrum_result": {"bead_id": "bd-c", "success": False, "error": "no way"}})
    store.release("bd-c", "worker", status="blocked", found=failed)
    more = said(place, "convoy", "add", "Both", "bd-c", "--json").data["convoy"]
    (stuck,) = [row for row in more["members"] if row["id"] == "bd-c"]
    assert (more["blocked"], stuck["reason"]) == (["bd-c"], "no way")
    assert (more["status"], more["closed"], more["total"]) == ("open", 2, 3)
    wrong = said(place, "convoy", "add", "Both", "bd-x", "bd-y", "--json").error
    assert wrong["code"] == "DEPENDENCY.UNRESOLVED"
    assert [fault["message"].split()[0] for fault in wrong["details"]["faults"]] == ["bd-x", "bd-y"]


def test_a_plan_without_beads_and_an_add_of_nothing_are_refused(repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "One")))
    refused = ralph("convoy", "create", "X", "--plan", "other.md", "--json", cwd=repo).error
    assert refused["code"] == "DEPENDENCY.UNRESOLVED"
    assert "beads-ralph mason other.md" in refused["suggested_action"]
    assert ralph("convoy", "create", "X", "--plan", "plan.md", "--json", cwd=repo).code == 0
    assert ralph("convoy", "add", "X", "--json", cwd=repo).error["code"] == "USAGE.INVALID"
    text = ralph("convoy", "list", cwd=repo).out
    assert "convoy X: 0 of 1 closed" in text

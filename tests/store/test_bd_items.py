"""Items, wisps and pours on the real bd: what it keeps where, and what is the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from beads_ralph.bead.items import GateRule
from beads_ralph.bead.names import CONVOY, EPIC, GATE, MOLECULE
from beads_ralph.errors import Code, RalphError
from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.protocol import Listing, Pours, Settled
from beads_ralph.store.query import ItemQuery
from tests.beads import make_bead
from tests.items import make_item
from tests.store.conftest import Call, git_in

pytestmark = pytest.mark.bd

RELEASE = """
formula = "release"
description = "Release {{name}}"
version = 1
type = "workflow"

[vars.name]
required = true

[vars.size]
default = "small"
enum = ["small", "large"]

[[steps]]
id = "build"
title = "Build {{name}}"
notes = "a {{size}} one"

[[steps]]
id = "ship"
title = "Ship it"
needs = ["build"]
[steps.gate]
type = "timer"
timeout = "1h30m"

[[steps]]
id = "tell"
title = "Tell everybody"
[[steps.children]]
id = "blog"
title = "Write"
"""
BROKEN = 'formula = "broken"\nversion = 1\n[[steps]]\nid = "a"\ntitle = "A"\nneeds = ["zz"]\n'


@pytest.fixture
def store(bd_repo: Path) -> BdStore:
    return BdStore(bd_repo)


def formula(root: Path, name: str, text: str) -> None:
    folder = root / ".beads" / "formulas"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.formula.toml").write_text(text, encoding="utf-8")


def refusal(store: BdStore, wanted: str, **values: str) -> str:
    with pytest.raises(RalphError) as caught:
        store.pour(wanted, values, wisp=False, assignee=None)
    assert caught.value.code == Code.POUR_FAILED
    return caught.value.message


def types(bd: Call) -> list[str]:
    return str(bd("config", "get", "types.custom", "--json")["value"]).split(",")


# --- pouring ----------------------------------------------------------------------------------------


@pytest.mark.full
def test_bd_pours_a_plain_formula(store: BdStore, bd_repo: Path) -> None:
    formula(bd_repo, "release", RELEASE)
    assert isinstance(store, Pours)
    poured = store.pour("release", {"name": "a = b, c"}, wisp=False, assignee="ann")

    assert set(poured.ids) == {"build", "ship", "gate-ship", "tell", "tell.blog"}
    items = {item.id: item for item in store.items.find(ItemQuery())}
    assert set(items) == {poured.root, *poured.ids.values()}
    root, ship, gate = items[poured.root], items[poured.ids["ship"]], items[poured.ids["gate-ship"]]
    assert (root.issue_type, root.assignee, root.description) == (MOLECULE, "ann", "Release a = b, c")
    build = items[poured.ids["build"]]
    assert (build.title, build.notes, build.parent) == ("Build a = b, c", "a small one", poured.root)
    assert set(ship.dependencies) == {build.id, gate.id}
    assert gate.gate == GateRule(type="timer", timeout="1h30m")
    assert items[poured.ids["tell.blog"]].parent == poured.ids["tell"]
    assert store.items.wisps() == (Listing(), [])

    for step in ("build", "gate-ship", "ship", "tell.blog"):
        store.items.close(poured.ids[step], "ben", "done")
    assert set(store.items.settle().closed) == {poured.root, poured.ids["tell"]}


@pytest.mark.full
def test_a_wisp_has_all_its_steps_and_is_burnt_with_them(store: BdStore, bd_repo: Path) -> None:
    formula(bd_repo, "release", RELEASE)
    poured = store.pour("release", {"name": "x", "size": "large"}, wisp=True, assignee="ann")
    items = {item.id: item for item in store.items.wisps()[1]}
    assert set(items) == {poured.root, *poured.ids.values()}
    assert items[poured.root].assignee == "ann"
    assert items[poured.ids["build"]].notes == "a large one"
    assert set(store.items.burn([poured.root])) == set(items)
    assert store.items.find(ItemQuery()) == []


def test_what_bd_does_not_pour_leaves_nothing_behind(store: BdStore, bd_repo: Path) -> None:
    formula(bd_repo, "release", RELEASE)
    formula(bd_repo, "broken", BROKEN)
    assert "missing required variables: name" in refusal(store, "release")
    assert "not in allowed values [small large]" in refusal(store, "release", name="x", size="huge")
    assert 'needs references unknown step "zz"' in refusal(store, "broken")  # bd's pour says: not found
    assert "nothing" in refusal(store, "nothing")
    with pytest.raises(RalphError, match="unknown step") as caught:
        store.pour("broken", {}, wisp=True, assignee=None)
    assert caught.value.code == Code.POUR_FAILED
    assert store.items.find(ItemQuery()) == []


@pytest.mark.full
def test_formulas_of_the_checkout_are_found(bd_repo: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "beside"
    git_in(bd_repo, "worktree", "add", "--quiet", str(checkout))
    formula(checkout, "release", RELEASE)
    assert "release" in refusal(BdStore(bd_repo), "release", name="x")
    store = BdStore(bd_repo, checkout=checkout)
    poured = store.pour("release", {"name": "x"}, wisp=False, assignee=None)
    assert poured.root in [item.id for item in BdStore(bd_repo).items.find(ItemQuery())]


# --- beside the user's own --------------------------------------------------------------------------


@pytest.mark.full
def test_convoys_are_registered_with_the_first_one(store: BdStore, bd: Call) -> None:
    bd("config", "set", "types.custom", "beads-ralph-work,beads-ralph-merge,mine")
    store.create([make_bead("bd-a"), make_item("bd-root", MOLECULE), make_item("bd-gate", GATE)])
    assert types(bd) == ["beads-ralph-work", "beads-ralph-merge", "mine"]
    store.create([make_item("bd-all", CONVOY, tracks=["bd-a", "bd-root"]), make_item("bd-x", "mine")])
    assert types(bd) == ["beads-ralph-work", "beads-ralph-merge", "mine", "convoy"]
    assert [row["id"] for row in bd("show", "bd-all", "--json")] == ["bd-all"]


@pytest.mark.full
def test_epics_of_the_user_are_left_alone(store: BdStore, bd: Call) -> None:
    bd("create", "Mine", "--id", "bd-mine", "--type", "epic", "--json")
    bd("create", "Step", "--id", "bd-step", "--type", "task", "--deps", "parent-child:bd-mine", "--json")
    store.create([make_item("bd-ours", EPIC), make_item("bd-todo", parent="bd-ours")])
    store.items.close("bd-step", "ann", "done")
    store.items.close("bd-todo", "ann", "done")
    assert store.items.settle() == Settled(closed=("bd-ours",))
    assert bd("show", "bd-mine", "--json")[0]["status"] == "open"
    bd("update", "bd-todo", "--status", "open", "--json")
    assert store.items.settle() == Settled(reopened=("bd-ours",))


def test_an_issue_that_is_no_valid_item_hides_no_other(store: BdStore, bd: Call) -> None:
    bd("create", "Odd", "--id", "bd-odd one", "--type", "task", "--json")
    bd("create", "Later", "--id", "bd-later", "--type", "bug", "--json")
    bd("update", "bd-later", "--status", "deferred", "--json")
    assert [(item.id, item.status) for item in store.items.find(ItemQuery())] == [("bd-later", "blocked")]


def test_a_claimed_wisp_has_no_lease_and_is_not_lost(store: BdStore, bd: Call) -> None:
    store.create([make_bead("bd-wisp", ephemeral=True), make_bead("bd-solid")])
    claim = store.claim("bd-wisp", "worker")
    assert claim.won
    assert claim.lease_expires_at is None
    assert store.claim("bd-solid", "worker").lease_expires_at is not None
    store.release("bd-wisp", "worker")
    # Without a name, as `bd unclaim` leaves it: back into the pool, when somebody asks for wisps.
    bd("update", "bd-wisp", "--assignee", "", "--json")
    store.ready(wisps=True)
    assert bd("show", "bd-wisp", "--json")[0]["assignee"] == "beads-ralph-scrum-master"
    assert store.claim("bd-wisp", "another").won


def test_wisps_cost_those_who_have_none_no_command(bd_repo: Path, bd_path: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    program = tmp_path / "bd"
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {bd_path} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    store = BdStore(bd_repo, bd=str(program))
    store.create([make_item("bd-root", MOLECULE), make_bead("bd-a", parent="bd-root")])

    def calls() -> list[str]:
        told = [line.split()[0] for line in log.read_text().splitlines()]
        log.write_text("")
        return told

    calls()
    store.ready()
    assert store.claim("bd-a", "worker").won
    assert calls() == ["ready", "update"]
    store.heartbeat("bd-a", "worker")
    assert calls() == ["heartbeat"]
    store.close("bd-a", "worker", "done")
    assert calls()[-1] == "update"

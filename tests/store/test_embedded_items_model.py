"""Beads, items, parents and wisps against a naive model: after any sequence of changes both know the same."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from beads_ralph.bead.names import CONTAINERS, CONVOY, EPIC, GATE, MOLECULE, WORK
from beads_ralph.errors import Code
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes, Stored
from beads_ralph.store.query import ItemQuery, Query
from tests.beads import make_bead
from tests.items import make_item
from tests.selection import examples
from tests.store.by_hand import miscounted
from tests.store.test_embedded_model import outcome

ONE = st.integers(0, 11)
"""Which of the known ones: the number is counted around."""
SOME = st.lists(ONE, max_size=2)
FEW = 5
KINDS = st.sampled_from([WORK, WORK, WORK, GATE, EPIC, MOLECULE, CONVOY])


@dataclass
class Known:
    """What the model remembers of a bead or an item."""

    kind: str
    sequence: int
    needs: list[str]
    parent: str | None
    tracks: list[str]
    wisp: bool
    status: str = "open"


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.store = EmbeddedStore(self.root)
        self.known: dict[str, Known] = {}
        self.made = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def one(self, number: int) -> str:
        return list(self.known)[number % len(self.known)]

    def some(self, numbers: list[int]) -> list[str]:
        return list(dict.fromkeys(map(self.one, numbers))) if self.known else []

    # --- what the model says ------------------------------------------------------------------------

    def waits_for(self, name: str) -> set[str]:
        """What it waits for itself, and what everything above it waits for."""
        needs: set[str] = set()
        above: str | None = name
        while above is not None:
            needs |= set(self.known[above].needs)
            above = self.known[above].parent
        return needs

    def blocked(self, name: str) -> bool:
        return any(self.known[other].status != "closed" for other in self.waits_for(name))

    def below(self, name: str) -> list[str]:
        return [other for other, thing in self.known.items() if thing.parent == name]

    def members(self, name: str) -> set[str]:
        return {*self.below(name), *self.known[name].tracks}

    def ready(self, *, wisps: bool) -> list[str]:
        return [
            name
            for name, thing in sorted(self.known.items(), key=lambda pair: pair[1].sequence)
            if (thing.kind, thing.status) == (WORK, "open")
            and (wisps or not thing.wisp)
            and not self.blocked(name)
        ]

    def circular(self) -> bool:
        """Whether somebody waits for himself: a container waits for what is below it."""
        edges = {name: self.waits_for(name) | set(self.below(name)) for name in self.known}
        while free := [name for name, others in edges.items() if not others & edges.keys()]:
            for name in free:
                del edges[name]
        return bool(edges)

    # --- what happens to both -----------------------------------------------------------------------

    @rule(kind=KINDS, numbers=SOME, above=st.none() | ONE, followed=SOME, wisp=st.booleans())
    def create(
        self, kind: str, numbers: list[int], above: int | None, followed: list[int], wisp: bool
    ) -> None:
        name, needs = f"bd-{self.made}", self.some(numbers)
        parents = [other for other, thing in self.known.items() if thing.kind in CONTAINERS]
        parent = parents[above % len(parents)] if parents and above is not None else None
        tracks = self.some(followed) if kind == CONVOY else []
        fields: dict[str, Any] = {"dependencies": needs, "parent": parent, "ephemeral": wisp}
        bead: Stored = (
            make_bead(name, **fields) if kind == WORK else make_item(name, kind, tracks=tracks, **fields)
        )
        self.known[name] = Known(kind, self.made, needs, parent, tracks, wisp)
        self.made += 1
        if self.circular():
            del self.known[name]
            assert outcome(lambda: self.store.create([bead])) == Code.CYCLE_DETECTED
        else:
            self.store.create([bead])
            assert outcome(lambda: self.store.create([bead])) == Code.DUPLICATE_ID

    @precondition(lambda self: self.known)
    @rule(number=ONE)
    def close(self, number: int) -> None:
        name = self.one(number)
        thing = self.known[name]
        if thing.kind == WORK:
            assert outcome(lambda: self.store.items.close(name, "ann", "done")) == Code.BEAD_NOT_FOUND
            free = name in self.ready(wisps=True)
            assert self.store.claim(name, "worker").won == free
            if free:
                self.store.close(name, "worker", "done")
                thing.status = "closed"
        else:
            unfinished = any(self.known[other].status != "closed" for other in self.members(name))
            refused = thing.status != "closed" and (unfinished or self.blocked(name))
            code = Code.CONFLICT if refused else None
            assert outcome(lambda: self.store.items.close(name, "ann", "done")) == code
            thing.status = thing.status if refused else "closed"

    @precondition(lambda self: self.known)
    @rule(number=ONE, numbers=SOME)
    def rewire(self, number: int, numbers: list[int]) -> None:
        name = self.one(number)
        thing = self.known[name]
        needs = [other for other in self.some(numbers) if other != name]
        if thing.kind != WORK:
            changes = Changes(dependencies=needs)
            assert outcome(lambda: self.store.update(name, changes)) == Code.BEAD_NOT_FOUND
            return
        before, thing.needs = thing.needs, needs
        if self.circular():
            thing.needs = before
            changes = Changes(dependencies=needs)
            assert outcome(lambda: self.store.update(name, changes)) == Code.CYCLE_DETECTED
        else:
            self.store.update(name, Changes(status="open", dependencies=needs))
            thing.status = "open"

    @precondition(lambda self: self.known)
    @rule(number=ONE, numbers=SOME)
    def track(self, number: int, numbers: list[int]) -> None:
        convoy = self.one(number)
        thing = self.known[convoy]
        others = [other for other in self.some(numbers) if other != convoy]
        if thing.kind != CONVOY:
            assert outcome(lambda: self.store.items.track(convoy, others)) == Code.BEAD_NOT_FOUND
            return
        thing.tracks = list(dict.fromkeys([*thing.tracks, *others]))
        if any(self.known[other].status != "closed" for other in self.members(convoy)):
            thing.status = "open"
        assert self.store.items.track(convoy, others).status == thing.status

    @rule()
    def settle(self) -> None:
        outcome = self.store.items.settle()
        for name in outcome.closed:
            self.known[name].status = "closed"
        for name in outcome.reopened:
            self.known[name].status = "open"
        for name, thing in self.known.items():
            if thing.kind in CONTAINERS and self.members(name):
                unfinished = any(self.known[other].status != "closed" for other in self.members(name))
                assert (
                    thing.status != "closed" if unfinished else thing.status == "closed" or self.blocked(name)
                )

    @precondition(lambda self: len(self.known) > FEW)
    @rule(number=ONE)
    def burn(self, number: int) -> None:
        name = self.one(number)
        gone, waiting = {name}, [name]
        while waiting:
            more = set(self.below(waiting.pop())) - gone
            gone |= more
            waiting += more
        outside = [thing for other, thing in self.known.items() if other not in gone]
        if any(gone & set(thing.needs) for thing in outside) or not all(self.known[it].wisp for it in gone):
            assert outcome(lambda: self.store.items.burn([name])) == Code.CONFLICT
            return
        assert set(self.store.items.burn([name])) == gone
        assert outcome(lambda: self.store.items.burn([name])) == Code.BEAD_NOT_FOUND
        self.known = {other: thing for other, thing in self.known.items() if other not in gone}
        for thing in self.known.values():
            thing.tracks = [other for other in thing.tracks if other not in gone]

    # --- what must always be true -------------------------------------------------------------------

    @invariant()
    def both_know_the_same(self) -> None:
        beads = {bead.id: bead for bead in self.store.find(Query(wisps=True)).beads}
        items = {item.id: item for item in self.store.items.find(ItemQuery())}
        assert beads.keys() | items.keys() == self.known.keys()
        for name, bead in beads.items():
            thing = self.known[name]
            assert (bead.status, bead.parent, bool(bead.ephemeral)) == (
                thing.status,
                thing.parent,
                thing.wisp,
            )
            assert bead.dependencies == thing.needs
        for name, item in items.items():
            thing = self.known[name]
            assert (item.issue_type, item.status, item.tracks) == (thing.kind, thing.status, thing.tracks)
            assert item.dependencies == thing.needs

    @invariant()
    def both_have_the_same_ready(self) -> None:
        for wisps in (False, True):
            assert [bead.id for bead in self.store.ready(wisps=wisps).beads] == self.ready(wisps=wisps)

    @invariant()
    def nothing_is_miscounted(self) -> None:
        if self.made:
            assert miscounted(self.root) == []


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)

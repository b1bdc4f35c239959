"""The embedded store against a naive model: after any sequence of changes both know the same."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from beads_ralph.errors import Code, RalphError
from beads_ralph.store.embedded.embedded_store import EmbeddedStore, initialise
from beads_ralph.store.protocol import Changes
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.selection import examples

IDS = st.sampled_from([f"bd-{letter}" for letter in "abcdefgh"])
ACTORS = st.sampled_from(["one", "two"])
NEEDS = st.lists(IDS, max_size=3, unique=True)


def outcome(operation: Callable[[], object]) -> Code | None:
    """Why it was refused, or None."""
    try:
        operation()
    except RalphError as problem:
        return problem.code
    return None


@dataclass
class Known:
    """What the model remembers of a bead."""

    priority: int
    sequence: int
    needs: list[str] = field(default_factory=list)
    status: str = "open"
    holder: str | None = None
    heartbeat: int = 0


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.minutes = 0
        initialise(self.root)
        self.store = EmbeddedStore(self.root, clock=self.now)
        self.known: dict[str, Known] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self.minutes)

    # --- what the model says ------------------------------------------------------------------------

    def blockers(self, bead_id: str) -> list[str]:
        return [other for other in self.known[bead_id].needs if self.known[other].status != "closed"]

    def ready(self) -> list[str]:
        free = [
            name for name, bead in self.known.items() if bead.status == "open" and not self.blockers(name)
        ]
        return sorted(free, key=lambda name: (self.known[name].priority, self.known[name].sequence))

    def reaches(self, start: Sequence[str], goal: str) -> bool:
        waiting, seen = list(start), set[str]()
        while waiting:
            name = waiting.pop()
            if name == goal:
                return True
            if name not in seen:
                seen.add(name)
                waiting += self.known[name].needs
        return False

    def refusal_of_needs(self, bead_id: str, needs: Sequence[str]) -> Code | None:
        if bead_id in needs:
            return Code.SELF_DEP
        if any(other not in self.known for other in needs):
            return Code.UNRESOLVED
        return Code.CYCLE_DETECTED if self.reaches(needs, bead_id) else None

    # --- what happens to both -----------------------------------------------------------------------

    @rule(bead_id=IDS, needs=NEEDS, priority=st.integers(0, 4))
    def create(self, bead_id: str, needs: list[str], priority: int) -> None:
        needs = [other for other in needs if other != bead_id]
        bead = make_bead(bead_id, dependencies=needs, priority=priority)
        expected = Code.DUPLICATE_ID if bead_id in self.known else self.refusal_of_needs(bead_id, needs)
        assert outcome(lambda: self.store.create([bead])) == expected
        if expected is None:
            self.known[bead_id] = Known(priority, len(self.known), needs)

    @rule(bead_id=IDS, actor=ACTORS)
    def claim(self, bead_id: str, actor: str) -> None:
        if bead_id not in self.known:
            assert outcome(lambda: self.store.claim(bead_id, actor)) == Code.BEAD_NOT_FOUND
            return
        bead, free = self.known[bead_id], bead_id in self.ready()
        claim = self.store.claim(bead_id, actor)
        assert claim.won == (free or bead.holder == actor)
        if bead.holder is not None:
            assert claim.held_by == bead.holder
        elif bead.status == "open" and not free:
            assert claim.refusal == f"blocked by {', '.join(self.blockers(bead_id))}"
        elif not free:
            assert claim.refusal == f"status {bead.status}"
        if free:
            bead.status, bead.holder, bead.heartbeat = "in_progress", actor, self.minutes

    @rule(bead_id=IDS, actor=ACTORS)
    def close(self, bead_id: str, actor: str) -> None:
        refused = outcome(lambda: self.store.close(bead_id, actor, "done"))
        if bead_id not in self.known:
            assert refused == Code.BEAD_NOT_FOUND
            return
        bead = self.known[bead_id]
        assert refused == (None if bead.holder == actor or bead.status == "closed" else Code.CONFLICT)
        if refused is None:
            bead.status, bead.holder = "closed", None

    @rule(bead_id=IDS, actor=ACTORS, status=st.sampled_from(["open", "blocked"]))
    def release(self, bead_id: str, actor: str, status: str) -> None:
        refused = outcome(lambda: self.store.release(bead_id, actor, status=status, reason="why not"))
        if bead_id not in self.known:
            assert refused == Code.BEAD_NOT_FOUND
            return
        bead = self.known[bead_id]
        assert refused == (None if bead.holder == actor else Code.CONFLICT)
        if refused is None:
            bead.status, bead.holder = status, None

    @rule(bead_id=IDS, status=st.sampled_from(["open", "blocked"]))
    def set_status(self, bead_id: str, status: str) -> None:
        refused = outcome(lambda: self.store.update(bead_id, Changes(status=status)))
        if bead_id not in self.known:
            assert refused == Code.BEAD_NOT_FOUND
            return
        bead = self.known[bead_id]
        allowed = bead.holder is None and (bead.status, status) != ("closed", "blocked")
        assert refused == (None if allowed else Code.CONFLICT)
        if allowed:
            bead.status = status

    @rule(bead_id=IDS, needs=NEEDS)
    def rewire(self, bead_id: str, needs: list[str]) -> None:
        expected = self.refusal_of_needs(bead_id, needs) if bead_id in self.known else Code.BEAD_NOT_FOUND
        assert outcome(lambda: self.store.update(bead_id, Changes(dependencies=needs))) == expected
        if expected is None:
            self.known[bead_id].needs = needs

    @rule(bead_id=IDS, actor=ACTORS)
    def heartbeat(self, bead_id: str, actor: str) -> None:
        bead = self.known.get(bead_id)
        holds = bead is not None and bead.holder == actor
        assert self.store.heartbeat(bead_id, actor) == holds
        if holds:
            assert bead is not None
            bead.heartbeat = self.minutes

    @rule(minutes=st.integers(1, 6))
    def wait(self, minutes: int) -> None:
        self.minutes += minutes

    @rule(minutes=st.integers(0, 4))
    def reclaim(self, minutes: int) -> None:
        expired = [
            name
            for name, bead in self.known.items()
            if bead.holder is not None and bead.heartbeat + 5 + minutes <= self.minutes
        ]
        assert self.store.reclaim(timedelta(minutes=minutes)) == expired
        for name in expired:
            self.known[name].status, self.known[name].holder = "open", None

    # --- what must agree ----------------------------------------------------------------------------

    @invariant()
    def both_know_the_same(self) -> None:
        assert [bead.id for bead in self.store.ready().beads] == self.ready()
        found = {
            bead.id: (bead.status, bead.to_json().get("claimed_by"))
            for bead in self.store.find(Query()).beads
        }
        assert found == {name: (bead.status, bead.holder) for name, bead in self.known.items()}

    @invariant()
    def the_counts_are_right(self) -> None:
        with closing(sqlite3.connect(self.root / ".ralph" / "beads.db")) as connection:
            counts = dict(connection.execute("SELECT id, blockers FROM beads").fetchall())
        assert counts == {name: len(self.blockers(name)) for name in self.known}


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)

"""A store that holds more than the run is about: no agent waits for that, and it is judged all the same."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.journal.proofs import Ledger
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Claim, Listing
from beads_ralph.store.query import Query
from tests.beads import make_bead
from tests.loop.plans import Project, loop_of, names, sprint, work
from tests.store.by_hand import database_of

ONE, OLD = "bd-1-1-one", "bd-1-1-old"
MANY = 250


class Reading(EmbeddedStore):
    """Notes which beads were read before the first one was claimed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: set[str] = set()
        self.claimed = False

    def find(self, query: Query) -> Listing:
        return self._noted(super().find(query))

    def ready(self, *given: Any, **named: Any) -> Listing:
        return self._noted(super().ready(*given, **named))

    def claim(self, bead_id: str, actor: str) -> Claim:
        self.claimed = True
        return super().claim(bead_id, actor)

    def _noted(self, listing: Listing) -> Listing:
        self.read |= set() if self.claimed else {bead.id for bead in listing.beads}
        return listing


def filled(project: Project, status: str) -> list[str]:
    """As many beads of a plan whose file is long gone, and whose branches are."""
    beads = [make_bead(f"bd-old-{number}", metadata={"plan_file": "old.md"}) for number in range(MANY)]
    project.store.create(beads)
    with sqlite3.connect(database_of(project.root)) as connection:
        connection.execute("UPDATE beads SET status = ? WHERE plan_file = 'old.md'", (status,))
    return [bead.id for bead in beads]


def accepted(project: Project, ids: list[str]) -> None:
    ledger = Ledger(project.root / ".ralph")
    for name in ids:
        ledger.accept(name, "ann", "it is done")


def test_a_run_of_one_plan_reads_no_bead_of_another(repo: Path) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    filled(project, "open")
    store = Reading(repo)
    with loop_of(project, store, scope="plan.md") as loop:
        ended = asyncio.run(loop.run())
    assert (ended.why, ended.closed) == ("done", (ONE,))
    assert store.read == {ONE}


@pytest.mark.parametrize("rest", [0, 1])
def test_what_was_closed_long_ago_is_judged_beside_the_first_agent(repo: Path, rest: int) -> None:
    project = Project.make(repo, sprint("1.1", "One"))
    old = filled(project, "closed")
    accepted(project, old[rest:])
    store = Reading(repo)
    with loop_of(project, store) as loop:
        ended = asyncio.run(loop.run())
    assert store.read == {ONE}
    assert [name for name, _ in ended.blocked] == old[:rest]
    assert ended.why == ("blocked" if rest else "done"), ended.reason
    told = [row["bead"] for row in project.events() if "without a proof" in row.get("message", "")]
    assert told == old[:rest]


def test_a_finished_plan_whose_bead_is_not_proven_is_worked_on_again(repo: Path) -> None:
    script = {"*": {"dev": work()}}
    project = Project.make(repo, sprint("1.1", "Old"), script=script, closed_by_hand="reopen")
    assert project.run().data["closed"] == [OLD]
    text = (repo / "plan.md").read_text("utf-8")
    (repo / "plan.md").rename(repo / "old.md")
    (repo / "plan.md").write_text(text.replace("Old", "One"), encoding="utf-8")
    with sqlite3.connect(database_of(repo)) as connection:
        connection.execute("UPDATE beads SET plan_file = 'old.md'")
    Ledger(repo / ".ralph").reopen(OLD)
    assert project.ralph("mason", "plan.md", "--json").code == 0
    ran = project.ralph("run", "--json")
    assert sorted(ran.data["closed"]) == sorted([ONE, OLD]), ran.out
    assert names(project.events("bead_reopened")) == [OLD]


def test_what_was_closed_elsewhere_while_the_run_is_on_is_opened_again(repo: Path) -> None:
    """Whatever plan it is of: nobody but an agent was there."""
    project = Project.make(repo, sprint("1.1", "One"))
    old = filled(project, "closed")
    accepted(project, old)
    with sqlite3.connect(database_of(repo)) as connection:
        connection.execute("UPDATE beads SET status = 'blocked' WHERE id = ?", (old[0],))

    class Spoiling(EmbeddedStore):
        def claim(self, bead_id: str, actor: str) -> Claim:
            with sqlite3.connect(database_of(repo)) as connection:
                connection.execute("UPDATE beads SET status = 'closed' WHERE id = ?", (old[0],))
            Ledger(repo / ".ralph").reopen(old[0])
            return super().claim(bead_id, actor)

    with loop_of(project, Spoiling(repo), scope="plan.md") as loop:
        asyncio.run(loop.run())
    assert names(project.events("bead_reopened")) == [old[0]]
    assert project.statuses()[old[0]] == "open"

"""The part of the work that people do: which items of a store are theirs, and what each still waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beads_ralph.bead import graph
from beads_ralph.bead.items import ALONE, Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONTAINERS, MOLECULE
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import ItemQuery, Query


@dataclass(frozen=True)
class PersonsItem:
    """A task, or a gate that waits for a person's word."""

    item: Item
    waits_for: tuple[str, ...]
    """The ids before it that are not closed."""
    above: tuple[Item, ...] = ()
    """What it lies in, from the inside out."""

    @property
    def is_open(self) -> bool:
        return self.item.status != "closed"

    @property
    def can_be_done(self) -> bool:
        """True where nothing holds it up any more."""
        return self.is_open and not self.waits_for

    @property
    def command(self) -> str | None:
        """What a person types when it is done; None where it cannot be done yet, or is."""
        return f"beads-ralph close {self.item.id}" if self.can_be_done else None

    @property
    def plan_file(self) -> str | None:
        """The plan that it was poured for; None of a formula that was poured by itself."""
        said = [item.metadata.get("plan_file") for item in self.above]
        return next((file for file in said if isinstance(file, str)), None)

    def to_json(self) -> dict[str, Any]:
        item = self.item
        return {
            "id": item.id,
            "type": item.issue_type,
            "title": item.title,
            "status": item.status,
            "priority": item.priority,
            "assignee": item.assignee,
            "labels": list(item.labels),
            "parent": item.parent,
            "plan_file": self.plan_file,
            "waits_for": list(self.waits_for),
            "command": self.command,
        }


def is_persons(item: Item) -> bool:
    """True of what nobody but a person ends: containers follow their members, other gates come true."""
    rule = item.gate
    return rule.type not in ALONE if rule else item.issue_type not in CONTAINERS


def peoples_items(
    store: Store, *, only_open: bool = False, plan_file: str | None = None, wisps: bool = False
) -> list[PersonsItem]:
    """The steps of people, in the order in which they were made: what lies in a molecule, and what beads
    wait for. Other issues in a shared database are not ours to show."""
    items = {item.id: item for item in store.items.find(ItemQuery())}
    theirs = [
        item
        for item in items.values()
        if is_persons(item) and (item.status != "closed" or not only_open) and (wisps or not item.ephemeral)
    ]
    above = {item.id: _above(item, items) for item in theirs}
    ours = _awaited(store, items) if any(not _is_poured(above[item.id]) for item in theirs) else set[str]()
    kept = [item for item in theirs if _is_poured(above[item.id]) or item.id in ours]
    return [
        found
        for found in _with_waits(store, kept, above, items)
        if plan_file is None or found.plan_file == plan_file
    ]


def persons_item(store: Store, item: Item) -> PersonsItem | None:
    """One item as a step for a person; None where it is none."""
    if not is_persons(item):
        return None
    items = {item.id: item}
    above, wanted = item.parent, set(item.dependencies)
    while above is not None and above not in items:
        found = store.items.find(ItemQuery(ids=[above]))
        items |= {one.id: one for one in found}
        wanted |= {name for one in found for name in one.dependencies}
        above = found[0].parent if found else None
    items |= {one.id: one for one in store.items.find(ItemQuery(ids=sorted(wanted)))} if wanted else {}
    (step,) = _with_waits(store, [item], {item.id: _above(item, items)}, items)
    return step


def _above(item: Item, items: Mapping[str, Item]) -> tuple[Item, ...]:
    found: dict[str, Item] = {}
    parent = item.parent
    while parent is not None and parent not in found and parent in items:
        found[parent] = items[parent]
        parent = items[parent].parent
    return tuple(found.values())


def _is_poured(above: Iterable[Item]) -> bool:
    return any(item.issue_type == MOLECULE for item in above)


def _awaited(store: Store, items: Mapping[str, Item]) -> set[str]:
    """The items that beads wait for, be it behind another item or around an epic."""
    edges = {item.id: _before(item) for item in items.values()}
    beads = store.find(Query(wisps=True)).beads
    return set(graph.reachable({name for bead in beads for name in _before(bead)}, edges))


def _before(thing: Bead | Item) -> list[str]:
    return [*thing.dependencies, *([thing.parent] if thing.parent else ())]


def _with_waits(
    store: Store, kept: Sequence[Item], above: Mapping[str, Sequence[Item]], items: Mapping[str, Item]
) -> Iterable[PersonsItem]:
    needs = {
        item.id: dict.fromkeys([*item.dependencies, *(n for one in above[item.id] for n in one.dependencies)])
        for item in kept
        if item.status != "closed"
    }
    closed = {item.id for item in items.values() if item.status == "closed"}
    closed |= _closed_beads(store, {name for names in needs.values() for name in names} - items.keys())
    for item in kept:
        waits = tuple(name for name in needs.get(item.id, ()) if name not in closed)
        yield PersonsItem(item, waits, tuple(above[item.id]))


def _closed_beads(store: Store, ids: Collection[str]) -> set[str]:
    if not ids:
        return set()
    return {bead.id for bead in store.find(Query(ids=sorted(ids), statuses=("closed",))).beads}

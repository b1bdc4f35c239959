"""What formulas have made beside beads, against what the plan makes of them now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead.items import Item
from beads_ralph.bead.names import CONTAINERS
from beads_ralph.compile.base import is_same
from beads_ralph.compile.load import Batch, StoredPlan
from beads_ralph.compile.molecule import Molecule
from beads_ralph.errors import Code, Fault


def fields_json(fields: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {name: {"stored": old, "planned": new} for name, (old, new) in fields.items()}


@dataclass(frozen=True)
class ItemChange:
    """A step for a person, or a gate, that the plan or its formula says differently now."""

    item: Item
    fields: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class ItemDiff:
    """The same of what formulas make beside beads. Of these only new ones are applied: what a person
    may have read already is left to a person."""

    added: tuple[Item, ...] = ()
    changed: tuple[ItemChange, ...] = ()
    gone: tuple[Item, ...] = ()
    kept: tuple[Item, ...] = ()

    def warnings(self) -> list[Fault]:
        """Warnings about what is left alone, and what to do about it."""
        told = []
        for change in self.changed:
            both = (f"{name} is {old!r}, planned {new!r}" for name, (old, new) in change.fields.items())
            said = f"keeps what it says: {', '.join(both)}"
            told.append((change.item, said, "Do what the plan says, then"))
        for item in self.gone:
            said = "is no longer in the plan, and stays open"
            told.append((item, said, "Where nothing is left to do"))
        return [
            Fault(
                Code.CONSTRAINT,
                f"{item.id} ({item.title}) {said}",
                suggested_action=f"{when}: beads-ralph close {item.id}",
            )
            for item, said, when in told
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "added": [_item_row(item) for item in self.added],
            "changed": [
                {**_item_row(change.item), "fields": fields_json(change.fields)} for change in self.changed
            ],
            "gone": [_item_row(item) for item in self.gone],
        }


NO_ITEMS: Final = ItemDiff()


def _item_row(item: Item) -> dict[str, Any]:
    return {"item_id": item.id, "issue_type": item.issue_type, "title": item.title, "status": item.status}


def compare_items(stored: StoredPlan, planned: Batch) -> ItemDiff:
    there = {item.id: item for item in (*stored.roots, *stored.items)}
    wanted = [each for each in planned.stored if isinstance(each, Item)]
    both = [(there[item.id], item) for item in wanted if item.id in there]
    changes = [ItemChange(old, _item_fields(old, new)) for old, new in both if _is_waiting(old)]
    # Not those of --id-suffix, molecules beside the one that the plan means.
    meant = {name: part.root.id for name, part in planned.parts.items() if isinstance(part, Molecule)}
    named = ((root.id, str(root.metadata.get("plan_sprint_id"))) for root in stored.roots)
    current = {root for root, sprint in named if meant.get(sprint, root) == root}
    gone = [item for item in stored.items if _root_of(item, there) in current]
    ids = {item.id for item in wanted}
    return ItemDiff(
        added=tuple(item for item in wanted if item.id not in there),
        changed=tuple(change for change in changes if change.fields),
        gone=tuple(item for item in gone if item.id not in ids and _is_waiting(item)),
        kept=tuple(there.values()),
    )


def _is_waiting(item: Item) -> bool:
    """True where a person or the world still has to act; containers follow their members."""
    return item.status != "closed" and item.issue_type not in CONTAINERS


def _root_of(item: Item, there: Mapping[str, Item]) -> str:
    while item.parent is not None and item.parent in there:
        item = there[item.parent]
    return item.id


def _item_fields(stored: Item, planned: Item) -> dict[str, tuple[Any, Any]]:
    old, new = stored.model_dump(mode="json"), planned.model_dump(mode="json")
    names = (name for name in ITEM_FIELDS if not is_same(name, old[name], new[name]))
    fields = {name: (old[name], new[name]) for name in names}
    if stored.gate != planned.gate:
        fields["gate"] = (stored.metadata.get("gate"), planned.metadata.get("gate"))
    return fields


ITEM_FIELDS: Final = ("title", "description", "notes", "issue_type", "priority", "labels", "dependencies")

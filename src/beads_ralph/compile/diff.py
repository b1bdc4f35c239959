"""An edited plan against the store: what it would add, change or orphan, and how to apply it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from beads_ralph.bead import graph, personas, run_state
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONTAINERS
from beads_ralph.compile.load import Batch, StoredPlan, stored_of
from beads_ralph.compile.molecule import Molecule
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.store.protocol import Changes, Progress, Store, Stored, silent

ORPHANED: Final = "orphaned"
AUTHOR: Final = "beads-mason"
CORE_FIELDS: Final = ("title", "description", "priority", "issue_type", "labels", "dependencies")


@dataclass(frozen=True)
class Change:
    """A bead whose plan text was edited: field → (stored, planned)."""

    bead: Bead
    planned: Bead
    fields: Mapping[str, tuple[Any, Any]]

    @property
    def locked(self) -> bool:
        return is_locked(self.bead)


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
                {**_item_row(change.item), "fields": _fields_json(change.fields)} for change in self.changed
            ],
            "gone": [_item_row(item) for item in self.gone],
        }


def _item_row(item: Item) -> dict[str, Any]:
    return {"item_id": item.id, "issue_type": item.issue_type, "title": item.title, "status": item.status}


@dataclass(frozen=True)
class Diff:
    """Beads to add, to change, and those whose sprint is gone from the plan."""

    added: tuple[Bead, ...]
    changed: tuple[Change, ...]
    orphaned: tuple[Bead, ...]
    unchanged: tuple[Bead, ...]
    items: ItemDiff = ItemDiff()

    @property
    def empty(self) -> bool:
        items = self.items
        return not (self.added or self.changed or self.orphaned or items.added or items.changed or items.gone)

    def to_json(self) -> dict[str, Any]:
        return {
            "added": [_row(bead) for bead in self.added],
            "changed": [
                {**_row(change.bead), "locked": change.locked, "fields": _fields_json(change.fields)}
                for change in self.changed
            ],
            "orphaned": [{**_row(bead), "locked": is_locked(bead)} for bead in self.orphaned],
            "unchanged": [bead.id for bead in self.unchanged],
            **({"items": self.items.to_json()} if self.items != ItemDiff() else {}),
        }


def _fields_json(fields: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {name: {"stored": old, "planned": new} for name, (old, new) in fields.items()}


def _row(bead: Bead) -> dict[str, Any]:
    return {
        "bead_id": bead.id,
        "sprint": bead.metadata.plan_sprint_id,
        "title": bead.title,
        "status": bead.status,
    }


def is_locked(bead: Bead) -> bool:
    """Work that runs or is done is not touched by an edit of the plan."""
    return bead.status in ("in_progress", "closed")


def compare(stored: StoredPlan, planned: Batch) -> Diff:
    """`planned` carries the ids of what the store holds of the same sprints already."""
    _require_same_kind(stored, planned)
    by_id = {bead.id: bead for bead in stored.beads}
    wanted = [bead for bead in planned.beads if isinstance(bead, Bead)]
    changes = [_change(by_id[bead.id], bead) for bead in wanted if bead.id in by_id]
    gone = [bead for bead in by_id.values() if _is_gone(bead, planned)]
    return Diff(
        added=tuple(bead for bead in wanted if bead.id not in by_id),
        changed=tuple(change for change in changes if change.fields),
        orphaned=tuple(bead for bead in gone if ORPHANED not in bead.labels),
        unchanged=tuple(change.bead for change in changes if not change.fields),
        items=_compare_items(stored, planned),
    )


def _require_same_kind(stored: StoredPlan, planned: Batch) -> None:
    """A sprint that was written out and names a formula now, or the other way round, needs another id."""
    beads = {bead.id for bead in stored.beads}
    items = {item.id for item in (*stored.roots, *stored.items)}
    faults = [
        Fault(
            Code.DUPLICATE_ID,
            f"sprint {name}: {each.id} is there already, from before the sprint "
            + ("named a formula" if isinstance(each, Item) else "had tasks of its own"),
            suggested_action="Give the sprint a **Bead Name** of its own; what is there is orphaned then",
        )
        for name, part in planned.parts.items()
        for each in stored_of(part)
        if each.id in (beads if isinstance(each, Item) else items)
    ]
    if faults:
        raise gathered(faults, "the plan")


def _is_gone(bead: Bead, planned: Batch) -> bool:
    """True where its sprint left the plan, or its step left the formula, or the one became the other.

    A sprint may have more beads or molecules than the plan makes now: those of --id-suffix.
    """
    sprint, molecule = bead.metadata.plan_sprint_id, bead.metadata.molecule
    part = planned.parts.get(sprint)
    if not isinstance(part, Molecule):
        return part is None or molecule is not None
    left = molecule == part.root.id and bead.id not in {member.id for member in part.members}
    return molecule is None or left


def _compare_items(stored: StoredPlan, planned: Batch) -> ItemDiff:
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
    fields = {name: (old[name], new[name]) for name in ITEM_FIELDS if _differs(name, old, new)}
    if stored.gate != planned.gate:
        fields["gate"] = (stored.metadata.get("gate"), planned.metadata.get("gate"))
    return fields


ITEM_FIELDS: Final = ("title", "description", "notes", "issue_type", "priority", "labels", "dependencies")


def _change(stored: Bead, planned: Bead) -> Change:
    old, new = stored.to_json(), planned.to_json()
    fields = {name: (old.get(name), new.get(name)) for name in CORE_FIELDS if _differs(name, old, new)}
    before, after = (personas.without_sessions(said["metadata"]) for said in (old, new))
    for name in sorted({*before, *after} - run_state.KEYS):
        if name in after and before.get(name) != after[name]:
            fields[f"metadata.{name}"] = (before.get(name), after[name])
        elif name in PLAN_ONLY and before.get(name) is not None and name not in after:
            fields[f"metadata.{name}"] = (before[name], None)
    return Change(stored, planned, fields)


PLAN_ONLY: Final = frozenset({"dod", "acceptance_criteria", "formula", "template"})
"""Optional keys that only a plan writes: gone from the plan means gone from the bead."""


def _differs(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if name in ("labels", "dependencies"):
        return sorted(old.get(name) or []) != sorted(new.get(name) or [])
    return bool(old.get(name) != new.get(name))


# --- applying it ------------------------------------------------------------------------------------


@dataclass
class Applied:
    """The changes so far, and what was left alone because work on it runs or is done."""

    created: list[str]
    updated: list[str] = field(default_factory=list)
    orphaned: list[str] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "beads_updated": list(self.updated),
            "beads_orphaned": list(self.orphaned),
            "beads_left_alone": list(self.left_alone),
        }


def apply(store: Store, diff: Diff, progress: Progress = silent) -> Applied:
    """New beads first, since changed ones may come to depend on them; running and closed ones stay.

    A failure half-way says what was applied before it; applying again does the rest.
    """
    order = _safe_order(diff)
    fresh: list[Stored] = [*diff.items.added, *diff.added]
    done = Applied(store.create(fresh, progress) if fresh else [])
    try:
        for change in sorted(diff.changed, key=lambda change: order.get(change.bead.id, 0)):
            taken = _update(store, change.bead, _changes(change))
            (done.updated if taken else done.left_alone).append(change.bead.id)
        for bead in diff.orphaned:
            # Blocked, not closed: closed would claim that its work was done.
            taken = _update(store, bead, Changes(status="blocked", labels=[*bead.labels, ORPHANED]))
            if taken:
                gone = f"Sprint {bead.metadata.plan_sprint_id} is no longer in the plan."
                store.comment(bead.id, AUTHOR, gone)
            (done.orphaned if taken else done.left_alone).append(bead.id)
    except RalphError as error:
        error.data |= {"beads_created": done.created, **done.to_json()}
        raise
    return done


def _update(store: Store, bead: Bead, changes: Changes) -> bool:
    """Change a bead, unless it is locked or became so since we looked."""
    if is_locked(bead):
        return False
    try:
        store.update(bead.id, replace(changes, expected_status=bead.status))
    except RalphError as error:
        if error.code != Code.CONFLICT:
            raise
        return False
    return True


def _changes(change: Change) -> Changes:
    planned = change.planned.to_json()
    core = {name: planned[name] for name in CORE_FIELDS if name in change.fields}
    metadata = {
        name.removeprefix("metadata."): new
        for name, (_, new) in change.fields.items()
        if name.startswith("metadata.")
    }
    revived = ORPHANED in change.bead.labels and change.bead.status == "blocked"
    return Changes(**core, metadata=metadata or None, status="open" if revived else None)


def _safe_order(diff: Diff) -> dict[str, int]:
    """An order in which no update closes a cycle for a moment: what a bead will wait for comes first.

    Locked beads keep their old dependencies, which may not fit the edited ones; that is refused.
    """
    changed = [change.bead if change.locked else change.planned for change in diff.changed]
    items = (*diff.items.kept, *diff.items.added)
    after: list[Stored] = [*diff.unchanged, *diff.orphaned, *diff.added, *items, *changed]
    edges = {each.id: each.dependencies for each in after}
    path = graph.cycle(edges)
    if path:
        raise RalphError(
            Code.CYCLE_DETECTED,
            f"Circular dependency: {' → '.join(path)}",
            suggested_action="Beads in progress keep their old dependencies: wait for them, or edit the plan",
        )
    return {node: number for number, wave in enumerate(graph.waves(edges)) for node in wave}

"""An edited plan against the store: what it would add, change or orphan, what people have changed, and where
both have changed the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

from beads_ralph.bead import graph
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.words import several
from beads_ralph.compile import base
from beads_ralph.compile.base import LISTS, ORPHANED, PLACE, Base
from beads_ralph.compile.item_diff import NO_ITEMS, ItemDiff, compare_items, fields_json
from beads_ralph.compile.load import Batch, StoredPlan, stored_of
from beads_ralph.compile.molecule import Molecule
from beads_ralph.errors import Code, Fault, gathered

Fields = Mapping[str, tuple[Any, Any]]
"""Field → (stored, planned)."""
Choice = Literal["plan", "store"]
Choose = Callable[["Change", str], Choice]
WORK: Final = (
    *("title", "description", "metadata.dev_prompts", "metadata.acceptance_criteria", "metadata.dod"),
    *("metadata.branches_to_merge",),
)
"""The fields that say what is to be done, and when it is."""
WORDLESS: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Change:
    """A bead and its sprint as it is now, where they differ."""

    bead: Bead
    planned: Bead
    fields: Fields
    """What the plan has changed."""
    kept: Fields = field(default_factory=dict)
    """What a person has changed in the store: it stays."""
    conflicts: Fields = field(default_factory=dict)
    """What both have changed."""
    reading: str = ""
    """How the sprint reads now; empty where nobody has looked."""
    is_stale: bool = False
    """True where the plan as last compiled is to be written down anew, if nothing else is."""
    is_taken_as_done: bool = False
    """True for finished work that reads differently, and that a person lets stand."""

    @property
    def locked(self) -> bool:
        return is_locked(self.bead)

    @property
    def is_moved(self) -> bool:
        """True for finished work whose sprint has another number or file now."""
        return self.bead.status == "closed" and bool(self.place)

    @property
    def place(self) -> Fields:
        old, new = (each.metadata.to_json() for each in (self.bead, self.planned))
        keys = (name.removeprefix("metadata.") for name in PLACE)
        return {f"metadata.{key}": (old.get(key), new[key]) for key in keys if old.get(key) != new[key]}

    @property
    def reads_differently(self) -> bool:
        """True for finished work that the plan asks for otherwise now."""
        return self.bead.status == "closed" and bool(self.fields)

    @property
    def context(self) -> Mapping[str, Any]:
        """The plan around the sprint, where that reads otherwise than it is kept. The work is the same, so
        nobody is told, and finished work keeps what it had."""
        old, new = self.bead.metadata.plan_context, self.planned.metadata.plan_context
        same = old == new or self.bead.status == "closed"
        return {} if same else RunState(plan_context=new).to_metadata()

    def settled(self, choose: Choose) -> Change:
        """Without conflicts: the plan's values are taken over, the store's are kept."""
        sides = {name: choose(self, name) for name in self.conflicts}
        taken = {name: self.conflicts[name] for name, side in sides.items() if side == "plan"}
        left = {name: self.conflicts[name] for name, side in sides.items() if side == "store"}
        stale = self.is_stale or bool(left)
        return replace(
            self, fields={**self.fields, **taken}, kept={**self.kept, **left}, conflicts={}, is_stale=stale
        )


@dataclass(frozen=True)
class Diff:
    """Beads to add, to change, and those whose sprint is gone from the plan."""

    added: tuple[Bead, ...]
    changes: tuple[Change, ...]
    """Of every bead whose sprint is in the plan."""
    orphaned: tuple[Bead, ...]
    items: ItemDiff = NO_ITEMS
    moved_from: str | None = None
    """The file that the plan was when it was last compiled."""
    readings: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def changed(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.fields)

    @cached_property
    def unchanged(self) -> tuple[Bead, ...]:
        return tuple(change.bead for change in self.changes if not change.fields and not change.conflicts)

    @cached_property
    def kept(self) -> tuple[Change, ...]:
        """Those that a person has changed, and that are not done."""
        return tuple(change for change in self.changes if change.kept and not change.locked)

    @cached_property
    def conflicts(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.conflicts)

    @cached_property
    def reread(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.reads_differently)

    @property
    def empty(self) -> bool:
        items = self.items
        beads = self.added or self.changed or self.orphaned or self.conflicts
        return not (beads or items.added or items.changed or items.gone)

    @property
    def plan_file(self) -> str:
        """The plan by the name that its beads have for it."""
        beads = (*self.added, *(change.planned for change in self.changes), *self.orphaned)
        return next((name for bead in beads if (name := bead.metadata.plan_file)), "PLAN")

    @property
    def is_first(self) -> bool:
        """True where the store has nothing of the plan yet."""
        return not (self.changes or self.orphaned or self.items.kept)

    def settled(self, choose: Choose) -> Diff:
        return replace(self, changes=tuple(change.settled(choose) for change in self.changes))

    def taken_as_done(self) -> Diff:
        """Finished work that reads differently is let stand."""
        stand = (
            replace(change, fields={}, is_taken_as_done=True) if change.reads_differently else change
            for change in self.changes
        )
        return replace(self, changes=tuple(stand))

    def open_ends(self) -> list[Fault]:
        """What keeps the plan from being done although every bead may be closed."""
        left = [change for change in self.changed if not change.reads_differently]
        lines = [(bead.metadata.plan_sprint_id, "has no bead yet") for bead in self.added]
        lines += [
            (change.planned.metadata.plan_sprint_id, f"says otherwise than {change.bead.id}")
            for change in (*left, *self.conflicts)
        ]
        lines += [
            (bead.metadata.plan_sprint_id, f"is not in the plan any more, but {bead.id} is open")
            for bead in self.orphaned
            if bead.status != "closed"
        ]
        plan = self.plan_file
        action = f"See it: beads-ralph plan diff {plan}; then run it again: beads-ralph run {plan}"
        ends = [
            Fault(Code.CONFLICT, f"sprint {name} {said}", suggested_action=action) for name, said in lines
        ]
        return [*ends, *self.warnings()]

    def warnings(self) -> list[Fault]:
        """Finished work that the plan asks for otherwise now."""
        return [_reread(change) for change in self.reread]

    def to_json(self) -> dict[str, Any]:
        more = {
            "kept": [{**_row(change.bead), "fields": fields_json(change.kept)} for change in self.kept],
            "conflicts": [
                {**_row(change.bead), "fields": fields_json(change.conflicts)} for change in self.conflicts
            ],
            "moved_from": self.moved_from,
            "warnings": [warning.to_json() for warning in self.warnings()],
        }
        return {
            "added": [_row(bead) for bead in self.added],
            "changed": [
                {**_row(change.bead), "locked": change.locked, "fields": fields_json(change.fields)}
                for change in self.changed
            ],
            "orphaned": [{**_row(bead), "locked": is_locked(bead)} for bead in self.orphaned],
            "unchanged": [bead.id for bead in self.unchanged],
            **({"items": self.items.to_json()} if self.items != NO_ITEMS else {}),
            **{key: value for key, value in more.items() if value},
        }


def _row(bead: Bead) -> dict[str, Any]:
    return {
        "bead_id": bead.id,
        "sprint": bead.metadata.plan_sprint_id,
        "title": bead.title,
        "status": bead.status,
    }


def _reread(change: Change) -> Fault:
    name, sprint = change.bead.id, change.planned.metadata.plan_sprint_id
    fields = several([name.removeprefix("metadata.") for name in change.fields])
    again = f"To redo it: beads-ralph retry {name} --again"
    plan = change.planned.metadata.plan_file
    stand = f"to keep it as it is: beads-ralph mason {plan} --update --prefer store"
    message = f"sprint {sprint} has changed since {name} was closed: {fields}"
    return Fault(Code.CONFLICT, message, suggested_action=f"{again}; {stand}")


def is_locked(bead: Bead) -> bool:
    """Work that runs or is done is not touched by an edit of the plan."""
    return bead.status in ("in_progress", "closed")


# --- comparing --------------------------------------------------------------------------------------


def compare(stored: StoredPlan, planned: Batch) -> Diff:
    """`planned` carries the ids of what the store holds of the same sprints already."""
    _require_same_kind(stored, planned)
    by_id = {bead.id: bead for bead in stored.beads}
    wanted = _past_closed([bead for bead in planned.beads if isinstance(bead, Bead)], by_id)
    reading = planned.readings.get
    changes = [
        _change(by_id[bead.id], bead, by_id.keys(), reading(bead.metadata.plan_sprint_id, ""))
        for bead in wanted
        if bead.id in by_id
    ]
    ids = {bead.id for bead in wanted}
    left = (bead for bead in stored.first_ones if bead.id not in ids and ORPHANED not in bead.labels)
    gone = [bead for bead in left if _is_gone(bead, stored, planned)]
    return Diff(
        added=tuple(bead for bead in wanted if bead.id not in by_id),
        changes=tuple(changes),
        orphaned=tuple(gone),
        items=compare_items(stored, planned),
        moved_from=stored.moved_from,
        readings=planned.readings,
    )


def _is_gone(bead: Bead, stored: StoredPlan, planned: Batch) -> bool:
    """True where its sprint left the plan or its number is another one's now, or its step left the formula,
    or the one became the other. What somebody has put beside the bead of a sprint is no orphan."""
    sprint, molecule = bead.metadata.plan_sprint_id, bead.metadata.molecule
    part, owner = planned.parts.get(sprint), stored.matches.get(sprint)
    if part is None or owner is None or owner.number != sprint:
        return True
    if not isinstance(part, Molecule):
        return molecule is not None
    return molecule in (None, part.root.id)


def _past_closed(wanted: list[Bead], stored: Mapping[str, Bead]) -> list[Bead]:
    """A sprint that was put before finished work holds up what comes after that work: finished beads keep
    what they waited for, so their dependents wait for it themselves."""
    closed = {
        bead.id: bead.dependencies
        for bead in wanted
        if bead.id in stored and stored[bead.id].status == "closed"
    }
    late = {
        name: [other for other in needs if other not in stored[name].dependencies]
        for name, needs in closed.items()
    }
    if not any(late.values()):
        return wanted
    inner = {name: [other for other in needs if other in closed] for name, needs in closed.items()}
    behind: dict[str, dict[str, None]] = {}
    for name in (name for wave in graph.waves(inner) for name in wave):
        further = (one for other in inner[name] for one in behind[other])
        behind[name] = dict.fromkeys((*late[name], *further))
    return [bead if bead.id in closed else _waiting_for(bead, behind) for bead in wanted]


def _waiting_for(bead: Bead, behind: Mapping[str, Mapping[str, None]]) -> Bead:
    more = (one for name in bead.dependencies for one in behind.get(name, ()))
    needs = [*dict.fromkeys((*bead.dependencies, *more))]
    return bead if needs == bead.dependencies else bead.model_copy(update={"dependencies": needs})


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


def _change(stored: Bead, planned: Bead, own: Any, reading: str) -> Change:
    """Sort what differs by who has changed it. What is closed is compared in its work only."""
    before = Base.of(stored, own)
    old, new = base.fields_of(stored), base.fields_of(planned)
    names = base.differing(old, new)
    found = Change(
        stored, planned, {}, reading=reading, is_stale=bool(reading) and before.reading not in ("", reading)
    )
    if not names or (stored.status == "closed" and not _is_asked_otherwise(before, names, old, new, reading)):
        return found
    if stored.status == "closed":
        return replace(found, fields={name: (old.get(name), new.get(name)) for name in names if name in WORK})
    sides: dict[str, dict[str, tuple[Any, Any]]] = {"plan": {}, "person": {}, "both": {}}
    for name in names:
        side, value = _merged(before, name, old.get(name), new.get(name))
        sides[side][name] = (old.get(name), value)
    return replace(found, fields=sides["plan"], kept=sides["person"], conflicts=sides["both"])


def _merged(before: Base, name: str, stored: Any, planned: Any) -> tuple[base.Side, Any]:
    if name not in LISTS:
        return before.changed_by(name, stored, planned), planned
    merged = before.merged(name, stored, planned)
    return ("person", planned) if base.is_same(name, merged, stored) else ("plan", merged)


def _is_asked_otherwise(
    before: Base, names: list[str], old: Mapping[str, Any], new: Mapping[str, Any], reading: str
) -> bool:
    """True if the plan asks for something else than what was done: its text was changed, not the settings
    around it nor the program that reads it."""
    work = [name for name in names if name in WORK]
    if not work or (before.reading and reading):
        return bool(work) and before.reading != reading
    if before.said is not None:
        return any(base.digest(new.get(name)) != before.said.get(name, base.NOTHING) for name in work)
    words = (name for name in work if name in ("title", "metadata.dev_prompts"))
    return any(WORDLESS.sub("", str(old.get(name))) != WORDLESS.sub("", str(new.get(name))) for name in words)


# --- both have changed it ---------------------------------------------------------------------------


def refuse_conflicts(found: Diff) -> Diff:
    """Nobody is there to be asked: both values, and how to say which counts."""
    faults = [fault for change in found.conflicts for fault in _conflict_faults(change)]
    if faults:
        raise gathered(faults, "the plan")
    return found


def _conflict_faults(change: Change) -> Iterator[Fault]:
    for name, (stored, planned) in change.conflicts.items():
        field_name = name.removeprefix("metadata.")
        message = (
            f"{change.bead.id}: {field_name} was changed in the plan and in the store: "
            f"the plan says {planned!r}, the store {stored!r}"
        )
        action = "Say which one wins: --prefer plan or --prefer store; or write the same into the plan"
        yield Fault(Code.CONFLICT, message, field=name, suggested_action=action)

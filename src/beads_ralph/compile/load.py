"""Beads into the store: everything or nothing, and a second time nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from beads_ralph.bead import schema
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import MOLECULE, SprintId
from beads_ralph.bead.run_state import KEYS
from beads_ralph.compile.build import Built, build, concerning, plan_setting, read_plan
from beads_ralph.compile.molecule import Molecule
from beads_ralph.compile.setting import KnownMolecule, Setting
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.plan import Plan
from beads_ralph.store.protocol import AnyBead, Progress, Store, Stored, silent
from beads_ralph.store.query import ItemQuery, Query, UnreadableBead

Mode = Literal["direct", "formula", "mixed"]


@dataclass(frozen=True)
class Batch:
    """The chosen part of a compiled plan: sprint → its bead or its molecule, in the order of the plan."""

    parts: Mapping[str, AnyBead | Molecule]

    @property
    def molecules(self) -> list[Molecule]:
        return [part for part in self.parts.values() if isinstance(part, Molecule)]

    @property
    def stored(self) -> list[Stored]:
        """All that goes into the store."""
        return [each for part in self.parts.values() for each in stored_of(part)]

    @property
    def members(self) -> list[Stored]:
        """The same without the roots of the molecules."""
        roots = {molecule.root.id for molecule in self.molecules}
        return [each for each in self.stored if each.id not in roots]

    @property
    def beads(self) -> list[AnyBead]:
        """The beads that agents work on."""
        return [each for each in self.stored if not isinstance(each, Item)]

    @property
    def ids(self) -> dict[str, str]:
        """Sprint → its bead, or the root of its molecule."""
        return {name: stored_of(part)[0].id for name, part in self.parts.items()}

    @property
    def mode(self) -> Mode:
        """Batches that bring its sprints into the store."""
        if not self.molecules:
            return "direct"
        return "formula" if len(self.molecules) == len(self.parts) else "mixed"


def stored_of(part: AnyBead | Molecule) -> Sequence[Stored]:
    return part.batch if isinstance(part, Molecule) else [part]


@dataclass(frozen=True)
class Loaded:
    """The result of a run of mason."""

    created: tuple[str, ...]
    """Beads and items; the roots of molecules are apart."""
    skipped: tuple[str, ...]
    sprints: tuple[str, ...]
    bead_ids: Mapping[str, str]
    mode: Mode = "direct"
    molecules: tuple[str, ...] = ()

    def to_json(self, *, annotated: bool, file_changed: bool) -> dict[str, Any]:
        """The seed's result; `beads_skipped` is there for reruns."""
        done = "poured" if self.mode == "formula" else "inserted"
        pours = {
            "formulas_created": 0,
            "formulas_poured": len(self.molecules),
            "molecules_created": list(self.molecules),
        }
        return {
            "mode": self.mode,
            **(pours if self.mode != "direct" else {}),
            "beads_created": len(self.created),
            "bead_ids": list(self.created),
            "sprints_processed": list(self.sprints),
            "database_status": done if self.created or self.molecules else "unchanged",
            "plan_annotated": annotated,
            "plan_file_updated": file_changed,
            "beads_skipped": list(self.skipped),
        }


def choose(plan: Plan, wanted: Iterable[str] | None) -> list[str]:
    """The sprints to process: those of the filter, in the order of the plan; all without one."""
    order = [sprint.id.text for sprint in plan.sprints]
    if wanted is None:
        return order
    asked = [word for word in (text.strip() for text in wanted) if word]
    if not asked:
        raise RalphError(Code.USAGE, "the sprint filter is empty", suggested_action="Name sprints: 1.1,1.2a")
    faults = []
    for word in (word for word in asked if word not in order):
        code = Code.UNRESOLVED if SprintId.parse(word) else Code.PLAN_PATTERN
        faults.append(Fault(code, f"the sprint filter names {word}, which is not in the plan", plan.file))
    if faults:
        raise gathered(faults, plan.file)
    return [sprint for sprint in order if sprint in asked]


def require_valid(built: Built, chosen: Collection[str]) -> Batch:
    """The chosen beads and molecules, or every fault that concerns them. Nothing goes in past a fault.

    Poured sprints that a chosen one waits for concern it: only with them is it known which beads those are.
    """
    poured = {sprint.id.text for sprint in built.plan.sprints if sprint.is_poured}
    before = [other for sprint in chosen for other in built.edges.get(sprint, ()) if other in poured]
    if faults := concerning(built, dict.fromkeys((*chosen, *before))):
        raise gathered(faults, built.plan.file, built.warnings)
    parts: Mapping[str, AnyBead | Molecule] = {**built.beads, **built.molecules}
    return Batch({sprint: parts[sprint] for sprint in chosen})


# --- what is there already --------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredPlan:
    """The part of a plan that the store holds already: beads, and the molecules with the items below them."""

    beads: tuple[Bead, ...]
    roots: tuple[Item, ...] = ()
    items: tuple[Item, ...] = ()

    def known_to(self, setting: Setting) -> Setting:
        """The same setting, where sprints keep the ids, branches, worktrees and teams they have."""
        return replace(setting, known=by_sprint(self.beads), molecules=self._molecules())

    def _molecules(self) -> dict[str, KnownMolecule]:
        """The first molecule of each sprint; a run with an id suffix may have made more."""
        known: dict[str, KnownMolecule] = {}
        for root in self.roots:
            steps = {
                bead.metadata.step: bead
                for bead in self.beads
                if bead.metadata.molecule == root.id and bead.metadata.step
            }
            sprint = str(root.metadata.get("plan_sprint_id"))
            known.setdefault(sprint, KnownMolecule(root.id, root.metadata.get("branch"), steps))
        return known


def held(store: Store, plan: Plan, plan_file: str) -> StoredPlan:
    listing = store.find(Query(plan_file=plan_file))
    beads = (*listing.beads, *map(_as_planned, listing.unreadable))
    poured = any(sprint.is_poured for sprint in plan.sprints)
    if not poured and not any(bead.metadata.molecule for bead in beads):
        return StoredPlan(beads)
    found = store.items.find(ItemQuery(types=[MOLECULE]))
    roots = [root for root in found if root.metadata.get("plan_file") == plan_file and not root.ephemeral]
    return StoredPlan(beads, tuple(roots), tuple(_below(store, roots)))


def _as_planned(broken: UnreadableBead) -> Bead:
    """The bead without what runs keep about it: where only that is spoiled, the plan is not concerned."""
    said = broken.raw.get("metadata")
    planned = {key: said[key] for key in said.keys() - KEYS} if isinstance(said, dict) else said
    found = schema.check({**broken.raw, "metadata": planned}, "4.1a").bead
    if not isinstance(found, Bead):
        raise gathered(broken.faults, "the store")
    return found


def _below(store: Store, above: Sequence[Item]) -> list[Item]:
    """Every item under these, level by level."""
    found: list[Item] = []
    while above:
        above = store.items.find(ItemQuery(parents=[item.id for item in above]))
        found += above
    return found


def by_sprint(beads: Iterable[Bead]) -> dict[str, Bead]:
    """The first bead of each sprint that was written out; a run with an id suffix may have made more."""
    known: dict[str, Bead] = {}
    for bead in beads:
        if bead.metadata.molecule is None:
            known.setdefault(bead.metadata.plan_sprint_id, bead)
    return known


# --- into the store ---------------------------------------------------------------------------------


def load(store: Store, batch: Batch, *, check_existing: bool, progress: Progress = silent) -> Loaded:
    """Insert the batch, all of it or nothing. What exists is skipped where asked for, an error otherwise."""
    existing = _existing(store, batch) if check_existing else frozenset[str]()
    fresh = [each for each in batch.stored if each.id not in existing]
    created = set(store.create(fresh, progress) if fresh else [])
    return Loaded(
        created=tuple(each.id for each in batch.members if each.id in created),
        skipped=tuple(each.id for each in batch.members if each.id in existing),
        sprints=tuple(batch.parts),
        bead_ids=batch.ids,
        mode=batch.mode,
        molecules=tuple(part.root.id for part in batch.molecules if part.root.id in created),
    )


def _existing(store: Store, batch: Batch) -> frozenset[str]:
    """The ids that are there already; an id that another plan has taken is no such thing."""
    planned = {each.id: each for each in batch.stored}
    listing = store.find(Query(ids=list(planned)))
    faults = [
        _taken(bead.id, "bead", bead.metadata.to_json())
        for bead in listing.beads
        if isinstance(other := planned[bead.id], Item) or other.metadata.plan_file != bead.metadata.plan_file
    ]
    there = {bead.id for bead in listing.beads} | {bead.id for bead in listing.unreadable}
    if batch.molecules:
        items = store.items.find(ItemQuery(ids=list(planned)))
        faults += [
            _taken(item.id, item.issue_type, item.metadata)
            for item in items
            if not _same_item(item, planned[item.id])
        ]
        there |= {item.id for item in items}
    faults = faults or list(_halves(batch, there))
    if faults:
        raise gathered(faults, "the plan")
    return frozenset(there)


def _same_item(stored: Item, planned: Stored) -> bool:
    """A root says whose it is; what lies below one has it as its parent, or another that has."""
    if not isinstance(planned, Item) or stored.issue_type != planned.issue_type:
        return False
    keys = ("plan_file", "plan_sprint_id") if planned.issue_type == MOLECULE else ()
    same = all(stored.metadata.get(key) == planned.metadata.get(key) for key in keys)
    return same and stored.parent == planned.parent


def _halves(batch: Batch, there: Collection[str]) -> Iterator[Fault]:
    """The sprints that the store has only a part of."""
    look, then = "beads-ralph plan diff PLAN", "beads-ralph mason PLAN --update"
    action = f"See what is different with: {look}, then apply it with: {then}"
    for name, part in batch.parts.items():
        missing = [each.id for each in stored_of(part) if each.id not in there]
        if 0 < len(missing) < len(stored_of(part)):
            said = f"sprint {name} is in the store, but without {', '.join(missing)}"
            message = f"{said}: its formula or its values changed"
            yield Fault(Code.CONFLICT, message, suggested_action=action)


def _taken(identity: str, kind: str, said: Mapping[str, Any]) -> Fault:
    plan, sprint = said.get("plan_file"), said.get("plan_sprint_id")
    whose = f" of {plan}, sprint {sprint}" if plan else ""
    action = "Give the sprint a **Bead Name** of its own, or run mason with --id-suffix"
    return Fault(Code.DUPLICATE_ID, f"{identity} is a {kind}{whose}", suggested_action=action)


# --- a plan beside the store ------------------------------------------------------------------------


def with_known(built: Built, setting: Setting, held: StoredPlan) -> Built:
    """The plan compiled again, its sprints matched to the beads that the store has of it."""
    return built if held == StoredPlan(()) else build(built.plan, held.known_to(setting))


class PlanBeads:
    """A valid plan beside the store that its beads go into: what is there, and what would be."""

    def __init__(self, workspace: Workspace, path: Path, open_store: Callable[[], Store]) -> None:
        plan = read_plan(path)
        setting = plan_setting(workspace, plan)
        self._sprints = [sprint.id.text for sprint in plan.sprints]
        built = build(plan, setting)
        require_valid(built, self._sprints)  # before the store is even opened
        self._store = open_store()
        self._held = held(self._store, plan, setting.plan_file)
        self._batch = require_valid(with_known(built, setting, self._held), self._sprints)

    @property
    def beads(self) -> list[Bead]:
        """As the plan has them."""
        return [bead for bead in self._batch.beads if isinstance(bead, Bead)]

    @property
    def stored(self) -> Sequence[Bead]:
        """As the store has them, or would."""
        there = {bead.id: bead for bead in self._held.beads}
        return [there.get(bead.id, bead) for bead in self.beads]

    def insert(self, progress: Progress = silent) -> Loaded:
        """Put those into the store that it does not have yet, all of them or none."""
        return load(self._store, self._batch, check_existing=True, progress=progress)

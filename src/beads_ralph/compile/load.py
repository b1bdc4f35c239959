"""Beads into the store: everything or nothing, and a second time nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from beads_ralph.bead import schema
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import MOLECULE, SprintId
from beads_ralph.bead.run_state import KEYS
from beads_ralph.compile.base import with_base
from beads_ralph.compile.build import Built, concerning
from beads_ralph.compile.context import with_context
from beads_ralph.compile.identity import Handle, former_file, matched, without_twins
from beads_ralph.compile.molecule import Molecule
from beads_ralph.compile.setting import KnownMolecule, Setting
from beads_ralph.compile.sprints import unique
from beads_ralph.compile.taken import damaged, refuse_taken
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.plan import Plan
from beads_ralph.store.protocol import AnyBead, Progress, Store, Stored, silent
from beads_ralph.store.query import ItemQuery, Query, UnreadableBead

Mode = Literal["direct", "formula", "mixed"]


@dataclass(frozen=True)
class Batch:
    """The chosen part of a compiled plan: sprint → its bead or its molecule, in the order of the plan."""

    parts: Mapping[str, AnyBead | Molecule]
    readings: Mapping[str, str] = field(default_factory=dict)
    """Sprint → a hash of how it reads, where the plan was read from a file."""

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


def require_valid(built: Built, chosen: Collection[str], readings: Mapping[str, str] | None = None) -> Batch:
    """The chosen beads and molecules, or every fault that concerns them. Nothing goes in past a fault.

    Poured sprints that a chosen one waits for concern it: only with them is it known which beads those are.
    """
    poured = {sprint.id.text for sprint in built.plan.sprints if sprint.is_poured}
    before = [other for sprint in chosen for other in built.edges.get(sprint, ()) if other in poured]
    if faults := concerning(built, dict.fromkeys((*chosen, *before))):
        raise gathered(faults, built.plan.file, built.warnings)
    parts: Mapping[str, AnyBead | Molecule] = {**built.beads, **built.molecules}
    told = {sprint: with_context(parts[sprint], built.plan) for sprint in chosen}
    return Batch(told, readings or {})


# --- what is there already --------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredPlan:
    """The part of a plan that the store holds already: beads, and the molecules with the items below them."""

    beads: tuple[Bead, ...]
    roots: tuple[Item, ...] = ()
    items: tuple[Item, ...] = ()
    matches: Mapping[str, Handle] = field(default_factory=dict)
    """Sprint → what the store has of it."""
    moved_from: str | None = None
    """The file that the plan was when these were made."""

    def known_to(self, setting: Setting) -> Setting:
        """The same setting, where sprints keep the ids, branches, worktrees and teams they have."""
        known = {name: found.thing for name, found in self.matches.items() if isinstance(found.thing, Bead)}
        molecules = {
            name: self._molecule(found.thing)
            for name, found in self.matches.items()
            if isinstance(found.thing, Item)
        }
        taken = frozenset(found.id for found in self.matches.values())
        return replace(setting, known=known, molecules=molecules, taken=taken)

    def _molecule(self, root: Item) -> KnownMolecule:
        steps = {
            bead.metadata.step: bead
            for bead in self.beads
            if bead.metadata.molecule == root.id and bead.metadata.step
        }
        return KnownMolecule(root.id, root.metadata.get("branch"), steps)

    @property
    def ids(self) -> frozenset[str]:
        everything: tuple[Stored, ...] = (*self.beads, *self.roots, *self.items)
        return frozenset(each.id for each in everything)

    @property
    def first_ones(self) -> list[Bead]:
        """Its beads without those that a run with an id suffix has made beside them."""
        handles = _handles(self.beads, self.roots)
        twins = {handle.id for handle in handles} - {handle.id for handle in without_twins(handles)}
        return [bead for bead in self.beads if (bead.metadata.molecule or bead.id) not in twins]


def held(store: Store, plan: Plan, setting: Setting) -> StoredPlan:
    """What the store has of the plan, also where the plan's file has been moved since."""
    mine = _listed(store, Query(plan_file=setting.plan_file))
    roots = _roots(store, plan, mine, {setting.plan_file})
    matches = _matches(plan, mine, roots)
    former = None
    if len(matches) < len({sprint.id.text for sprint in plan.sprints}):
        others = [bead for bead in store.find(Query()).beads if bead.metadata.plan_file != setting.plan_file]
        left = [sprint for sprint in plan.sprints if sprint.id.text not in matches]
        former = former_file(left, _handles(others, ()), setting.has_file)
    if former is not None:
        mine = (*mine, *_listed(store, Query(plan_file=former)))
        roots = _roots(store, plan, mine, {setting.plan_file, former})
        matches = _matches(plan, mine, roots)
    return StoredPlan(mine, tuple(roots), tuple(_below(store, roots)), matches, former)


def _listed(store: Store, query: Query) -> tuple[Bead, ...]:
    listing = store.find(query)
    return (*listing.beads, *map(_as_planned, listing.unreadable))


def _roots(store: Store, plan: Plan, beads: Sequence[Bead], files: Collection[str]) -> list[Item]:
    """The roots of the plan's molecules; of a moved plan they are known by their beads."""
    below = {bead.metadata.molecule for bead in beads} - {None}
    if not below and not any(sprint.is_poured for sprint in plan.sprints):
        return []
    found = store.items.find(ItemQuery(types=[MOLECULE]))
    return [
        root
        for root in found
        if not root.ephemeral and (root.id in below or root.metadata.get("plan_file") in files)
    ]


def _handles(beads: Iterable[Bead], roots: Iterable[Item]) -> list[Handle]:
    written = (bead for bead in beads if bead.metadata.molecule is None)
    return [*map(Handle.of, written), *map(Handle.of, roots)]


def _matches(plan: Plan, beads: Iterable[Bead], roots: Iterable[Item]) -> dict[str, Handle]:
    """A sprint that is poured has a molecule, one that is written out a bead."""
    sprints = list(unique(plan.sprints))
    poured = matched([sprint for sprint in sprints if sprint.is_poured], _handles((), roots))
    return {**matched([one for one in sprints if not one.is_poured], _handles(beads, ())), **poured}


def _as_planned(broken: UnreadableBead) -> Bead:
    """The bead without what runs keep about it: where only that is spoiled, the plan is not concerned."""
    said = broken.raw.get("metadata")
    planned = {key: said[key] for key in said.keys() - KEYS} if isinstance(said, dict) else said
    found = schema.check({**broken.raw, "metadata": planned}, "4.1a").bead
    if not isinstance(found, Bead):
        raise damaged(broken.id, broken.faults)
    return found


def _below(store: Store, above: Sequence[Item]) -> list[Item]:
    """Every item under these, level by level."""
    found: list[Item] = []
    while above:
        above = store.items.find(ItemQuery(parents=[item.id for item in above]))
        found += above
    return found


# --- into the store ---------------------------------------------------------------------------------


def create(
    store: Store, fresh: Sequence[Stored], readings: Mapping[str, str], progress: Progress = silent
) -> list[str]:
    """All or none, each bead with the plan that it was made of; an id that is taken is explained."""
    if not fresh:
        return []
    beads = [with_base(each, readings.get(_sprint_of(each), "")) for each in fresh]
    try:
        return store.create(beads, progress)
    except RalphError as error:
        if error.code is Code.DUPLICATE_ID:
            refuse_taken(store, fresh)
        raise


def _sprint_of(thing: Stored) -> str:
    return "" if isinstance(thing, Item) else thing.metadata.plan_sprint_id


def load(store: Store, batch: Batch, progress: Progress = silent) -> Loaded:
    """Insert the batch, all of it or nothing; what exists is an error."""
    return loaded(batch, create(store, batch.stored, batch.readings, progress))


def loaded(batch: Batch, created: Collection[str], skipped: Collection[str] = ()) -> Loaded:
    """The result of a run of mason that has inserted these."""
    return Loaded(
        created=tuple(each.id for each in batch.members if each.id in created),
        skipped=tuple(each.id for each in batch.members if each.id in skipped),
        sprints=tuple(batch.parts),
        bead_ids=batch.ids,
        mode=batch.mode,
        molecules=tuple(part.root.id for part in batch.molecules if part.root.id in created),
    )


def missing(batch: Batch, there: Collection[str]) -> list[Stored]:
    """What the store does not have yet; a sprint that it has a part of is refused."""
    faults = list(_halves(batch, there))
    if faults:
        raise gathered(faults, "the plan")
    return [each for each in batch.stored if each.id not in there]


def _halves(batch: Batch, there: Collection[str]) -> Iterator[Fault]:
    """The sprints that the store has only a part of."""
    look, then = "beads-ralph plan diff PLAN", "beads-ralph mason PLAN --update"
    action = f"See what is different with: {look}, then apply it with: {then}"
    for name, part in batch.parts.items():
        lacking = [each.id for each in stored_of(part) if each.id not in there]
        if 0 < len(lacking) < len(stored_of(part)):
            said = f"sprint {name} is in the store, but without {', '.join(lacking)}"
            message = f"{said}: its formula or its values changed"
            yield Fault(Code.CONFLICT, message, suggested_action=action)

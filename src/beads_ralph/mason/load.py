"""Beads into the store: everything or nothing, and a second time nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.mason.build import Built
from beads_ralph.models import Bead
from beads_ralph.plan import Plan
from beads_ralph.protocols import AnyBead, Progress, Query, Store, silent
from beads_ralph.sprints import SprintId


@dataclass(frozen=True)
class Loaded:
    """What a run of mason did."""

    created: tuple[str, ...]
    skipped: tuple[str, ...]
    sprints: tuple[str, ...]
    bead_ids: Mapping[str, str]

    def to_json(self, *, annotated: bool, file_changed: bool) -> dict[str, Any]:
        """The seed's result; `beads_skipped` is there for reruns."""
        return {
            "mode": "direct",
            "beads_created": len(self.created),
            "bead_ids": list(self.created),
            "sprints_processed": list(self.sprints),
            "database_status": "inserted" if self.created else "unchanged",
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
    faults = [_unknown(plan, word) for word in asked if word not in order]
    if faults:
        raise gathered(faults, plan.file)
    return [sprint for sprint in order if sprint in asked]


def _unknown(plan: Plan, word: str) -> Fault:
    code = Code.UNRESOLVED if SprintId.parse(word) else Code.PLAN_PATTERN
    return Fault(code, f"the sprint filter names {word}, which is not in the plan", plan.file)


def require_valid(built: Built, chosen: Collection[str]) -> list[AnyBead]:
    """The chosen beads, or every fault that concerns them. Nothing is inserted past a fault."""
    own = [fault for sprint in chosen for fault in built.sprint_faults.get(sprint, ())]
    faults = sorted([*built.faults, *own], key=lambda fault: fault.line or 0)
    if faults:
        raise gathered(faults, built.plan.file, built.warnings)
    return [built.beads[sprint] for sprint in chosen]


def known_beads(store: Store, plan_file: str) -> dict[str, Bead]:
    """Sprint → bead of what the store holds from this plan already."""
    return by_sprint(stored_beads(store, plan_file))


def stored_beads(store: Store, plan_file: str) -> list[Bead]:
    listing = store.find(Query(plan_file=plan_file))
    if listing.unreadable:
        raise gathered([fault for bead in listing.unreadable for fault in bead.faults], "the store")
    return list(listing.beads)


def by_sprint(beads: Iterable[Bead]) -> dict[str, Bead]:
    """The first bead of each sprint; a run with an id suffix may have made more."""
    known: dict[str, Bead] = {}
    for bead in beads:
        known.setdefault(bead.metadata.plan_sprint_id, bead)
    return known


def load(
    store: Store,
    beads: Sequence[AnyBead],
    *,
    check_existing: bool,
    progress: Progress = silent,
) -> Loaded:
    """Insert the beads. Those that exist are skipped where asked for, an error otherwise."""
    existing = _existing(store, beads) if check_existing else frozenset[str]()
    fresh = [bead for bead in beads if bead.id not in existing]
    created = store.create(fresh, progress) if fresh else []
    return Loaded(
        created=tuple(created),
        skipped=tuple(bead.id for bead in beads if bead.id in existing),
        sprints=tuple(bead.metadata.plan_sprint_id for bead in beads),
        bead_ids={bead.metadata.plan_sprint_id: bead.id for bead in beads},
    )


def _existing(store: Store, beads: Sequence[AnyBead]) -> frozenset[str]:
    """Which of the beads are there already; an id that another plan has taken is no such bead."""
    plans = {bead.id: bead.metadata.plan_file for bead in beads}
    listing = store.find(Query(ids=list(plans)))
    taken = [bead for bead in listing.beads if bead.metadata.plan_file != plans[bead.id]]
    if taken:
        raise gathered([_taken(bead) for bead in taken], "the plan")
    return frozenset([bead.id for bead in listing.beads] + [bead.id for bead in listing.unreadable])


def _taken(bead: Bead) -> Fault:
    return Fault(
        Code.DUPLICATE_ID,
        f"{bead.id} is a bead of {bead.metadata.plan_file}, sprint {bead.metadata.plan_sprint_id}",
        suggested_action="Give the sprint a **Bead Name** of its own, or run mason with --id-suffix",
    )

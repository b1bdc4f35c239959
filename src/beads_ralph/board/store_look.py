"""What a board knows of the store: titles, the graph, statuses, and what is left for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from beads_ralph.bead import graph
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.config.workspace import RalphPlace
from beads_ralph.errors import RalphError
from beads_ralph.store import registry
from beads_ralph.store.query import Query
from beads_ralph.store.views import BeadView, ViewListing, Views, peoples

NOTHING: Final = ViewListing((), ())


@dataclass(frozen=True)
class StoreLook:
    """One look at a store; `error` says why it shows nothing."""

    kind: str = ""
    beads: Mapping[str, BeadView] = field(default_factory=dict)
    wave: Mapping[str, int] = field(default_factory=dict)
    critical: frozenset[str] = frozenset()
    waits: Sequence[Mapping[str, Any]] = ()
    """Gates and people's steps that hold beads up."""
    people: Sequence[Mapping[str, Any]] = ()
    unreadable: Sequence[tuple[str, str]] = ()
    """Id and what is wrong with it."""
    listing: ViewListing = NOTHING
    error: RalphError | None = None

    @property
    def problem(self) -> str:
        """Why it shows nothing; empty where it does."""
        return self.error.message if self.error else ""


def look(place: RalphPlace, store: StoreChoice | None = None) -> StoreLook:
    """Read all that there is; nothing is changed."""
    try:
        opened = registry.open_views(place, store)
        listing = opened.views.find(Query())
        return looked(opened.views, listing)
    except RalphError as error:
        return StoreLook(error=error)


def looked(views: Views, listing: ViewListing) -> StoreLook:
    """The same of beads that were found already."""
    edges = {bead.id: bead.dependencies for bead in listing.beads}
    waves = graph.waves(edges)
    return StoreLook(
        views.kind,
        {bead.id: bead for bead in listing.beads},
        {name: number for number, wave in enumerate(waves, 1) for name in wave},
        frozenset(graph.critical_path(edges)),
        waiting_for(views, listing.beads),
        [step.to_json() for step in peoples(views, listing, only_open=True)],
        [(broken.id, broken.faults[0].message) for broken in listing.unreadable],
        listing,
    )


def waiting_for(views: Views, beads: Sequence[BeadView]) -> list[dict[str, Any]]:
    """Gates and people's steps that hold beads up; nobody outside is asked how they stand."""
    known = {bead.id for bead in beads}
    left = [bead for bead in beads if bead.status != "closed"]
    if all(bead.parent is None and known.issuperset(bead.dependencies) for bead in left):
        return []
    from beads_ralph.loop import blockers

    store = views.store
    found = store.find(Query()).beads
    unfinished = [bead for bead in found if bead.status != "closed"]
    return [wait.to_json() for wait in blockers.overview(store, unfinished, found).survey.waits]

"""The contract of a store, and the values that cross it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from beads_ralph.bead.items import Item
from beads_ralph.bead.legacy import LegacyBead
from beads_ralph.bead.model import Bead
from beads_ralph.store.query import ItemQuery, Query, StoreInfo, UnreadableBead

AnyBead = Bead | LegacyBead


Stored = AnyBead | Item
"""Whatever a store can hold."""


Progress = Callable[[str], None]


def silent(_message: str) -> None:
    """A progress listener for those who do not listen."""


@dataclass(frozen=True)
class Listing:
    """The result of a query, in the store's order: priority first, then as created."""

    beads: tuple[Bead, ...] = ()
    unreadable: tuple[UnreadableBead, ...] = ()
    convoys: bool = False
    """True where the store holds an open convoy; known only where no ids were asked for."""
    people: bool = field(default=False, compare=False)
    """True where the store may hold steps of people, so that asking for them is worth it; known as above."""
    whole: bool = field(default=False, compare=False)
    """True where the store is known to hold no other beads than these."""


@dataclass(frozen=True)
class Poured:
    """A formula poured by the store itself: the root, and step → id."""

    root: str
    ids: Mapping[str, str]


@dataclass(frozen=True)
class Settled:
    """Containers whose status followed their members."""

    closed: tuple[str, ...] = ()
    reopened: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """The outcome of asking for a bead: `bead` where it was won, `refusal` (why not) otherwise."""

    bead: Bead | None
    refusal: str = ""
    held_by: str | None = None
    lease_expires_at: str | None = None

    @property
    def won(self) -> bool:
        return self.bead is not None


@dataclass(frozen=True)
class Changes:
    """Changes to a bead. None leaves a field as it is; metadata keys are merged, not replaced."""

    title: str | None = None
    description: str | None = None
    priority: int | None = None
    issue_type: str | None = None
    status: str | None = None
    labels: Sequence[str] | None = None
    dependencies: Sequence[str] | None = None
    external_ref: str | None = None
    metadata: Mapping[str, Any] | None = None
    expected_status: str | None = None
    """Refuse with DATABASE.CONFLICT, changing nothing, where the bead has another status by now."""

    @property
    def core(self) -> dict[str, Any]:
        """The fields that change, besides the metadata."""
        given = {key: value for key, value in vars(self).items() if value is not None}
        lists = {key: list(given[key]) for key in ("labels", "dependencies") if key in given}
        return {key: given[key] for key in given if key not in ("metadata", "expected_status")} | lists


@dataclass(frozen=True)
class Findings:
    """The results of work on a bead, kept in the very step that ends the work."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    external_ref: str | None = None

    @property
    def changes(self) -> Changes:
        return Changes(external_ref=self.external_ref, metadata=self.metadata)


NOTHING: Final = Findings()


@runtime_checkable
class Items(Protocol):
    """The items of a store, beside its beads. Ids are taken literally, as in `Store`."""

    def find(self, query: ItemQuery) -> list[Item]:
        """In the order in which they were made."""

    def close(self, item_id: str, actor: str, reason: str) -> Item:
        """A person's end of a task or a gate. Closing twice changes nothing.

        DATABASE.BEAD_NOT_FOUND for an id that is nothing or a bead (the loop closes those, with their
        proof); DATABASE.CONFLICT for a container with open members, and for what waits for something.
        """

    def track(self, convoy_id: str, ids: Sequence[str]) -> Item:
        """Let a convoy follow these beads and items too, all of them or none; a closed convoy is open
        again where one of them is not closed. DEPENDENCY.UNRESOLVED for what the store does not hold."""

    def settle(self) -> Settled:
        """Close the open molecules, epics and convoys all of whose members are closed (those without a
        member stay open), and open the closed ones that have an open member again."""

    def burn(self, ids: Sequence[str]) -> list[str]:
        """Remove wisps, beads and items, with everything below them, for good; the ids removed. All or
        none: DATABASE.BEAD_NOT_FOUND for an id that is nothing, DATABASE.CONFLICT for what is not a wisp,
        for one that is claimed, and for one that something outside of the burnt ones waits for."""

    def wisps(self) -> tuple[Listing, list[Item]]:
        """All wisps: the beads among them, and the items."""


@runtime_checkable
class Pours(Protocol):
    """A store that knows formulas itself."""

    def pour(self, formula: str, values: Mapping[str, str], *, wisp: bool, assignee: str | None) -> Poured:
        """Pour a formula of the store's own, all of it or nothing. FORMULA.POUR_FAILED where it will not."""


@runtime_checkable
class Store(Protocol):
    """Where beads live. Every id is taken literally; every method is safe among many processes."""

    kind: str
    items: Items

    def check(self) -> StoreInfo:
        """Preflight. Raises a DATABASE.* error that says what to do where the store cannot be used."""

    def create(self, batch: Sequence[Stored], progress: Progress = silent) -> list[str]:
        """Insert all or none, dependencies, parents and tracks included; the ids in the order given. New
        beads are open or blocked, and the store may fill in an owner where there is none.

        A dependency outside the batch must exist (DEPENDENCY.UNRESOLVED); an id that exists already is
        DEPENDENCY.DUPLICATE_ID; a cycle with what is stored is DEPENDENCY.CYCLE_DETECTED.
        """

    def show(self, bead_id: str) -> Bead:
        """One bead with its comments; DATABASE.BEAD_NOT_FOUND, or VALIDATION.* where it is unreadable."""

    def find(self, query: Query) -> Listing:
        """Beads by id, status, label, plan; comments need not be loaded."""

    def closed(self) -> frozenset[str]:
        """The ids of all closed beads, wisps among them. Cheap, however many there are."""

    def ready(
        self, limit: int | None = None, *, wisps: bool = False, plan_file: str | None = None
    ) -> Listing:
        """Open beads all of whose dependencies are closed: by priority, then as created. Of one plan where
        one is named.

        bd keeps whole seconds, so beads of one batch follow one another by id there.
        """

    def claim(self, bead_id: str, actor: str) -> Claim:
        """Take a ready bead: exactly one of many racing actors wins. A blocked bead is refused.

        Claiming again what one holds wins again and leaves the lease. An unreadable bead is VALIDATION.*,
        an actor without a name VALIDATION.CONSTRAINT.
        """

    def heartbeat(self, bead_id: str, actor: str) -> bool:
        """Extend the lease; False where the actor does not hold the bead (any more)."""

    def release(
        self, bead_id: str, actor: str, *, status: str = "open", reason: str = "", found: Findings = NOTHING
    ) -> None:
        """Give a claimed bead back as open or blocked, and keep what was found, or do neither.

        DATABASE.CONFLICT where another holds it, VALIDATION.* where the findings would spoil it.
        """

    def reclaim(self, older_than: timedelta) -> list[str]:
        """Reopen claims whose lease ran out at least that long ago; the ids reopened."""

    def update(self, bead_id: str, changes: Changes) -> Bead:
        """Change fields; unknown ids are DATABASE.BEAD_NOT_FOUND, cycles DEPENDENCY.CYCLE_DETECTED.

        The bead that comes back has its comments only where the store has them at hand.
        """

    def comment(self, bead_id: str, author: str, text: str) -> None:
        """Add to the bead's history."""

    def close(self, bead_id: str, actor: str, reason: str, found: Findings = NOTHING) -> Bead:
        """Close a bead that the actor holds, and keep what was found, or do neither: nobody ever sees it
        closed without its proof. Closing twice changes nothing. Comments as in `update`.

        DATABASE.CONFLICT where another holds it, or where a dependency was reopened meanwhile;
        VALIDATION.* where the findings would spoil the bead.
        """

    def snapshot(self, target: Path) -> int:
        """Write every bead as JSON lines, atomically; how many."""

"""The extension contracts, few methods each, and the plain values that cross them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from beads_ralph.errors import Fault
from beads_ralph.legacy import LegacyBead
from beads_ralph.models import Bead

AnyBead = Bead | LegacyBead
Progress = Callable[[str], None]


def silent(_message: str) -> None:
    """A progress listener for those who do not listen."""


@dataclass(frozen=True)
class StoreInfo:
    """What a preflight found."""

    kind: str
    location: str
    version: str
    warnings: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class UnreadableBead:
    """A bead of ours in the store whose content does not validate; shown, never run, never dropped."""

    id: str
    raw: Mapping[str, Any]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Listing:
    """What a query found, in the store's order: priority first, then as created."""

    beads: tuple[Bead, ...] = ()
    unreadable: tuple[UnreadableBead, ...] = ()


@dataclass(frozen=True)
class Query:
    """Which beads to list; an empty collection means any. Of several labels a bead must have all."""

    ids: Collection[str] = ()
    statuses: Collection[str] = ()
    labels: Collection[str] = ()
    plan_file: str | None = None


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
    """What to change in a bead. None leaves a field as it is; metadata keys are merged, not replaced."""

    title: str | None = None
    description: str | None = None
    priority: int | None = None
    issue_type: str | None = None
    status: str | None = None
    labels: Sequence[str] | None = None
    dependencies: Sequence[str] | None = None
    external_ref: str | None = None
    metadata: Mapping[str, Any] | None = None


@runtime_checkable
class Store(Protocol):
    """Where beads live. Every id is taken literally; every method is safe among many processes."""

    kind: str

    def check(self) -> StoreInfo:
        """Preflight. Raises a DATABASE.* error that says what to do where the store cannot be used."""

    def create(self, beads: Sequence[AnyBead], progress: Progress = silent) -> list[str]:
        """Insert all or none, dependencies included; the ids in the order given. New beads are open or
        blocked, and the store may fill in an owner where there is none.

        A dependency outside the batch must exist (DEPENDENCY.UNRESOLVED); an id that exists already is
        DEPENDENCY.DUPLICATE_ID; a cycle with what is stored is DEPENDENCY.CYCLE_DETECTED.
        """

    def show(self, bead_id: str) -> Bead:
        """One bead with its comments; DATABASE.BEAD_NOT_FOUND, or VALIDATION.* where it is unreadable."""

    def find(self, query: Query) -> Listing:
        """Beads by id, status, label, plan; comments need not be loaded."""

    def ready(self, limit: int | None = None) -> Listing:
        """Open beads all of whose dependencies are closed: by priority, then as created.

        bd keeps whole seconds, so beads of one batch follow one another by id there.
        """

    def claim(self, bead_id: str, actor: str) -> Claim:
        """Take a ready bead: exactly one of many racing actors wins. A blocked bead is refused.

        Claiming again what one holds wins again and leaves the lease. An unreadable bead is VALIDATION.*,
        an actor without a name VALIDATION.CONSTRAINT.
        """

    def heartbeat(self, bead_id: str, actor: str) -> bool:
        """Extend the lease; False where the actor does not hold the bead (any more)."""

    def release(self, bead_id: str, actor: str, *, status: str = "open", reason: str = "") -> None:
        """Give a claimed bead back as open or blocked; DATABASE.CONFLICT where another holds it."""

    def reclaim(self, older_than: timedelta) -> list[str]:
        """Reopen claims whose lease ran out at least that long ago; the ids reopened."""

    def update(self, bead_id: str, changes: Changes) -> Bead:
        """Change fields; unknown ids are DATABASE.BEAD_NOT_FOUND, cycles DEPENDENCY.CYCLE_DETECTED."""

    def comment(self, bead_id: str, author: str, text: str) -> None:
        """Add to the bead's history."""

    def close(self, bead_id: str, actor: str, reason: str) -> Bead:
        """Close a bead that the actor holds; closing twice changes nothing.

        DATABASE.CONFLICT where another holds it, or where a dependency was reopened meanwhile.
        """

    def snapshot(self, target: Path) -> int:
        """Write every bead as JSON lines, atomically; how many."""

"""What is asked of a store, and the answers that need no models."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from beads_ralph.errors import Code, Fault, RalphError


@dataclass(frozen=True)
class Query:
    """A selection of beads; an empty collection means any. Of several labels a bead must have all."""

    ids: Collection[str] = ()
    statuses: Collection[str] = ()
    labels: Collection[str] = ()
    plan_file: str | None = None
    parents: Collection[str] = ()
    """Those right below one of these."""
    wisps: bool = False
    """Include wisps; asked for by id they always are."""
    for_run: bool = False
    """Include whatever a run of these has to see. Where nothing else is asked for, these are all that are
    not closed; beside them come what they wait for, the other beads of their plans and teams, every gate with
    what it waits for, and every bead that somebody holds. A store that cannot tell them apart gives all."""


@dataclass(frozen=True)
class ItemQuery:
    """A selection of items; an empty collection means any. Wisps are among the answers."""

    ids: Collection[str] = ()
    types: Collection[str] = ()
    statuses: Collection[str] = ()
    parents: Collection[str] = ()
    wisps_only: bool = False


@dataclass(frozen=True)
class StoreInfo:
    """The result of a preflight."""

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


def no_bead(bead_id: str, kind: str) -> RalphError:
    return RalphError(
        Code.BEAD_NOT_FOUND,
        f"{bead_id} is a {kind}, not a bead of beads-ralph",
        suggested_action=f"See what it is: beads-ralph show {bead_id}",
    )


def nothing_there(bead_id: str) -> RalphError:
    return RalphError(Code.BEAD_NOT_FOUND, f"there is no bead {bead_id}")

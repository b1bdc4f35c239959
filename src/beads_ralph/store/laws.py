"""What every store promises, in one set of words: reading, batches, claims, changes of status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beads_ralph import graph, schema
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.models import ASSIGNEE, Bead
from beads_ralph.protocols import Listing, UnreadableBead

Raw = Mapping[str, Any]

# --- reading ----------------------------------------------------------------------------------------


def sound(raw: Raw, root: Path) -> Bead:
    """The bead, or an error that names every field that is wrong."""
    checked = schema.read(dict(raw), root)
    if isinstance(checked.bead, Bead):
        return checked.bead
    raise gathered(checked.faults, f"bead {raw.get('id')}")


def listing(raws: Iterable[Raw], root: Path) -> Listing:
    beads: list[Bead] = []
    unreadable: list[UnreadableBead] = []
    for raw in raws:
        checked = schema.read(dict(raw), root)
        if isinstance(checked.bead, Bead):
            beads.append(checked.bead)
        else:
            unreadable.append(UnreadableBead(str(raw.get("id")), raw, checked.faults))
    return Listing(tuple(beads), tuple(unreadable))


# --- new beads --------------------------------------------------------------------------------------


def check_batch(batch: Sequence[tuple[str, Sequence[str]]], exists: Callable[[str], bool]) -> None:
    """Every fault of (id, dependencies) pairs at once; then a cycle, which only their own edges can close."""
    counts = Counter(bead_id for bead_id, _ in batch)
    faults = [_duplicate(bead_id, count) for bead_id, count in counts.items() if count > 1 or exists(bead_id)]
    for bead_id, needs in batch:
        outside = [name for name in dict.fromkeys(needs) if name not in counts]
        faults += needs_faults(bead_id, needs, [name for name in outside if not exists(name)])
    if faults:
        raise gathered(faults, f"{len(batch)} beads")
    refuse_cycle(dict(batch))


def _duplicate(bead_id: str, count: int) -> Fault:
    where = "twice in the batch" if count > 1 else "in the store already"
    return Fault(Code.DUPLICATE_ID, f"{bead_id} is {where}", field="id")


def needs_faults(bead_id: str, needs: Sequence[str], unknown: Iterable[str]) -> list[Fault]:
    """What is wrong with a bead's dependencies, given those that nobody knows."""
    if bead_id in needs:
        return [Fault(Code.SELF_DEP, f"{bead_id} depends on itself", field="dependencies")]
    return [
        Fault(
            Code.UNRESOLVED,
            f"{bead_id} depends on {other}, which is neither in the store nor in the batch",
            field="dependencies",
        )
        for other in unknown
    ]


def refuse_cycle(edges: graph.Edges) -> None:
    path = graph.cycle(edges)
    if path:
        raise RalphError(Code.CYCLE_DETECTED, f"dependencies form a cycle: {' → '.join(path)}")


# --- claims and status ------------------------------------------------------------------------------


def check_actor(actor: str) -> None:
    """A claim must name somebody, and the pool's name holds nothing."""
    if not actor.strip() or actor == ASSIGNEE:
        raise RalphError(Code.CONSTRAINT, f"{actor!r} cannot hold a bead", suggested_action="Name a worker")


def check_release(status: str) -> None:
    if status not in ("open", "blocked"):
        raise RalphError(Code.CONSTRAINT, f"a bead is released as open or blocked, not as {status}")


def not_held(bead_id: str, status: str, holder: str | None, actor: str) -> RalphError:
    return RalphError(
        Code.CONFLICT,
        f"{bead_id} (status {status}) is held by {holder or 'nobody'}, not by {actor}",
        suggested_action=f"Claim the bead first, or read it again: beads-ralph show {bead_id}",
    )


def check_expected(bead_id: str, current: str, expected: str | None) -> None:
    if expected is not None and current != expected:
        raise RalphError(Code.CONFLICT, f"{bead_id} is {current} by now, not {expected}")


def check_status_change(bead_id: str, current: str, holder: str | None, wanted: str) -> None:
    """Anyone may open, block and reopen what nobody holds; work starts and ends by claim and close."""
    if wanted == current:
        return
    if holder is not None:
        raise RalphError(
            Code.CONFLICT,
            f"{bead_id} is claimed by {holder}, so its status cannot become {wanted}",
            suggested_action="Release the bead first",
        )
    if wanted not in ("open", "blocked") or (current == "closed" and wanted != "open"):
        raise RalphError(
            Code.CONFLICT,
            f"{bead_id} is {current} and cannot simply become {wanted}",
            suggested_action="Claim a bead to start it, close it to end it, set a closed one to open",
        )

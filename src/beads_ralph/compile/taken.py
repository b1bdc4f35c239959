"""Ids that a plan means and that something else has, and beads that cannot be read: what to say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beads_ralph.bead.items import Item
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.store.protocol import Store, Stored
from beads_ralph.store.query import ItemQuery, Query


def refuse_taken(store: Store, fresh: Sequence[Stored]) -> None:
    """Say of each id that something else has, what that is."""
    if not fresh:
        return
    planned = {each.id: each for each in fresh}
    listing = store.find(Query(ids=list(planned)))
    faults = [_damaged_fault(broken.id, broken.faults) for broken in listing.unreadable]
    faults += [
        _taken(bead.id, "bead", bead.metadata.to_json())
        for bead in listing.beads
        if _plan_of(planned[bead.id]) != bead.metadata.plan_file
    ]
    for item in store.items.find(ItemQuery(ids=list(planned))):
        wanted = planned[item.id]
        retyped = not isinstance(wanted, Item) and item.metadata.get("plan_file") == _plan_of(wanted)
        faults.append(
            _retyped(item, wanted.issue_type) if retyped else _taken(item.id, item.issue_type, item.metadata)
        )
    if faults:
        raise gathered(faults, "the plan")


def _plan_of(thing: Stored) -> Any:
    return thing.metadata.get("plan_file") if isinstance(thing, Item) else thing.metadata.plan_file


def _retyped(item: Item, kind: str) -> Fault:
    """Somebody has made a task of it in bd."""
    sprint = item.metadata.get("plan_sprint_id")
    said = f"{item.id} of sprint {sprint} is a {item.issue_type} now: somebody has changed its type"
    back = f"Give it back to the agents: bd update {item.id} --type {kind}"
    person = "or, if a person does it, strike the sprint out in the plan"
    message = f"{said}, and agents work on beads only"
    return Fault(Code.CONFLICT, message, field="issue_type", suggested_action=f"{back}; {person}")


def _damaged_fault(bead_id: str, faults: Sequence[Fault]) -> Fault:
    first = faults[0]
    where = f"{first.field}: " if first.field else ""
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    message = f"{bead_id} in the store cannot be read: {where}{first.message}{more}"
    action = f"See it: beads-ralph show {bead_id} --json; then fix that field where the bead is stored"
    return Fault(first.code, message, field=first.field, suggested_action=action)


def damaged(bead_id: str, faults: Sequence[Fault]) -> RalphError:
    return gathered([_damaged_fault(bead_id, faults)], "the store")


def _taken(identity: str, kind: str, said: Mapping[str, Any]) -> Fault:
    plan, sprint = said.get("plan_file"), said.get("plan_sprint_id")
    whose = f" of {plan}, sprint {sprint}" if plan else ""
    action = "Give the sprint a **Bead Name** of its own, or run mason with --id-suffix"
    return Fault(Code.DUPLICATE_ID, f"{identity} is a {kind}{whose}", suggested_action=action)

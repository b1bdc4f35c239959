"""list: the beads in the store, and the steps that are for people."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from beads_ralph.cli import listing, options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import Option
from beads_ralph.config import workspace
from beads_ralph.store import registry
from beads_ralph.store.query import Query
from beads_ralph.store.views import peoples

NO_BEADS: Final = "no beads yet; compile a plan: beads-ralph mason PLAN"


class Status(StrEnum):
    """What --status takes; an enumeration, since the parser takes no list of literals."""

    OPEN = "open"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    CLOSED = "closed"


def list_beads(
    status: Annotated[
        list[Status] | None,
        Option("--status", help="Only this status; repeatable."),
    ] = None,
    label: Annotated[
        list[str] | None,
        Option("--label", help="Only with this label; repeatable."),
    ] = None,
    plan: Annotated[Path | None, Option("--plan", help="Only of this plan.")] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """List the beads in the store, and the steps that are for people."""
    place = workspace.place()
    opened = registry.open_views(place, store)
    plan_file = place.relative(plan) if plan else None
    found = opened.views.find(Query(statuses=status or (), labels=label or (), plan_file=plan_file))
    people = [
        step
        for step in peoples(opened.views, found, plan_file=plan_file)
        if (not status or step.item.status in status) and set(step.item.labels) >= set(label or ())
    ]
    asked = [f"--status {one.value}" for one in status or ()] + [f"--label {one}" for one in label or ()]
    asked += [f"--plan {plan}"] if plan else []
    nothing = f"no bead fits {' '.join(asked)}; all of them: beads-ralph list"
    return listing.answer(found, people, opened, nothing if asked else NO_BEADS)

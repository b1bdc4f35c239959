"""ready: the beads that can start now, and the steps that a person can do now."""

from __future__ import annotations

from typing import Annotated

from beads_ralph.cli import listing, options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import Option
from beads_ralph.config import workspace
from beads_ralph.store import registry
from beads_ralph.store.views import peoples


def ready(
    limit: Annotated[int | None, Option("--limit", min=1, help="At most this many of each.")] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """List the beads that can start now, and the steps that a person can do now."""
    opened = registry.open_views(workspace.place(), store)
    found = opened.views.ready(limit)
    people = [step for step in peoples(opened.views, found, only_open=True) if step.can_be_done]
    return listing.answer(found, people[:limit], opened, "nothing is ready")

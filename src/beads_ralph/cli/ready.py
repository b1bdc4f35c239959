"""ready: the beads that can start now."""

from __future__ import annotations

from typing import Annotated

from beads_ralph.cli import listing, options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import Option
from beads_ralph.config import workspace
from beads_ralph.store import registry


def ready(
    limit: Annotated[int | None, Option("--limit", min=1, help="At most this many.")] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """List the beads that can start now: open, with every dependency closed."""
    opened = registry.open_views(workspace.place(), store)
    return listing.answer(opened.views.ready(limit), opened, "nothing is ready")

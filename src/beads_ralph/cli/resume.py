"""resume: let a paused loop go on."""

from __future__ import annotations

from beads_ralph.cli import options, orders
from beads_ralph.cli.answer import Answer


def resume(json_: options.Json = False) -> Answer:
    """Let a paused loop go on."""
    return orders.give(None, "the loop goes on")

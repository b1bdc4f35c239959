"""pause: let the running loop start nothing more."""

from __future__ import annotations

from beads_ralph.cli import options, orders
from beads_ralph.cli.answer import Answer


def pause(json_: options.Json = False) -> Answer:
    """Let the running loop start nothing more until it is resumed; what runs goes on."""
    return orders.give("pause", "the loop starts nothing more until: beads-ralph resume")

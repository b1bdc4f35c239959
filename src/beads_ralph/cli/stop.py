"""stop: let the running loop finish what runs, and end."""

from __future__ import annotations

from beads_ralph.cli import options, orders
from beads_ralph.cli.answer import Answer


def stop(json_: options.Json = False) -> Answer:
    """Let the running loop finish what runs, and end."""
    return orders.give("stop", "the loop ends when what runs has finished")

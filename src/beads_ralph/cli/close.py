"""close, accept: end a person's step; take a bead as done on a person's word."""

from __future__ import annotations

from typing import Annotated

import typer

from beads_ralph.board import actions
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.orders import acted
from beads_ralph.config import workspace


def close(
    item: Annotated[str, typer.Argument(metavar="ID", help="A task, an epic or a gate.")],
    reason: options.Reason = "",
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """End a person's step: a task that is done, a gate that may be passed. Beads are closed by a run."""
    return acted(actions.close(workspace.find(), item, reason, store))


def accept(
    bead: options.BeadId,
    reason: options.Reason,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Accept as done a bead that no run has proven; it is shown as accepted, by whom and why."""
    return acted(actions.accept(workspace.find(), bead, reason, store))

"""retry, release: open a bead again that is blocked, that cannot be read, or that a dead run holds."""

from __future__ import annotations

from typing import Annotated

import typer

from beads_ralph.board import actions
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.orders import acted
from beads_ralph.config import workspace


def retry(
    bead: options.BeadId,
    again: Annotated[bool, typer.Option("--again", help="Also one that is closed with its proof.")] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Open a blocked bead again, or one closed without a proof; heal one that cannot be read."""
    return acted(actions.retry(workspace.find(), bead, again=again, choice=store))


def release(bead: options.BeadId, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Give a bead back that a run holds which is no more."""
    return acted(actions.release(workspace.find(), bead, store))

"""retry, release: open a bead again that is blocked, that cannot be read, or that a dead run holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.board import actions
from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer
from beads_ralph.cli.commands import Argument
from beads_ralph.cli.orders import acted
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.store import registry
from beads_ralph.store.query import Query

if TYPE_CHECKING:
    from beads_ralph.config.settings_file import StoreChoice
    from beads_ralph.config.workspace import Workspace


def retry(
    bead: Annotated[str | None, Argument(help=options.BEAD, autocompletion=options.bead_ids)] = None,
    *,
    again: Annotated[bool, typer.Option("--again", help="Also one that is closed with its proof.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Every bead that is blocked.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every bead that is blocked or cannot be read.")
    ] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Open a blocked bead again, or one closed without a proof; repair one that cannot be read."""
    space = workspace.find()
    if (bead is None) != (failed or every) or (again and bead is None):
        raise RalphError(Code.USAGE, "name one bead, or say --failed or --all")
    if bead is not None:
        return acted(actions.retry(space, bead, again=again, choice=store))
    return _retry_many(space, store, unreadable=every)


def _retry_many(space: Workspace, store: StoreChoice | None, *, unreadable: bool) -> Answer:
    """Each by itself: one that cannot be opened again keeps no other from it."""
    found = registry.open_store(space, store).store.find(Query(wisps=True))
    blocked = [bead.id for bead in found.beads if bead.status == "blocked"]
    broken = [bead.id for bead in found.unreadable] if unreadable else []
    done, problems = [], []
    for name in (*blocked, *broken):
        try:
            done.append(actions.retry(space, name, again=False, choice=store))
        except RalphError as problem:
            problems.append(Fault(problem.code, f"{name}: {problem.message}"))
    told = [line for one in done for line in one.lines] or ["nothing was opened again"]
    data = {"beads": [one.data["bead"] for one in done]}
    return Answer(data, lines(*told), problems, exit_code=FAILED if problems else OK)


def release(bead: options.BeadId, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Release a bead held by a run that died."""
    return acted(actions.release(workspace.find(), bead, store))

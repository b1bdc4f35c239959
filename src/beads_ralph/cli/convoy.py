"""convoy create, add, show, list: a set of beads across plans, followed until all of it is closed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import escape
from beads_ralph.config import workspace
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.store import convoys, registry
from beads_ralph.store.convoys import Member, Progress, Settlement, settle
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import ItemQuery, Query
from beads_ralph.store.registry import OpenStore

if TYPE_CHECKING:
    from rich.console import Console

MARKS = {
    "open": "[cyan]○[/cyan]",
    "in_progress": "[yellow]▶[/yellow]",
    "blocked": "[red]✗[/red]",
    "missing": "[red]✗[/red]",
    "closed": "[green]✓[/green]",
}

Followed = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Beads, molecules, tasks, gates.")]
Plans = Annotated[
    list[Path] | None, typer.Option("--plan", help="All beads of this plan; repeatable.", readable=False)
]
Named = Annotated[str, typer.Argument(metavar="CONVOY", help="The convoy's id, or its name.")]


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    ids: Followed = None,
    plan: Plans = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Make a convoy that follows these beads."""
    space, opened = _opened(store)
    made = convoys.create(opened.store, name, [*(ids or ()), *_of_plans(space, opened.store, plan)])
    return _shown(opened, made.id)


def add(
    convoy: Named,
    ids: Followed = None,
    plan: Plans = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Add to a convoy; a closed one opens again if any of them is not closed."""
    space, opened = _opened(store)
    wanted = [*(ids or ()), *_of_plans(space, opened.store, plan)]
    if not wanted:
        raise RalphError(Code.USAGE, "nothing to add", suggested_action="Name beads, or a plan with --plan")
    found = convoys.add(opened.store, convoys.named(opened.store, convoy), wanted)
    return _shown(opened, found.id)


def show(convoy: Named, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Show what a convoy follows, how far each is, and what holds it up."""
    _, opened = _opened(store)
    return _shown(opened, convoys.named(opened.store, convoy).id)


def list_convoys(
    all_: Annotated[bool, typer.Option("--all", help="Closed ones too.")] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """List the convoys that are not closed, each with how far it is."""
    _, opened = _opened(store)
    settled = settle(opened.store)
    wanted = [item for item in convoys.every(opened.store) if all_ or item.status != "closed"]
    rows = convoys.progress(opened.store, wanted)
    data = {
        "convoys": [row.to_json() for row in rows],
        "settled": settled.to_json(),
        "store": opened.store.kind,
    }
    return Answer(data, lambda console: _show_all(console, rows, settled), opened.warnings)


# --- what is followed -------------------------------------------------------------------------------


def _opened(choice: StoreChoice | None) -> tuple[Workspace, OpenStore]:
    space = workspace.find()
    return space, registry.open_store(space, choice)


def _of_plans(space: Workspace, store: Store, plans: Sequence[Path] | None) -> list[str]:
    """The beads of the plans; what was poured for a sprint as the molecule that it is."""
    ids: list[str] = []
    for path in plans or ():
        beads = store.find(Query(plan_file=space.relative(path))).beads
        if not beads:
            action = f"Compile it first: beads-ralph mason {path}"
            raise RalphError(Code.UNRESOLVED, f"no bead of {path} is in the store", suggested_action=action)
        ids += [bead.metadata.molecule or bead.id for bead in beads]
    return ids


# --- answers ----------------------------------------------------------------------------------------


def _shown(opened: OpenStore, convoy_id: str) -> Answer:
    """The convoy as it is after everything has settled."""
    settled = settle(opened.store)
    (progress,) = convoys.progress(opened.store, opened.store.items.find(ItemQuery(ids=[convoy_id])))
    data: dict[str, Any] = {
        "convoy": progress.to_json() | {"members": [member.to_json() for member in progress.members]},
        "settled": settled.to_json(),
        "store": opened.store.kind,
    }
    return Answer(data, lambda console: _show_one(console, progress, settled), opened.warnings)


def _show_one(console: Console, progress: Progress, settled: Settlement) -> None:
    for member in progress.members:
        console.print(f"{MARKS[member.status]} {member.id}  {escape(_about(member))}")
    if not progress.members:
        console.print(f"it follows nothing yet; beads-ralph convoy add {progress.convoy.id} ID…")
    own = str(progress)
    for line in settled.lines:
        if own not in line:
            console.print(escape(line))
    mark = MARKS[progress.convoy.status]
    console.print(f"{mark} [bold]{escape(own)}[/bold]  [dim]{progress.convoy.id}[/dim]")


def _about(member: Member) -> str:
    waits = f"waits for {', '.join(member.waits_for)}" if member.waits_for else ""
    blocked = f"is blocked: {member.reason.splitlines()[0]}" if member.reason else "is blocked"
    why = {"missing": "is not in the store", "blocked": blocked}.get(member.status, waits)
    return f"{member.title}  {why}".rstrip()


def _show_all(console: Console, rows: Sequence[Progress], settled: Settlement) -> None:
    for line in settled.lines:
        console.print(escape(line))
    for row in rows:
        stuck = f"  [red]{len(row.blocked)} blocked[/red]" if row.blocked else ""
        name = escape(str(row))
        console.print(f"{MARKS[row.convoy.status]} {name}{stuck}  [dim]{row.convoy.id}[/dim]")
    if not rows:
        console.print("no convoys here; make one: beads-ralph convoy create NAME ID…")

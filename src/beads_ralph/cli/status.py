"""status: what is at work, done and blocked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import utc_text
from beads_ralph.cli import executions, options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.board import stage_of
from beads_ralph.cli.run_status import at_work, elapsed, lent, parallel, unavailable
from beads_ralph.cli.style import current_style
from beads_ralph.config import workspace
from beads_ralph.config.store_settings import StoreChoice
from beads_ralph.journal import journal, runs
from beads_ralph.store import registry
from beads_ralph.store.protocol import Query, Store

if TYPE_CHECKING:
    from rich.console import Console

REFRESH_SECONDS = 1.0


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second.")] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Show what is at work, what is done and what is blocked."""
    while watch and current_style() == "text" and executions.is_anything_running(workspace.find()):
        _show_status(_console(), _status(store))
        time.sleep(REFRESH_SECONDS)
    found = _status(store)
    return Answer(found, lambda console: _show_status(console, found))


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    console.clear()
    return console


def _status(store: StoreChoice | None) -> dict[str, Any]:
    space = workspace.find()
    home = space.home
    opened = registry.open_store(space, store)
    listing = opened.store.find(Query())
    folder = runs.latest(home)
    told = list(journal.read(folder.journal)) if folder else []
    running = runs.is_running(home)
    return {
        "running": running,
        "run_id": folder.run_id if folder else None,
        "order": runs.ordered(home),
        "counts": dict(Counter(bead.status for bead in listing.beads)),
        "at_work": at_work(told) if running else [],
        "parallel": parallel(told) if running else None,
        "unavailable": unavailable(told, utc_text(datetime.now(UTC))) if running else [],
        "parked": [
            {"id": bead.id, **parked} for bead in listing.beads if (parked := _parked(bead)) is not None
        ],
        "blocked": [
            {"id": bead.id, "reason": _reason(bead)} for bead in listing.beads if bead.status == "blocked"
        ],
        "unreadable": [
            {"id": broken.id, "faults": [fault.to_json() for fault in broken.faults]}
            for broken in listing.unreadable
        ],
        "waiting_for": _waiting_for(opened.store, listing.beads),
        "executions": executions.rows(executions.homes(space)),
        "store": opened.store.kind,
    }


def _waiting_for(store: Store, beads: Sequence[Bead]) -> list[dict[str, Any]]:
    """Gates and people's steps that hold beads up; nobody outside is asked how they stand."""
    known = {bead.id for bead in beads}
    left = [bead for bead in beads if bead.status != "closed"]
    if all(bead.parent is None and known.issuperset(bead.dependencies) for bead in left):
        return []
    from beads_ralph.loop import blockers

    return [wait.to_json() for wait in blockers.overview(store, left, beads).survey.waits]


def _parked(bead: Bead) -> dict[str, Any] | None:
    parked = bead.metadata.parked
    return {"until": parked.until, "reason": parked.reason} if parked else None


def _reason(bead: Bead) -> str | None:
    result = bead.metadata.scrum_result
    return result.error if result else None


def _show_status(console: Console, found: dict[str, Any]) -> None:
    from rich.markup import escape

    state = "[green]running[/green]" if found["running"] else "[dim]not running[/dim]"
    word = f", told to {found['order']}" if found["order"] else ""
    console.print(f"{state}{word}  [dim]{found['run_id'] or 'no run yet'}[/dim]")
    counts = found["counts"]
    console.print(
        "  ".join(f"{counts.get(name, 0)} {name}" for name in ("open", "in_progress", "blocked", "closed"))
    )
    width = found["parallel"]
    if width and width["now"] != width["most"]:
        console.print(f"  ! {width['now']} of {width['most']} beads at once, while a limit lasts")
    for row in found["unavailable"]:
        console.print(f"  ! {escape(row['reason'] or '')}; not asked before {row['until']}")
    for row in found["at_work"]:
        doing = stage_of(row["stage"], row.get("role"), row.get("agent")) or row["stage"]
        told = f"attempt {row['attempt']}  {escape(doing)}  {elapsed(row['since'])}"
        console.print(f"  ▶ {row['bead']}  {told}")
        if row.get("lease"):
            console.print(f"    [dim]{escape(lent(row['lease']))}[/dim]")
    for row in found["parked"]:
        console.print(f"  … {row['id']}  {escape(row['reason'] or '')}, resumes {row['until']}")
    for row in found["waiting_for"]:
        told = f"{row['title']}: {row['reason']}; holds up {', '.join(row['beads'])}"
        console.print(f"  … {row['id']}  {escape(told)}")
        if row["command"]:
            console.print(f"    → {row['command']}")
    for row in found["blocked"]:
        console.print(f"  [red]✗[/red] {row['id']}  {escape((row['reason'] or '').split(chr(10))[0])}")
    for row in found["unreadable"]:
        console.print(
            f"  [red]![/red] {escape(row['id'])} cannot be read: {escape(row['faults'][0]['message'])}"
        )
        console.print(f"    → beads-ralph retry {row['id']}")
    executions.show(console, found["executions"])

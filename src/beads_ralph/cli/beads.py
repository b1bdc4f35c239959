"""list, show, ready: what the store holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph import workspace
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.models import Bead
from beads_ralph.protocols import Listing, Query
from beads_ralph.workspace import OpenStore

if TYPE_CHECKING:
    from rich.console import Console


class Status(StrEnum):
    """What --status takes; an enumeration, since the parser takes no list of literals."""

    OPEN = "open"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    CLOSED = "closed"


COLOURS = {"open": "cyan", "in_progress": "yellow", "blocked": "red", "closed": "green"}
MARKS = {"open": "○", "in_progress": "▶", "blocked": "✗", "closed": "✓"}


def list_beads(
    status: Annotated[
        list[Status] | None,
        typer.Option("--status", help="Only this status; repeatable.", show_default=False),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="Only with this label; repeatable.", show_default=False),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Only of this plan.", show_default=False)
    ] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """List the beads in the store."""
    space = workspace.find()
    opened = workspace.open_store(space, store)
    plan_file = space.relative(plan) if plan else None
    found = opened.store.find(Query(statuses=status or (), labels=label or (), plan_file=plan_file))
    return _listing_answer(found, opened, "no beads yet; compile a plan: beads-ralph mason PLAN")


def ready(
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="At most this many.", show_default=False)
    ] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """List the beads that can start now: open, with every dependency closed."""
    opened = workspace.open_store(workspace.find(), store)
    return _listing_answer(opened.store.ready(limit), opened, "nothing is ready")


def show(
    ids: Annotated[list[str], typer.Argument(metavar="BEAD…", help="Bead ids, in full.", show_default=False)],
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Show beads in full."""
    opened = workspace.open_store(workspace.find(), store)
    beads = [opened.store.show(bead_id) for bead_id in ids]
    data = {"beads": [bead.to_json() for bead in beads], "store": opened.store.kind}
    return Answer(data, lambda console: _show_beads(console, beads), opened.warnings)


def _listing_answer(found: Listing, opened: OpenStore, nothing: str) -> Answer:
    data: dict[str, Any] = {
        "beads": [bead.to_json() for bead in found.beads],
        "store": opened.store.kind,
        "unreadable": [
            {"id": bead.id, "faults": [fault.to_json() for fault in bead.faults]} for bead in found.unreadable
        ],
    }
    return Answer(data, lambda console: _show_listing(console, found, opened, nothing), opened.warnings)


def _show_listing(console: Console, found: Listing, opened: OpenStore, nothing: str) -> None:
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "bead", "sprint", "P"):
        table.add_column(heading, no_wrap=True)
    table.add_column("title", overflow="fold")
    for bead in found.beads:
        mark = Text(MARKS[bead.status], style=COLOURS[bead.status])
        table.add_row(mark, bead.id, bead.metadata.sprint, str(bead.priority), Text(bead.title))
    if found.beads:
        console.print(table)
    else:
        console.print(nothing)
    for broken in found.unreadable:
        console.print(f"[red]![/red] {escape(f'{broken.id} cannot be read: {broken.faults[0].message}')}")
    console.print(f"[dim]{opened.why}[/dim]")


def _show_beads(console: Console, beads: Sequence[Bead]) -> None:
    from rich.markup import escape

    for bead in beads:
        place = bead.metadata
        console.print(
            f"[bold]{bead.id}[/bold]  {escape(bead.title)}  [{COLOURS[bead.status]}]{bead.status}[/]"
        )
        rows = (
            ("sprint", f"{place.sprint} of {place.plan_file}"),
            ("team", place.team_name),
            ("branch", f"{place.branch} (from {place.source_branch})"),
            ("worktree", place.worktree_path),
            ("waits for", ", ".join(bead.dependencies) or "nothing"),
            ("labels", ", ".join(bead.labels)),
            ("agents", ", ".join(spec.agent for spec in (*place.dev_agents, *place.qa_agents))),
            ("attempts", f"{place.attempt_count} of {place.max_retry_attempts}"),
            ("pull request", place.pr_url or "none"),
        )
        for name, value in rows:
            console.print(f"  [dim]{name:<13}[/dim]{escape(value)}")
        for prompt in place.dev_prompts:
            console.print(f"  • {escape(prompt)}")
        for comment in bead.comments:
            said = comment if isinstance(comment, str) else json.dumps(comment, ensure_ascii=False)
            console.print(f"  [dim]“{escape(said)}”[/dim]")

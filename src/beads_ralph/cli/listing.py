"""Beads as a list: what list and ready answer, and the marks of a status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beads_ralph.cli.answer import Answer
from beads_ralph.store.protocol import Listing
from beads_ralph.store.registry import OpenStore

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = {"open": "cyan", "in_progress": "yellow", "blocked": "red", "closed": "green"}
MARKS = {"open": "○", "in_progress": "▶", "blocked": "✗", "closed": "✓"}


def answer(found: Listing, opened: OpenStore, nothing: str) -> Answer:
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

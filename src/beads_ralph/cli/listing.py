"""Beads as a list: what list and ready answer, and the marks of a status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beads_ralph.bead.standing import PROVEN
from beads_ralph.bead.words import plural
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.page import Line, Table, line
from beads_ralph.store.registry import OpenViews
from beads_ralph.store.views import BeadView, ViewListing

COLOURS = {"open": "cyan", "in_progress": "yellow", "blocked": "red", "closed": "green"}
MARKS = {"open": "○", "in_progress": "▶", "blocked": "✗", "closed": "✓"}


def answer(found: ViewListing, opened: OpenViews, nothing: str) -> Answer:
    data: dict[str, Any] = {
        "beads": [bead.told() for bead in found.beads],
        "store": opened.views.kind,
        "unreadable": [
            {"id": bead.id, "faults": [fault.to_json() for fault in bead.faults]} for bead in found.unreadable
        ],
    }
    return Answer(data, page=lambda: _page(found, opened, nothing), warnings=opened.warnings)


def _page(found: ViewListing, opened: OpenViews, nothing: str) -> Iterator[Line | Table]:
    if found.beads:
        yield Table(("", "bead", "sprint", "P", "title"), [_row(bead) for bead in found.beads])
    else:
        yield line(nothing)
    for broken in found.unreadable:
        yield line(("!", "red"), f" {broken.id} cannot be read: {broken.faults[0].message}")
    yield line((opened.why, "dim"))


def _row(bead: BeadView) -> tuple[str | tuple[str, str], ...]:
    mark = (MARKS[bead.status], COLOURS[bead.status])
    words = [] if bead.standing in (None, PROVEN) else [str(bead.standing)]
    words += [plural(len(bead.flags), "flag")] if bead.flags else []
    marked = f"{bead.title}  ({', '.join(words)})" if words else bead.title
    return mark, bead.id, bead.metadata["sprint"], str(bead.priority), marked

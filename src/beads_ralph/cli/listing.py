"""Beads and people's steps as a list: what list and ready answer, and the marks of a status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from beads_ralph.bead.standing import PROVEN
from beads_ralph.bead.words import plural
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.page import Line, Table, line
from beads_ralph.store.registry import OpenViews
from beads_ralph.store.views import BeadView, ViewListing

if TYPE_CHECKING:
    from beads_ralph.store.people import PersonsItem

COLOURS = {"open": "cyan", "in_progress": "yellow", "blocked": "red", "closed": "green"}
MARKS = {"open": "○", "in_progress": "▶", "blocked": "✗", "closed": "✓"}


def answer(found: ViewListing, people: Sequence[PersonsItem], opened: OpenViews, nothing: str) -> Answer:
    data: dict[str, Any] = {
        "beads": [bead.told() for bead in found.beads],
        "people": [step.to_json() for step in people],
        "store": opened.views.kind,
        "unreadable": [
            {"id": bead.id, "faults": [fault.to_json() for fault in bead.faults]} for bead in found.unreadable
        ],
    }
    return Answer(data, page=lambda: _page(found, people, opened, nothing), warnings=opened.warnings)


def _page(
    found: ViewListing, people: Sequence[PersonsItem], opened: OpenViews, nothing: str
) -> Iterator[Line | Table]:
    if found.beads:
        yield Table(("", "bead", "sprint", "P", "title"), [_row(bead) for bead in found.beads])
    elif not people:
        yield line(nothing)
    if people:
        yield Table(("", "for people", "type", "P", "title"), [_persons_row(step) for step in people])
    if doable := [step for step in people if step.command]:
        yield line(f"→ when it is done: {doable[0].command}")
    for broken in found.unreadable:
        yield line(("!", "red"), f" {broken.id} cannot be read: {broken.faults[0].message}")
    yield line((opened.why, "dim"))


def _row(bead: BeadView) -> tuple[str | tuple[str, str], ...]:
    mark = (MARKS[bead.status], COLOURS[bead.status])
    words = [] if bead.standing in (None, PROVEN) else [str(bead.standing)]
    words += [plural(len(bead.flags), "flag")] if bead.flags else []
    marked = f"{bead.title}  ({', '.join(words)})" if words else bead.title
    return mark, bead.id, bead.metadata["sprint"], str(bead.priority), marked


def _persons_row(step: PersonsItem) -> tuple[str | tuple[str, str], ...]:
    item = step.item
    mark = (MARKS[item.status], COLOURS[item.status])
    words = [item.assignee] if item.assignee else []
    words += [f"waits for {', '.join(step.waits_for)}"] if step.waits_for else []
    marked = f"{item.title}  ({', '.join(words)})" if words else item.title
    return mark, item.id, item.issue_type, str(item.priority), marked

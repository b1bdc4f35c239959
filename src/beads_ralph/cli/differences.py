"""A plan beside the store, for people: what differs, and the question where both were changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import plural
from beads_ralph.cli import questions
from beads_ralph.cli.answer import speaker
from beads_ralph.cli.style import can_ask
from beads_ralph.cli.text import escape
from beads_ralph.compile import diff as plandiff
from beads_ralph.compile.diff import Change, Choice, Diff, Fields

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.store.protocol import Progress

MAX_SHOWN: Final = 100
COLOURS: Final = {"+": "green", "~": "yellow", "-": "red", "=": "dim", "!": "bold yellow", "≠": "bold red"}


def show(console: Console, found: Diff) -> None:
    """Every difference, in colour."""
    for mark, text in _rows(found):
        colour = COLOURS.get(mark)
        console.print(f"[{colour}]{mark} {escape(text)}[/{colour}]" if colour else f"    {escape(text)}")
    if found.empty:
        console.print("✓ the store agrees with the plan")


def tell(found: Diff, say: Progress) -> None:
    """The same before a run, without what the run itself inserts for the first time."""
    if not found.is_first:
        for mark, text in _rows(found):
            say(f"{mark} {text}" if mark else f"    {text}")


def _rows(found: Diff) -> Iterator[tuple[str, str]]:
    """A mark and a line; lines without a mark say more about the one before."""
    if found.moved_from:
        yield "!", f"the plan was {found.moved_from}: its beads go with it"
    for bead in found.added:
        yield "+", f"{bead.id}  {bead.metadata.plan_sprint_id}  {bead.title}"
    for change in found.changed:
        if not change.reads_differently:
            yield "~", f"{change.bead.id}  {change.planned.metadata.plan_sprint_id}{_left_alone(change.bead)}"
            yield from (("", line) for line in _field_lines(change.fields))
    for bead in found.orphaned:
        place = bead.metadata.plan_sprint_id
        yield "-", f"{bead.id}  {place}  {bead.title}{_left_alone(bead)}"
    for item in found.items.added:
        yield "+", f"{item.id}  {item.issue_type}  {item.title}"
    for change in found.kept:
        yield "=", f"{change.bead.id} was changed in the store; that stays"
        yield from (("", line) for line in _field_lines(change.kept))
    for change in found.conflicts:
        yield "≠", f"{change.bead.id} was changed in the plan and in the store"
        yield from (("", line) for line in _field_lines(change.conflicts))
    for warning in (*found.warnings(), *found.items.warnings()):
        yield "!", warning.message
        yield "", f"→ {warning.remedy}"


def _left_alone(bead: Bead) -> str:
    return f"  ({bead.status}: left alone)" if plandiff.is_locked(bead) else ""


def _field_lines(fields: Fields) -> Iterator[str]:
    for name, (old, new) in fields.items():
        before, after = _around_difference(old, new)
        yield f"{name}: {before} → {after}"


def _around_difference(old: Any, new: Any) -> tuple[str, str]:
    """Both values as text; long ones only from where they begin to differ."""
    before, after = (json.dumps(value, ensure_ascii=False) for value in (old, new))
    same = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    start = max(0, same - MAX_SHOWN // 4) if max(len(before), len(after)) > MAX_SHOWN else 0
    return _window(before, start), _window(after, start)


def _window(text: str, start: int) -> str:
    end = start + MAX_SHOWN
    return ("…" if start else "") + text[start:end] + ("…" if len(text) > end else "")


# --- both were changed ------------------------------------------------------------------------------


def asked(found: Diff) -> Diff:
    """Ask a person whose value counts; where nobody is there to be asked, refuse with both."""
    if not found.conflicts:
        return found
    if not can_ask():
        return plandiff.refuse_conflicts(found)
    count = sum(len(change.conflicts) for change in found.conflicts)
    speaker("text")(f"{plural(count, 'field')} changed both in the plan and in the store:")
    return found.settled(_ask)


def _ask(change: Change, name: str) -> Choice:
    stored, planned = change.conflicts[name]
    say = speaker("text")
    say(f"{change.bead.id}  {name.removeprefix('metadata.')}")
    theirs, ours = _around_difference(stored, planned)
    say(f"  plan:  {ours}")
    say(f"  store: {theirs}")
    while True:
        word = questions.asked("Which one wins? plan or store").lower()
        if word and "plan".startswith(word):
            return "plan"
        if word and "store".startswith(word):
            return "store"

"""How a plan's text marks what has become of its sprints: **Status**, ticked boxes, headings struck out.

Marks are for people. Nothing is compiled from them; `mason --adopt` takes them as a person's word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from beads_ralph.plan.model import At, Plan, Sprint
from beads_ralph.plan.parse import ANNOTATION_LINE, FINISHED, LINE, insert_line, parse

CLOSED: Final = "✔ closed"
BOX: Final = re.compile(r"^(\s*(?:[-*+]|\d+[.)])\s+)\[([ xX])\](\s+)")
STATUS: Final = re.compile(r"^(\s*[*_]{1,2}Status:?[*_]{1,2}(?:[ \t]*:)?)[ \t]*([^\r\n]*)", re.IGNORECASE)
OURS: Final = re.compile(rf"(?:{CLOSED}|in progress|blocked|open)\b")


@dataclass(frozen=True)
class Mark:
    """What a plan should say of a sprint."""

    words: str
    closed: bool = False
    quiet: bool = False
    """True where a sprint that says nothing yet may go on saying nothing."""


# --- reading ------------------------------------------------------------------------------------------


def done(text: str, plan: Plan) -> dict[str, At[str]]:
    """The sprints that the plan marks as done, and by what."""
    lines = text.splitlines()
    found = {sprint.id.text: _mark_of(sprint, lines) for sprint in plan.sprints}
    return {name: mark for name, mark in found.items() if mark is not None}


def _mark_of(sprint: Sprint, lines: Sequence[str]) -> At[str] | None:
    if sprint.struck:
        return At("its heading is struck out", sprint.line)
    said = sprint.status
    if said is not None and (FINISHED.search(said.value) or said.value.startswith(CLOSED)):
        return At(f"its status is '{said.value}'", said.line)
    boxes = [BOX.match(lines[task.line - 1]) for task in sprint.tasks]
    if boxes and all(box is not None and box[2] in "xX" for box in boxes):
        return At("every box of its tasks is ticked", sprint.tasks[0].line)
    return None


# --- writing ------------------------------------------------------------------------------------------


def marked(text: str, plan: Plan, marks: Mapping[str, Mark]) -> tuple[str, list[str]]:
    """`text` with these marks, otherwise as it was; and the sprints that could not be marked, since they
    would read differently."""
    new = _all_marked(text, plan, marks)
    otherwise = _reading_otherwise(new, plan)
    if otherwise:
        new = _all_marked(text, plan, {name: mark for name, mark in marks.items() if name not in otherwise})
    return new, [sprint.id.text for sprint in plan.sprints if sprint.id.text in otherwise]


def _all_marked(text: str, plan: Plan, marks: Mapping[str, Mark]) -> str:
    lines = LINE.findall(text)
    for sprint in sorted(plan.sprints, key=lambda sprint: sprint.line, reverse=True):  # lines above stay
        if (mark := marks.get(sprint.id.text)) is not None:
            _put(lines, sprint, mark)
    return "".join(lines)


def _put(lines: list[str], sprint: Sprint, mark: Mark) -> None:
    before = sprint.status.value if sprint.status else ""
    if mark.closed or before.startswith(CLOSED):
        for at in _boxes(sprint, lines):
            lines[at] = BOX.sub(rf"\g<1>[{'x' if mark.closed else ' '}]\g<3>", lines[at])
    if sprint.status is not None:
        at = sprint.status.line - 1
        if not mark.quiet or OURS.match(before) or FINISHED.search(before):
            lines[at] = STATUS.sub(lambda found: f"{found[1]} {mark.words}", lines[at])
    elif not mark.quiet:
        insert_line(lines, _below_heading(sprint, lines), f"**Status**: {mark.words}")


def _boxes(sprint: Sprint, lines: Sequence[str]) -> Iterator[int]:
    """The lines of tasks and criteria, and of what is listed below them."""
    for entry in (*sprint.tasks, *sprint.criteria):
        yield entry.line - 1
        depth = _indent(lines[entry.line - 1])
        for at in range(entry.line, len(lines)):
            if not lines[at].strip() or _indent(lines[at]) <= depth:
                break
            yield at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _below_heading(sprint: Sprint, lines: Sequence[str]) -> int:
    """The number of its heading's line, or of the one below with the bead's id."""
    at = sprint.line
    return at + 1 if at < len(lines) and ANNOTATION_LINE.fullmatch(lines[at]) else at


def _reading_otherwise(text: str, plan: Plan) -> set[str]:
    """The sprints that say something else there, apart from marks and from where things stand."""
    now = parse(text, plan.file, struck=any(sprint.struck for sprint in plan.sprints))
    said = {sprint.id.text: _content(sprint) for sprint in now.sprints}
    return {one.id.text for one in plan.sprints if said.get(one.id.text) != _content(one)}


def _content(thing: Any) -> Any:
    if isinstance(thing, Sprint):
        return {
            one.name: _content(getattr(thing, one.name))
            for one in fields(thing)
            if one.name not in ("status", "line", "heading")
        }
    if isinstance(thing, At):
        return _content(thing.value)
    if is_dataclass(thing):
        return [_content(getattr(thing, one.name)) for one in fields(thing) if one.name != "line"]
    if isinstance(thing, tuple | list):
        return [_content(one) for one in thing]
    if isinstance(thing, Mapping):
        return {key: _content(value) for key, value in thing.items()}
    return thing

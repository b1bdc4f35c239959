"""Bead ids back into the plan, one comment below each heading; every other byte stays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.files import text_files
from beads_ralph.plan.model import Plan
from beads_ralph.plan.parse import parse

LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
ANNOTATION_LINE: Final = re.compile(r" {0,3}<!--\s*beads-ralph:(?:\s*\S+\s*|(?:(?!-->).)*)-->\s*")


def annotate(text: str, plan: Plan, beads: Mapping[str, str]) -> str:
    """`text` with `<!-- beads-ralph: ID -->` on the line after the heading of each sprint in `beads`."""
    _check(plan, beads)
    lines = LINE.findall(text)
    for sprint in sorted(plan.sprints, key=lambda sprint: sprint.line, reverse=True):
        bead_id = beads.get(sprint.id.text)
        if bead_id is not None:
            _put(lines, sprint.line, f"<!-- beads-ralph: {bead_id} -->")
    return "".join(lines)


def annotate_plan_with_bead_ids(plan_file: str, sprint_to_bead_id: Mapping[str, str]) -> None:
    """Annotate a plan file in one step; sprints that the map does not name stay untouched."""
    path = Path(plan_file)
    text = text_files.read_text(path)
    plan = parse(text, plan_file)
    known = {sprint.id.text for sprint in plan.sprints}
    text_files.write_text(
        path, annotate(text, plan, {s: b for s, b in sprint_to_bead_id.items() if s in known})
    )


def _put(lines: list[str], heading: int, comment: str) -> None:
    """Replace or insert the line that follows line number `heading`."""
    ending = _ending(lines[heading - 1]) or _ending(lines[0]) or "\n"
    if heading == len(lines):  # the heading ends the file, perhaps without a newline of its own
        if not _ending(lines[heading - 1]):
            lines[heading - 1] += ending
            ending = ""
        lines.append(comment + ending)
    elif ANNOTATION_LINE.fullmatch(lines[heading]):
        lines[heading] = comment + _ending(lines[heading])
    else:
        lines.insert(heading, comment + ending)


def _ending(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _check(plan: Plan, beads: Mapping[str, str]) -> None:
    faults = [*_twice(plan, beads), *_shared(plan, beads), *_without_heading(plan, beads)]
    if faults:
        raise gathered(faults, plan.file)


def _twice(plan: Plan, beads: Mapping[str, str]) -> list[Fault]:
    counts = Counter(sprint.id.text for sprint in plan.sprints)
    return [
        Fault(Code.DUPLICATE_ID, f"sprint {sprint.id} has two headings", file=plan.file, line=sprint.line)
        for sprint in plan.sprints
        if sprint.id.text in beads and counts[sprint.id.text] > 1
    ]


def _shared(plan: Plan, beads: Mapping[str, str]) -> list[Fault]:
    """One bead id below two headings would make the way back ambiguous."""
    ids = {sprint.id.text: sprint.annotation.value for sprint in plan.sprints if sprint.annotation} | dict(
        beads
    )
    counts = Counter(ids.values())
    return [
        Fault(
            Code.DUPLICATE_ID,
            f"bead {ids[sprint.id.text]} stands under two sprints",
            file=plan.file,
            line=sprint.line,
        )
        for sprint in plan.sprints
        if sprint.id.text in beads and counts[ids[sprint.id.text]] > 1
    ]


def _without_heading(plan: Plan, beads: Mapping[str, str]) -> list[Fault]:
    known = {sprint.id.text for sprint in plan.sprints}
    if not known:
        return [Fault(Code.MARKDOWN, "no sprint headings to annotate", file=plan.file, line=1)]
    return [
        Fault(Code.UNRESOLVED, f"sprint {sprint} has a bead but no heading", file=plan.file)
        for sprint in beads
        if sprint not in known
    ]

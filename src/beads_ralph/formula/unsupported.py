"""What of bd's language is not rendered here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from beads_ralph.errors import Code, Fault
from beads_ralph.formula.model import Formula, Step, all_steps

LEFT_TO_BD: Final = ("hooks", "expand", "map", "gate", "aspects")
"""Of `compose`; bond points only say where others may attach something, which changes nothing in a pour."""
ACTION: Final = "Leave it out, or pour a plain formula on the bd store; docs/formula-reference.md says which"


def unsupported(formula: Formula) -> list[Fault]:
    """Every field that cannot be honoured where the formula is rendered here."""
    file = str(formula.file) if formula.file is not None else None
    return [
        Fault(Code.FORMULA_UNSUPPORTED, f"{path}: {what}", file=file, field=path, suggested_action=ACTION)
        for path, what in _beyond(formula)
    ]


def _beyond(formula: Formula) -> Iterator[tuple[str, str]]:
    for name in ("template", "advice", "pointcuts"):
        if getattr(formula, name):
            yield name, "is only for bd"
    for name in LEFT_TO_BD:
        if formula.compose is not None and getattr(formula.compose, name):
            yield f"compose.{name}", "is only for bd"
    for path, step in all_steps(formula.steps):
        yield from ((f"{path}.{field}", what) for field, what in _beyond_in(step))


def _beyond_in(step: Step) -> Iterator[tuple[str, str]]:
    if step.expand or step.expand_vars:
        yield "expand", "is only for bd"
    if step.on_complete is not None:
        yield "on_complete", "is only for bd"
    if step.loop is not None and step.loop.until:
        yield "loop.until", "a loop until something happens is only for bd; use count or range"
    if step.gate is not None and step.gate.type == "mail":
        yield "gate.type", "a gate of the type mail is only for bd; use human"
    if step.waits_for == "any-children":
        yield "waits_for", "any-children is only for bd; use all-children"

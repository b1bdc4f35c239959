"""The border to bd: what only bd can pour, and what bd would pour differently from what the formula says."""

from __future__ import annotations

import operator
import re
from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Final

from beads_ralph.bead.names import ISSUE_TYPES
from beads_ralph.errors import Code, Fault
from beads_ralph.formula import expressions
from beads_ralph.formula.model import GATE_TYPES, Formula, Step, StepLoop, all_steps, meant
from beads_ralph.formula.variables import names_in, texts_of

# --- only for bd ------------------------------------------------------------------------------------


LEFT_TO_BD: Final = ("expand", "map", "aspects")
"""Of `compose`, where they were not written out before."""
ACTION: Final = (
    "Leave it out, or pour a plain formula on the bd store; beads-ralph help formula-reference says which"
)


def unsupported(formula: Formula) -> list[Fault]:
    """Every field that cannot be honoured where the formula is rendered here."""
    faults = [formula.fault(path, what, Code.FORMULA_UNSUPPORTED) for path, what in _beyond(formula)]
    return [replace(fault, suggested_action=ACTION) for fault in faults]


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


# --- poured, and no more ----------------------------------------------------------------------------


BY_HAND: Final = "Leave it out, or see to it by hand"


def unheeded(formula: Formula) -> list[Fault]:
    """What a pour keeps at best as a label: neither a run nor bd itself acts on it."""
    found = [formula.fault(path, what, Code.FORMULA_UNSUPPORTED) for path, what in unheeded_fields(formula)]
    return [replace(fault, suggested_action=BY_HAND) for fault in found]


def unheeded_fields(formula: Formula) -> Iterator[tuple[str, str]]:
    """The same as field paths, and why."""
    rules = formula.compose
    if rules is not None and rules.hooks:
        yield "compose.hooks", "nothing is attached by itself, whatever triggers it"
    for at, rule in enumerate(rules.gate if rules else ()):
        yield f"compose.gate[{at}]", f"{rule.get('before')} gets a label, and waits for no condition"
    for path, step in all_steps(formula.steps):
        yield from ((f"{path}.{field}", what) for field, what in _unheeded_in(step))


def _unheeded_in(step: Step) -> Iterator[tuple[str, str]]:
    if step.on_complete is not None:
        yield "on_complete", "nothing is poured when the step is done"
    if step.loop is not None and step.loop.until:
        yield "loop.until", "the loop is poured as one round, with a label, and nothing repeats it"
    if step.waits_for == "any-children":
        yield "waits_for", "without bd any-children waits for all of them"
    if step.gate is not None and not names_in(step.gate.type) and step.gate.type not in GATE_TYPES:
        near = meant(step.gate.type, GATE_TYPES)
        yield (
            "gate.type",
            f"nothing watches a gate of type {step.gate.type!r}, so a person opens it{near}",
        )


# --- better not left to bd --------------------------------------------------------------------------


UNFILLED: Final = frozenset({"labels", "assignee", "metadata", "type", "gate.type", "gate.timeout"})
"""Where bd leaves a placeholder as it is."""
FILLED_IN_LOOPS: Final = ("title", "description")
"""Where bd fills in the number of a round."""


def why_not_plain(formula: Formula) -> str | None:
    """Why a formula is rendered here on every store, in words for its author; None where bd pours it."""
    return next(_reasons(formula), None)


def _reasons(formula: Formula) -> Iterator[str]:
    if formula.place == "shipped":
        yield "it comes with beads-ralph, where bd does not look"
    if formula.place == "checkout":
        yield "it lies in this worktree only, where bd does not look"
    yield from formula.only_here
    for name, var in formula.vars.items():
        if var.type == "list":
            yield f"vars.{name} is a list, which bd does not know"
        if var.derive:
            yield f"vars.{name} follows from another variable, which bd does not know"
        if name == "title" and var.default == "":
            yield "vars.title is empty by default, and bd refuses a molecule without a title"
    for path, step in all_steps(formula.steps):
        yield from (f"{path}{reason}" for reason in _reasons_of(step))
    yield from _lost_needs(formula)


def _reasons_of(step: Step) -> Iterator[str]:
    if step.type.strip() in ISSUE_TYPES:
        yield ".type makes a bead for agents, whose metadata bd cannot complete"
    for name in ("bead_id", "after"):
        if getattr(step, name):
            yield f".{name} is not known to bd"
    if isinstance(step.priority, str):
        yield ".priority is a variable, which bd does not take"
    for name, text in texts_of(step):
        if {name, re.split(r"[.[]", name)[0]} & UNFILLED and names_in(text):
            yield f".{name} has a placeholder, which bd does not fill in there"
    if step.loop is not None:
        yield from _loop_reasons(step, step.loop)
    if step.children and all(child.condition for child in step.children):
        yield " may lose all its children to conditions, and bd would make a task of it"


def _loop_reasons(step: Step, loop: StepLoop) -> Iterator[str]:
    said = {"needs": step.waits, "waits_for": step.waits_for, "condition": step.condition, "gate": step.gate}
    yield from (f".{name} of a loop is lost by bd" for name, value in said.items() if value)
    if expressions.range_names(loop.range):
        yield ".loop.range has a variable, which bd does not read"
    for path, inner in all_steps(loop.body, ".loop.body"):
        yield from (f"{path}{reason}" for reason in _body_reasons(loop, inner))
    if not _is_chain(loop.body):
        yield ".loop.body has several steps that begin or end a round, which bd does not chain"


def _body_reasons(loop: StepLoop, step: Step) -> Iterator[str]:
    for name in ("metadata", "notes"):
        if getattr(step, name):
            yield f".{name} is lost by bd in a loop"
    round_name = f"{{{loop.var}}}"
    if loop.var and (step.children or step.loop is not None):
        yield f" has steps inside, in which bd does not fill in {round_name}"
    elif loop.var:
        texts = [name for name, text in texts_of(step) if round_name in text and name not in FILLED_IN_LOOPS]
        yield from (f".{name} has {round_name}, which bd does not fill in there" for name in texts)


def _is_chain(body: list[Step]) -> bool:
    """True where only the first step waits for nothing in the body, and only the last is not waited for."""
    if not body or any(step.children or step.loop for step in body):
        return False
    ids = {step.id for step in body}
    begin = [step.id for step in body if not ids.intersection(step.waits)]
    needed = {name for step in body for name in step.waits}
    end = [step.id for step in body if step.id not in needed]
    return begin == [body[0].id] and end == [body[-1].id]


def _lost_needs(formula: Formula) -> Iterator[str]:
    """Steps that others wait for and bd makes nothing of: loops, and what a condition left out."""
    steps = list(all_steps(formula.steps))
    needed = {name for _, step in steps for name in step.waits}
    needed |= {name for branch in formula.branches for name in (branch.from_, *branch.steps)}
    waiting = {step.id for _, step in steps if step.waits or step.waits_for}
    waiting |= {name for branch in formula.branches for name in (*branch.steps, branch.join)}
    for path, step in steps:
        if step.loop is not None and step.id in needed:
            yield f"{path} is a loop that another step needs, which bd forgets"
    for path in _cut(formula.steps, "steps", needed, waiting):
        yield f"{path} may be left out by its condition, and bd would forget what it waits for"


def _cut(
    steps: list[Step],
    path: str,
    needed: Container[str],
    waiting: Container[str],
    around: tuple[bool, ...] = (False, False, False),
) -> Iterator[str]:
    """The steps between others that may not be there. A step that is optional, needed or waiting
    hands that on to the steps inside."""
    for at, step in enumerate(steps):
        here = f"{path}[{at}]"
        said = (bool(step.condition), step.id in needed, step.id in waiting)
        own = tuple(map(operator.or_, around, said))
        if all(own):
            yield here
        inside = f"{here}.children" if step.loop is None else f"{here}.loop.body"
        yield from _cut(step.inner, inside, needed, waiting, own)

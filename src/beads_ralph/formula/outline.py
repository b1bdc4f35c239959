"""A formula as it would be poured, before anybody has given values: for people who look at it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from beads_ralph.bead.items import GATE
from beads_ralph.bead.model import ISSUE_TYPES
from beads_ralph.errors import Fault, RalphError
from beads_ralph.formula import ranges
from beads_ralph.formula.edges import around
from beads_ralph.formula.model import Formula, Var, all_steps
from beads_ralph.formula.render import Ready, remaining, rendered_steps
from beads_ralph.formula.tree import Growing, StepNode
from beads_ralph.formula.unsupported import unsupported
from beads_ralph.formula.values import Value, Values
from beads_ralph.formula.variables import typed_default

EXAMPLE_NUMBER: Final = 1


@dataclass(frozen=True)
class Outline:
    """The steps with placeholders where values will be; none where that cannot be told beforehand."""

    steps: tuple[Ready, ...] = ()
    conditions: dict[str, str] = field(default_factory=dict)
    """Step → when it is there at all."""
    hindrances: tuple[Fault, ...] = ()
    """Why there are no steps to show."""

    @property
    def makes(self) -> dict[str, int]:
        """What a pour makes below its root, with every conditional step."""
        beads = sum(step.issue_type in ISSUE_TYPES for step in self.steps)
        epics = sum(step.is_epic for step in self.steps)
        gates = sum((step.gate is not None) + (step.issue_type == GATE) for step in self.steps)
        others = len(self.steps) - beads - epics - sum(step.issue_type == GATE for step in self.steps)
        return {"beads": beads, "tasks": others, "epics": epics, "gates": gates}

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {
                "key": step.key,
                "title": step.title,
                "type": step.issue_type,
                "needs": list(step.needs),
                "parent": step.parent,
                "gate": step.gate.to_json() if step.gate is not None else None,
                "condition": self.conditions.get(step.key),
            }
            for step in self.steps
        ]


def outline(formula: Formula) -> Outline:
    """Every step, whatever its condition; a variable without a default stands for itself."""
    beyond = unsupported(formula)
    if beyond:
        return Outline(hindrances=tuple(beyond))
    try:
        nodes = list(remaining(Growing(formula, examples(formula), ask=False).grow()))
        steps = rendered_steps(formula, nodes)
    except RalphError as error:
        return Outline(hindrances=error.faults)
    conditions = {node.key: " and ".join(_asked(node)) for node in nodes if any(_asked(node))}
    return Outline(tuple(steps), conditions)


def _asked(node: StepNode) -> list[str]:
    """The conditions that a step is there by: its own, and those of what it is in."""
    steps = [node.step, *(one.step for one in around(node) if isinstance(one, StepNode))]
    return [step.condition.strip() for step in steps if step.condition.strip()]


def examples(formula: Formula) -> Values:
    """Defaults, and where there is none the variable's own placeholder or something of its type."""
    loops = [step.loop for _, step in all_steps(formula.steps) if step.loop is not None]
    counted = {name for loop in loops for name in ranges.names(loop.range)}
    return Values({name: _example(name, var, counted) for name, var in formula.vars.items()})


def _example(name: str, var: Var, counted: Collection[str]) -> Value:
    given = typed_default(var)
    if given not in (None, ""):
        return given
    if name in counted or var.type == "int":
        return EXAMPLE_NUMBER
    return True if var.type == "bool" else f"{{{{{name}}}}}"

"""A formula and values → the steps to create, flat and in order; or an outline of them without values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from beads_ralph.bead import graph
from beads_ralph.bead.items import GateRule
from beads_ralph.bead.names import EPIC, GATE, ISSUE_TYPES, TASK
from beads_ralph.errors import Fault, RalphError, gathered
from beads_ralph.formula import expressions
from beads_ralph.formula.bd_compatible import unsupported
from beads_ralph.formula.expansion import why_empty
from beads_ralph.formula.model import PRIORITIES, Formula, StepGate, Var, all_steps, is_duration
from beads_ralph.formula.tree import Edges, Growing, StepNode, around
from beads_ralph.formula.variables import Filling, Value, Values, typed_default

ALIASES: Final = {
    "enhancement": "feature",
    "feat": "feature",
    "dec": "decision",
    "adr": "decision",
    "investigation": "spike",
    "timebox": "spike",
    "user-story": "story",
    "user_story": "story",
    "ms": "milestone",
}
"""Other words for bd's types."""
GATE_FIELDS: Final = ("type", "id", "await_id", "timeout", "repo")
KEPT: Final = tuple(GateRule.model_fields)


@dataclass(frozen=True)
class Ready:
    """One step, ready to be created: nothing is left to fill in."""

    key: str
    title: str
    description: str = ""
    notes: str = ""
    issue_type: str = TASK
    priority: int | None = None
    labels: tuple[str, ...] = ()
    assignee: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    parent: str | None = None
    bead_id: str | None = None
    gate: GateRule | None = None
    """Its gate. The gate of a container or a loop is a step of its own, of the type gate: all
    that the container begins with needs it."""
    is_epic: bool = False
    formula: str = ""
    """Its formula, where several are poured together."""


@dataclass(frozen=True)
class Rendered:
    """The result of a pour: the root's title and description, and the steps below it."""

    title: str
    description: str
    steps: tuple[Ready, ...]


def render(formula: Formula, values: Values) -> Rendered:
    """FORMULA.UNSUPPORTED for what only bd can do, FORMULA.INVALID for what cannot be poured at all."""
    beyond = unsupported(formula)
    if beyond:
        raise gathered(beyond, formula.name)
    steps = _Rendering(formula, list(remaining(Growing(formula, values).grow()))).steps()
    if not steps:
        why = f"no step is left to pour: {why_empty(formula)}"
        raise gathered([formula.fault("steps", why)], formula.name)
    filling = Filling(values)
    title = values.text("title") if "title" in formula.vars and "title" in values else ""
    described = values.text("desc") if "desc" in formula.vars and "desc" in values else formula.description
    return Rendered(title or formula.formula or formula.name, filling.text(described), tuple(steps))


def remaining(nodes: Iterable[StepNode]) -> Iterator[StepNode]:
    """The nodes that remain, in order."""
    for node in nodes:
        if any(node.leaves()):
            yield node
            yield from remaining(node.inner())


class _Rendering:
    """The remaining nodes of one formula, each as a Ready."""

    def __init__(self, formula: Formula, nodes: Sequence[StepNode]) -> None:
        self.formula = formula
        self.nodes = nodes
        self.edges = Edges(formula.branches)
        self.faults: list[Fault] = []

    def steps(self) -> list[Ready]:
        found = [ready for node in self.nodes for ready in self._made_of(node)]
        self.faults += _clashes(self.formula, found)
        if self.faults:
            raise gathered(self.faults, self.formula.name)
        return found

    def _made_of(self, node: StepNode) -> Iterator[Ready]:
        """A loop makes nothing itself, only its rounds do."""
        if node.step.gate is not None and not node.is_leaf:
            yield self._gate_step(node, node.step.gate)
        if node.step.loop is None:
            yield self._ready(node)

    def _ready(self, node: StepNode) -> Ready:
        step, filling = node.step, node.filling
        kind = filling.text(step.type).strip()
        return Ready(
            key=node.key,
            title=self._title(node),
            description=filling.text(step.description),
            notes=filling.text(step.notes),
            issue_type=ALIASES.get(kind.lower(), kind) or (EPIC if node.is_epic else TASK),
            priority=self._priority(node),
            labels=tuple(dict.fromkeys((*filling.entries(step.labels), *self._marks(node)))),
            assignee=filling.text(step.assignee).strip(),
            metadata=filling.json(step.metadata),
            needs=tuple(dict.fromkeys(self._needs(node))),
            after=tuple(dict.fromkeys(filling.entries(step.after))),
            parent=_parent(node),
            bead_id=filling.text(step.bead_id).strip() or None,
            gate=self._rule(node, step.gate) if step.gate is not None and node.is_leaf else None,
            is_epic=node.is_epic,
        )

    def _marks(self, node: StepNode) -> Iterator[str]:
        """The labels by which bd keeps what it does not do itself: conditions to wait for, and to repeat."""
        rules, one = self.formula.compose, node.round
        loop = one.loop.step.loop if one.loop is not None else None
        if loop is not None and loop.until and node is one.nodes[0]:
            yield f"loop:{_compact({'max': loop.max, 'until': loop.until})}"
        for rule in rules.gate if rules and loop is None else ():
            if rule.get("before") == node.step.id:
                yield f"{GATE}:{_compact({'condition': rule.get('condition')})}"

    def _needs(self, node: StepNode) -> Iterator[str]:
        """The gates of containers and loops that this step is among the first of, and the steps before it."""
        holders = [node] if node.is_epic else self.edges.beginning(node)
        yield from (f"{GATE}-{holder.key}" for holder in holders if holder.step.gate is not None)
        yield from (other.key for other in self.edges.needs(node))

    def _gate_step(self, node: StepNode, gate: StepGate) -> Ready:
        rule = self._rule(node, gate)
        shown = " ".join(filter(None, (rule.type, rule.await_id))) if rule is not None else ""
        return Ready(
            key=f"{GATE}-{node.key}",
            title=f"Gate: {shown}",
            description=f"Async gate for step {node.key}",
            issue_type=GATE,
            metadata={"gate": rule.to_json()} if rule is not None else {},
            parent=_parent(node),
        )

    def _title(self, node: StepNode) -> str:
        text = node.filling.text(node.step.title).strip()
        if not text:
            self._fault(node, "title", "is empty with these values")
        return text

    def _priority(self, node: StepNode) -> int | None:
        said = node.step.priority
        value = node.filling.typed(said) if isinstance(said, str) else said
        if value is None or (type(value) is int and value in PRIORITIES):
            return value
        self._fault(node, "priority", f"must be a whole number from 0 to 4, not {value!r}")
        return None

    def _rule(self, node: StepNode, gate: StepGate) -> GateRule | None:
        said = {name: node.filling.text(getattr(gate, name)).strip() for name in GATE_FIELDS}
        if not said["type"]:
            self._fault(node, "gate.type", "is empty with these values")
            return None
        if said["timeout"] and not is_duration(said["timeout"]):
            self._fault(node, "gate.timeout", f"must be a time such as 30m or 1h30m, not {said['timeout']!r}")
            return None
        said["await_id"] = said["await_id"] or said["id"]
        return GateRule.model_validate({name: said[name] for name in KEPT if said[name]})

    def _fault(self, node: StepNode, name: str, message: str) -> None:
        self.faults.append(self.formula.fault(f"{node.path}.{name}", message))


def _compact(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parent(node: StepNode) -> str | None:
    return next((one.key for one in around(node) if isinstance(one, StepNode) and one.is_epic), None)


# --- the whole --------------------------------------------------------------------------------------


def _clashes(formula: Formula, steps: Sequence[Ready]) -> Iterator[Fault]:
    """Faults among several steps: the same id twice, and circles."""
    gates = [f"{GATE}-{step.key}" for step in steps if step.gate is not None]
    keys = [*(step.key for step in steps if not step.bead_id), *gates]
    # As the ids of beads are made of them, in which a dot is a dash.
    ids = [*(step.bead_id for step in steps if step.bead_id), *(key.replace(".", "-") for key in keys)]
    for name in (name for name, count in Counter(ids).items() if count > 1):
        yield formula.fault("steps", f"two steps would have the id {name}")
    circle = graph.cycle({step.key: step.needs for step in steps})
    if circle:
        yield formula.fault("steps", f"the steps wait for one another: {' → '.join(circle)}")


# --- before there are values ------------------------------------------------------------------------


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
        """Count the parts of a pour below its root, conditional steps included."""
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
        steps = _Rendering(formula, nodes).steps()
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
    counted = {name for loop in loops for name in expressions.range_names(loop.range)}
    return Values({name: _example(name, var, counted) for name, var in formula.vars.items()})


def _example(name: str, var: Var, counted: Collection[str]) -> Value:
    given = typed_default(var)
    if given not in (None, ""):
        return given
    if name in counted or var.type == "int":
        return EXAMPLE_NUMBER
    return True if var.type == "bool" else f"{{{{{name}}}}}"

"""Repeated work in a plan: sprints and phases that say the same of other things."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead.names import MERGE, slug
from beads_ralph.formula import worth
from beads_ralph.formula.definitions import BeadJson, Instance, by_shape, essence, numbered, step_keys
from beads_ralph.formula.patterns import InferenceContext, Made, make

TWICE: Final = 2
BULK: Final = 10
SHORTEST: Final = 3
"""Words below that name nothing."""
WHOLE: Final = frozenset({"output_schema", "env"})
"""Objects that nobody wants to see taken apart."""


@dataclass(frozen=True)
class Pattern:
    """Instances of one shape, and the formula that they would make."""

    name: str
    instances: Sequence[Sequence[str]]
    """The sprints of each instance."""
    steps: Sequence[str]
    constant: Mapping[str, Any]
    """Field → the value that it has everywhere."""
    varying: Mapping[str, Sequence[Any]]
    """Field → its values, one for each instance."""
    made: Made
    score: float
    """The part of the texts that need not be written again, from 0 to 1."""

    @property
    def beads(self) -> int:
        return len(self.instances) * len(self.steps)

    @property
    def is_bulk(self) -> bool:
        return self.beads >= BULK

    @property
    def sprints(self) -> str:
        """As `formula make --sprints` takes them."""
        return ",".join("+".join(instance) for instance in self.instances)


def find(beads: Mapping[str, BeadJson], around: Callable[[str], InferenceContext]) -> list[Pattern]:
    """Every pattern that is worth a formula, those that would replace most beads first."""
    phases: dict[str, list[BeadJson]] = defaultdict(list)
    for bead in beads.values():
        phases[bead["metadata"]["phase"]].append(bead)
    sprints = by_shape([bead] for bead in beads.values())
    shapes = [*sprints, *by_shape(phase for phase in phases.values() if len(phase) > 1)]
    groups = [group for shape in shapes for group in worth.alike(shape) if len(group) >= TWICE]
    groups.sort(key=lambda group: (-sum(map(len, group)), -len(group[0])))
    names = numbered([_name(group) for group in groups])
    found = [_pattern(name, group, around(name)) for name, group in zip(names, groups, strict=True)]
    return list(_not_in_others(pattern for pattern in found if pattern.score >= worth.ENOUGH))


def _not_in_others(patterns: Iterable[Pattern]) -> Iterator[Pattern]:
    """Without those all of whose sprints a larger one has already."""
    covered: set[str] = set()
    for pattern in patterns:
        own = {sprint for instance in pattern.instances for sprint in instance}
        if not own <= covered:
            yield pattern
        covered |= own


def _pattern(name: str, group: Sequence[Instance], around: InferenceContext) -> Pattern:
    columns = dict(_columns(group, around))
    constant = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
    made = make(group, around)
    return Pattern(
        name,
        [[bead["metadata"]["sprint"] for bead in instance] for instance in group],
        step_keys(group),
        constant,
        {field: values for field, values in columns.items() if field not in constant},
        made,
        worth.score(made, group),
    )


# --- fields -----------------------------------------------------------------------------------------


def _columns(group: Sequence[Instance], around: InferenceContext) -> Iterator[tuple[str, list[Any]]]:
    """Field → its values; behind the step's name where there are several steps."""
    keys = step_keys(group)
    for at, key in enumerate(keys):
        prefix = f"{key}." if len(keys) > 1 else ""
        rows = [dict(_leaves(_facts(instance[at], around))) for instance in group]
        yield from ((prefix + field, [row.get(field) for row in rows]) for field in rows[0])


def _facts(bead: BeadJson, around: InferenceContext) -> dict[str, Any]:
    found = essence(bead)
    place = around.relative(found["metadata"]["worktree_path"])
    metadata = {**found["metadata"], "worktree_path": place}
    return {"id": bead["id"], **found, "dependencies": bead["dependencies"], "metadata": metadata}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict) and path.rpartition(".")[2] not in WHOLE:
        inner = value.items()
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        inner = enumerate(value)
    else:
        yield path, value
    for key, entry in inner:
        yield from _leaves(entry, f"{path}.{key}" if path else str(key))


def _name(group: Sequence[Instance]) -> str:
    """Made of the words that all its titles have."""
    if len(group[0]) > 1:
        return f"phase-of-{len(group[0])}"
    words = slug(group[0][0]["title"]).split("-")
    for instance in group:
        own = set(slug(instance[0]["title"]).split("-"))
        words = [word for word in words if word in own]
    kind = "merge-sprint" if group[0][0]["issue_type"] == MERGE else "work-sprint"
    return "-".join(word for word in words if len(word) >= SHORTEST) or kind

"""Repeated work in a plan: sprints, and whole phases, that one formula could give."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead.names import MERGE, slug
from beads_ralph.formula.definitions import step_keys
from beads_ralph.formula.make import InferenceContext, Made, make
from beads_ralph.formula.shape import BeadJson, Instance, essence, instance_shape, parting, shape

WORTHWHILE: Final = 2
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
    """Every pattern that comes at least twice, those that would replace most beads first."""
    groups = [*_same_sprints(beads), *_same_phases(beads)]
    groups.sort(key=lambda group: (-sum(map(len, group)), -len(group[0])))
    names = _names(groups)
    return [_pattern(name, group, around(name)) for name, group in zip(names, groups, strict=True)]


def _same_sprints(beads: Mapping[str, BeadJson]) -> Iterator[list[Instance]]:
    groups: dict[Hashable, list[Instance]] = defaultdict(list)
    for bead in beads.values():
        groups[shape(bead)].append([bead])
    return (group for group in groups.values() if len(group) >= WORTHWHILE)


def _same_phases(beads: Mapping[str, BeadJson]) -> Iterator[list[Instance]]:
    phases: dict[str, list[BeadJson]] = defaultdict(list)
    for bead in beads.values():
        phases[bead["metadata"]["phase"]].append(bead)
    groups: dict[Hashable, list[Instance]] = defaultdict(list)
    for phase in phases.values():
        if len(phase) > 1:
            groups[instance_shape(phase)].append(phase)
    return (group for group in groups.values() if len(group) >= WORTHWHILE)


def _pattern(name: str, group: Sequence[Instance], around: InferenceContext) -> Pattern:
    columns = dict(_columns(group, around))
    constant = {name: values[0] for name, values in columns.items() if values.count(values[0]) == len(values)}
    return Pattern(
        name,
        [[bead["metadata"]["sprint"] for bead in instance] for instance in group],
        step_keys(group),
        constant,
        {field: values for field, values in columns.items() if field not in constant},
        make(group, around),
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


# --- names ------------------------------------------------------------------------------------------


def _names(groups: Sequence[Sequence[Instance]]) -> list[str]:
    """A name for each, of the words that all its titles have."""
    wanted = [_name(group) for group in groups]
    counts, seen = Counter(wanted), Counter[str]()
    found: list[str] = []
    for name in wanted:
        seen[name] += 1
        found.append(f"{name}-{seen[name]}" if counts[name] > 1 else name)
    return found


def _name(group: Sequence[Instance]) -> str:
    if len(group[0]) > 1:
        return f"phase-of-{len(group[0])}"
    words = slug(group[0][0]["title"]).split("-")
    for instance in group:
        own = set(slug(instance[0]["title"]).split("-"))
        words = [word for word in words if word in own]
    kind = "merge-sprint" if group[0][0]["issue_type"] == MERGE else "work-sprint"
    return "-".join(word for word in words if len(word) >= SHORTEST) or kind


# --- instances that do not go together --------------------------------------------------------------


@dataclass(frozen=True)
class Parting:
    """Why instances are no repetition of one another."""

    field: str
    one: str
    """The first instance's value there."""
    other: str
    odd: str
    """The first instance that is different."""
    fitting: Sequence[str]
    """The groups that would go together, as `--sprints` takes them, the largest first."""


def find_parting(instances: Sequence[Instance]) -> Parting | None:
    """Where the first instances part; None where all have one shape."""
    groups: dict[Hashable, list[Instance]] = defaultdict(list)
    for instance in instances:
        groups[instance_shape(instance)].append(instance)
    if len(groups) == 1:
        return None
    first, second = (group[0] for group in list(groups.values())[:2])
    found = parting(first, second) or ("shape", "", "")
    fitting = sorted((group for group in groups.values()), key=len, reverse=True)
    return Parting(*found, written(second), [",".join(map(written, group)) for group in fitting])


def written(instance: Instance) -> str:
    """`2.1+2.2`"""
    return "+".join(bead["metadata"]["sprint"] for bead in instance)

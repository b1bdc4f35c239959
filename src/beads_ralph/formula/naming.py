"""What the steps and the variables of a new formula are called, and in which order they stand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from beads_ralph.bead.model import MERGE
from beads_ralph.bead.slugs import ID_LENGTH, branch_slug
from beads_ralph.formula.columns import used
from beads_ralph.formula.express import Variable
from beads_ralph.formula.shape import Instance


def step_keys(instances: Sequence[Instance]) -> list[str]:
    """What the steps are called: by their title where it is the same everywhere, else by their kind."""
    found: list[str] = []
    for at, bead in enumerate(instances[0]):
        kind = "merge" if bead["issue_type"] == MERGE else "work"
        titles = {instance[at]["title"] for instance in instances}
        shared = len(instances) > 1 and len(titles) == 1 and len(instances[0]) > 1
        found.append((shared and branch_slug(bead["title"])[:ID_LENGTH].strip("-")) or kind)
    return _numbered(found)


def _numbered(names: Sequence[str]) -> list[str]:
    """Those that stand there twice get numbers."""
    counts = Counter(names)
    taken = {name for name in names if counts[name] == 1}
    found: list[str] = []
    for name in names:
        number = 1
        own = name
        while counts[name] > 1 and (own == name or own in taken):
            own = f"{name}-{number}"
            number += 1
        taken.add(own)
        found.append(own)
    return found


def name_all(variables: Iterable[Variable], keys: Sequence[str]) -> None:
    """A plain name, with the step in front where several steps have such a variable."""
    variables = list(variables)
    counts = Counter(variable.base for variable in variables)
    taken = set[str]()
    for variable in variables:
        name = variable.base
        if counts[variable.base] > 1 and variable.step is not None:
            name = f"{_identifier(keys[variable.step])}_{variable.base}"
        variable.name = _free(name, taken)
        taken.add(variable.name)


def _identifier(key: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", key).strip("_")
    return plain if plain and not plain[0].isdigit() else f"step_{plain}".rstrip("_")


def _free(name: str, taken: set[str]) -> str:
    number, found = 2, name
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


FIRST: Final = ("phase", "phase_number", "sprint_id", "sprint_slug", "title", "name")
LAST: Final = ("after", "plan_file", "plan_section")


def ordered(variables: Iterable[Variable]) -> list[Variable]:
    """What a person gives first comes first."""

    def place(variable: Variable) -> tuple[int, int]:
        if variable.derive is not None:
            return 1, 0
        if variable.base in FIRST:
            return 0, FIRST.index(variable.base)
        return (2, LAST.index(variable.base)) if variable.base in LAST else (0, len(FIRST))

    return sorted(variables, key=place)


def fields_of(variables: Iterable[Variable], nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Variable → the first field that it stands in."""
    found: dict[str, str] = {}
    for at, node in enumerate(nodes):
        _note_fields(node, f"steps[{at}]", found)
    return {variable.name: found.get(variable.name, variable.base) for variable in variables}


def _note_fields(node: Any, path: str, found: dict[str, str]) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            _note_fields(value, f"{path}.{key}", found)
    elif isinstance(node, list):
        for at, entry in enumerate(node):
            _note_fields(entry, f"{path}[{at}]", found)
    else:
        for variable in used(node):
            found.setdefault(variable.name, path)

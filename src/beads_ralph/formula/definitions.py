"""Instances of a pattern: the shape they share, the names of their steps, definitions of their variables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Final, get_args

from beads_ralph.bead import run_state
from beads_ralph.bead.field_types import BRANCH_PATTERN, PHASE_PATTERN, SPRINT_PATTERN
from beads_ralph.bead.model import MODELS, TemplateName
from beads_ralph.bead.names import ID_LENGTH, MERGE, branch_slug
from beads_ralph.bead.personas import without_sessions
from beads_ralph.formula.columns import Variable, used
from beads_ralph.formula.model import leaves

BeadJson = Mapping[str, Any]
Instance = Sequence[BeadJson]


def essence(bead: BeadJson) -> dict[str, Any]:
    """The part of a bead that a formula must say: no times, no tracks of runs, nothing empty
    that is filled in anyway. Dependencies are apart, since steps have two words for them."""
    metadata = {
        key: value
        for key, value in without_sessions(bead["metadata"]).items()
        if key not in run_state.KEYS and not (key == "branches_to_merge" and value is None)
    }
    core = ("issue_type", "priority", "title", "description", "labels")
    return {**{key: bead[key] for key in core}, "metadata": metadata}


def by_shape(instances: Iterable[Instance]) -> list[list[Instance]]:
    groups: dict[Hashable, list[Instance]] = defaultdict(list)
    for instance in instances:
        groups[instance_shape(instance)].append(instance)
    return list(groups.values())


def instance_shape(instance: Instance) -> Hashable:
    """Equal for two instances exactly where they differ in texts and numbers alone."""
    found = [essence(bead) for bead in instance]
    forms = tuple((bead["issue_type"], _form(bead["metadata"])) for bead in found)
    return forms, inner_edges(instance)


def _form(value: Any) -> Hashable:
    match value:
        case dict():
            return tuple((key, _form(value[key])) for key in sorted(value))
        case list():
            # a list of texts may be of any length: one variable carries it
            is_texts = all(isinstance(entry, str) for entry in value)
            return "texts" if is_texts else ("list", tuple(map(_form, value)))
        case float():
            return value
        case _:
            return type(value).__name__


def inner_edges(instance: Instance) -> tuple[tuple[int, ...], ...]:
    """Dependencies among the instance's own beads, by position."""
    place = {bead["id"]: at for at, bead in enumerate(instance)}
    return tuple(
        tuple(sorted(place[other] for other in bead["dependencies"] if other in place)) for bead in instance
    )


# --- where two part ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parting:
    """Why instances do not repeat one another."""

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
    groups = by_shape(instances)
    if len(groups) == 1:
        return None
    first, second = (group[0] for group in groups[:2])
    fitting = [",".join(map(written, group)) for group in sorted(groups, key=len, reverse=True)]
    return Parting(*next(_partings(first, second)), written(second), fitting)


def written(instance: Instance) -> str:
    """`2.1+2.2`"""
    return "+".join(bead["metadata"]["sprint"] for bead in instance)


def _partings(one: Instance, other: Instance) -> Iterator[tuple[str, str, str]]:
    """The fields that keep two instances apart, and what each has there."""
    if len(one) != len(other):
        yield "sprints", str(len(one)), str(len(other))
    for a, b in zip(one, other, strict=False):
        if a["issue_type"] != b["issue_type"]:
            yield "issue_type", a["issue_type"], b["issue_type"]
        yield from _differences("metadata", essence(a)["metadata"], essence(b)["metadata"])
    yield "dependencies", _shown_edges(one), _shown_edges(other)


def _differences(path: str, one: Any, other: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            if key not in one or key not in other:
                has = ("has it", "has none") if key in one else ("has none", "has it")
                yield f"{path}.{key}", *has
            else:
                yield from _differences(f"{path}.{key}", one[key], other[key])
    elif _form(one) == _form(other):
        return
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _differences(f"{path}.{at}", a, b)
    else:
        yield path, _noun(one), _noun(other)


def _noun(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} entries" if len(value) != 1 else "1 entry"
    return {"NoneType": "null", "str": "a text", "dict": "an object"}.get(type(value).__name__, str(value))


def _shown_edges(instance: Instance) -> str:
    """`2 ← 1`: the second waits for the first."""
    edges = [(at + 1, before + 1) for at, row in enumerate(inner_edges(instance)) for before in row]
    return ", ".join(f"{at} ← {before}" for at, before in edges) or "none inside"


# --- names ------------------------------------------------------------------------------------------


def step_keys(instances: Sequence[Instance]) -> list[str]:
    """Name the steps: by their title where it is the same everywhere, else by their kind."""
    found: list[str] = []
    for at, bead in enumerate(instances[0]):
        kind = "merge" if bead["issue_type"] == MERGE else "work"
        titles = {instance[at]["title"] for instance in instances}
        shared = len(instances) > 1 and len(titles) == 1 and len(instances[0]) > 1
        found.append((shared and branch_slug(bead["title"])[:ID_LENGTH].strip("-")) or kind)
    return numbered(found)


def numbered(names: Sequence[str]) -> list[str]:
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
            plain = re.sub(r"[^A-Za-z0-9_]+", "_", keys[variable.step]).strip("_")
            key = plain if plain and not plain[0].isdigit() else f"step_{plain}".rstrip("_")
            name = f"{key}_{variable.base}"
        several = (f"{name}_{number}" for number in count(2))
        variable.name = next(one for one in chain([name], several) if one not in taken)
        taken.add(variable.name)


FIRST: Final = ("phase", "phase_number", "sprint_id", "sprint_slug", "title", "name")
LAST: Final = ("after", "plan_file", "plan_section")


def ordered(variables: Iterable[Variable]) -> list[Variable]:
    """In the order in which a person gives them."""

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
    for path, leaf in leaves(list(nodes), "steps"):
        for variable in used(leaf):
            found.setdefault(variable.name, path)
    return {variable.name: found.get(variable.name, variable.base) for variable in variables}


# --- definitions ------------------------------------------------------------------------------------


SLUG: Final = r"^[a-z0-9]+(-[a-z0-9]+)*$"
NUMBER: Final = r"^\d+$"
PATH: Final = r"^[A-Za-z0-9_./-]+$"
PATTERNS: Final[Mapping[str, Sequence[str]]] = {
    "sprint_id": [SPRINT_PATTERN],
    "sprint_slug": [r"^\d+[a-z]*-\d+[a-z]*$"],
    "phase": [PHASE_PATTERN],
    "phase_number": [r"^\d{2,}$"],
    "name": [SLUG],
    "bead_id": [r"^[a-z0-9]+(-[a-z0-9]+)+$"],
    "branch": [BRANCH_PATTERN],
    "source_branch": [BRANCH_PATTERN],
    "team_name": [SLUG],
    "rig": [SLUG],
    "label": [NUMBER, SLUG],
    "agent": [SLUG, PATH],
    "executable": [SLUG, PATH],
}
"""The patterns a person would write for such a thing, the narrow ones first. Prose has none."""
CLOSED: Final[Mapping[str, Sequence[str]]] = {"model": MODELS, "template": get_args(TemplateName)}
"""Words that have a list of their own."""
BOUND: Final = frozenset({"sprint_slug", "phase", "phase_number"})
"""Names fixed by a sprint's number; other derived names may take any form that their source has."""
FEW: Final = 5
WORD: Final = re.compile(r"[\w./:@-]{1,40}", re.ASCII)

IDENTITY: Final = frozenset(
    {
        *("sprint_id", "sprint_slug", "phase", "phase_number", "title", "name", "bead_id"),
        *("branch", "worktree_path", "plan_section", "team_name"),
    }
)
"""Names that differ in every instance, so that no value can be the usual one."""
PROSE: Final = frozenset({"title", "description", "tasks", "task", "criteria", "criterion", "context"})

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "sprint_id": "The sprint's number, such as 2.1 or 3a.2b",
    "sprint_slug": "The sprint's number with a dash, as ids and labels have it",
    "phase": "The phase's number, such as 2 or 3a",
    "phase_number": "The phase's number in two digits, as labels have it",
    "title": "What the sprint is called",
    "name": "The short name at the end of the bead's id",
    "title_slug": "The title as one word with dashes",
    "branch_name": "The title as part of a branch's name",
    "bead_id": "The bead's id",
    "description": "What the sprint is about",
    "branch": "The git branch that the work is done on",
    "source_branch": "The git branch that the work starts from",
    "worktree_path": "The folder of the git worktree",
    "team_name": "The team that works on it",
    "tasks": "What the developer is to do, one task a line",
    "task": "What the developer is to do",
    "tasks_prose": "The tasks as sentences",
    "criteria": "When it is done, one criterion a line",
    "criterion": "When it is done",
    "criteria_bullets": "The criteria as a list",
    "labels": "More labels, one a line",
    "label": "One more label",
    "after": "Ids of the beads that it waits for, one a line",
    "branches_to_merge": "The branches to merge, one a line",
    "plan_file": "The file that the bead comes from: a plan, or this formula",
    "plan_section": "The heading in that file",
    "priority": "From 0, the most urgent, to 4",
    "template": "The prompt template",
    "verify_command": "The command that proves the work",
    "verify_name": "What that command is called",
    "verify_timeout_seconds": "How long that command may take",
}
PARTS: Final[Mapping[str, str]] = {
    "agent": "who it is",
    "model": "the model",
    "executable": "the program",
    "context": "what it is told besides",
}


def described(variable: Variable, field: str) -> str:
    """One line for people; `field` is where the value goes."""
    base = re.sub(r"_\d+$", "", variable.base)
    if variable.varies:
        return f"The {base} that it is about, such as {variable.values[0]}"
    if variable.derive is not None and variable.derive[1].varies:
        return f"The {variable.derive[1].base} in another spelling, such as {variable.values[0]}"
    if base in DESCRIPTIONS:
        return DESCRIPTIONS[base]
    who, _, part = base.partition("_")
    who = {"dev": "The developer", "qa": "The reviewer", "scrum": "The scrum master"}.get(who, "")
    part = part.removeprefix("master_")
    if who and part in PARTS:
        return f"{who}: {PARTS[part]}"
    return f"The value of {field}"


def _kind(variable: Variable) -> str:
    """`dev_model_2` is a model; everything else is what it is called."""
    base = re.sub(r"_\d+$", "", variable.base)
    last = base.rpartition("_")[2]
    return last if base.startswith(("dev_", "qa_", "scrum_")) else base


def pattern(variable: Variable) -> str | None:
    """The narrowest evident pattern that all values have; what is derived has that of its source."""
    if variable.derive is not None and variable.base not in BOUND:
        return None
    for candidate in PATTERNS.get(_kind(variable), ()):
        bare = re.compile(candidate.removeprefix("^").removesuffix("$"), re.ASCII)
        if all(bare.fullmatch(str(value)) for value in variable.values):
            return candidate
    return None


def enum(variable: Variable) -> list[str] | None:
    """A list that is closed by nature, or a few words that come again and again."""
    kind = _kind(variable)
    if variable.varies:
        return None
    if kind == "priority":
        return ["0", "1", "2", "3", "4"]
    if kind in CLOSED and all(value in CLOSED[kind] for value in variable.values):
        return list(CLOSED[kind])
    if kind in PROSE or kind in IDENTITY or variable.kind != "string":
        return None
    counts = Counter(variable.values)
    few = 2 <= len(counts) <= FEW and min(counts.values()) >= 2  # noqa: PLR2004 - twice is again
    return sorted(counts) if few and all(WORD.fullmatch(value) for value in counts) else None


def default(variable: Variable) -> str | None:
    """The value that most instances have. An empty one needs it, since nothing given counts as missing."""
    if variable.varies:
        return None
    if variable.kind == "list":
        return "" if any(not value for value in variable.values) else None
    counts = Counter(map(_said, variable.values))
    if "" in counts:
        return ""
    value, count = counts.most_common(1)[0]
    if len(counts) == 1 < len(variable.values):
        return value  # a variable only since its braces would read as one
    kind = _kind(variable)
    is_usual = count > 1 and count * 2 > len(variable.values)
    return value if is_usual and kind not in IDENTITY | (PROSE - {"context"}) else None


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def definition(variable: Variable, field: str, own_default: str | None = None) -> dict[str, Any]:
    """The variable as a formula has it."""
    found: dict[str, Any] = {"description": described(variable, field)}
    if variable.kind != "string":
        found["type"] = variable.kind
    if variable.derive is not None:
        rule, source = variable.derive
        found["derive"] = f"{rule}({source.name})"
    elif own_default is not None or (own_default := default(variable)) is not None:
        found["default"] = own_default
    else:
        found["required"] = True
    choice = None if variable.kind == "list" or variable.derive is not None else enum(variable)
    if choice is not None:
        found["enum"] = choice
    elif variable.kind == "string" and (form := pattern(variable)) is not None:
        found["pattern"] = form
    return found

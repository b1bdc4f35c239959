"""The shape of a bead: all of it but its texts. Beads of one shape can come from one formula."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from beads_ralph.bead import run_state
from beads_ralph.bead.personas import without_sessions

BeadJson = Mapping[str, Any]
Instance = Sequence[BeadJson]


def essence(bead: BeadJson) -> dict[str, Any]:
    """What a formula has to say so that the bead comes back: no times, no tracks of runs, nothing empty
    that is filled in anyway. Dependencies are apart, since steps have two words for them."""
    metadata = {
        key: value
        for key, value in without_sessions(bead["metadata"]).items()
        if key not in run_state.KEYS and not (key == "branches_to_merge" and value is None)
    }
    core = ("issue_type", "priority", "title", "description", "labels")
    return {**{key: bead[key] for key in core}, "metadata": metadata}


def shape(bead: BeadJson) -> Hashable:
    """Equal for two beads exactly where they differ in texts and numbers alone."""
    found = essence(bead)
    return (found["issue_type"], _form(found["metadata"]))


def _form(value: Any) -> Hashable:
    match value:
        case dict():
            return tuple((key, _form(value[key])) for key in sorted(value))
        case list():
            # a list of texts may be of any length: one variable carries it
            return "texts" if _is_texts(value) else ("list", tuple(map(_form, value)))
        case float():
            return value
        case _:
            return type(value).__name__


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def instance_shape(instance: Instance) -> Hashable:
    return (tuple(map(shape, instance)), inner_edges(instance))


def inner_edges(instance: Instance) -> tuple[tuple[int, ...], ...]:
    """Which of the instance's own beads each of them waits for, by position."""
    place = {bead["id"]: at for at, bead in enumerate(instance)}
    return tuple(
        tuple(sorted(place[other] for other in bead["dependencies"] if other in place)) for bead in instance
    )


# --- where two part ---------------------------------------------------------------------------------


def parting(one: Instance, other: Instance) -> tuple[str, str, str] | None:
    """The first field that keeps two instances apart, and what each has there; None for one shape."""
    if len(one) != len(other):
        return "sprints", str(len(one)), str(len(other))
    for a, b in zip(one, other, strict=True):
        found = next(_partings(a, b), None)
        if found is not None:
            return found
    if inner_edges(one) != inner_edges(other):
        return "dependencies", _shown_edges(one), _shown_edges(other)
    return None


def _partings(one: BeadJson, other: BeadJson) -> Iterator[tuple[str, str, str]]:
    if one["issue_type"] != other["issue_type"]:
        yield "issue_type", one["issue_type"], other["issue_type"]
    yield from _differences("metadata", essence(one)["metadata"], essence(other)["metadata"])


def _differences(path: str, one: Any, other: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            if key not in one or key not in other:
                yield f"{path}.{key}", _presence(key in one), _presence(key in other)
            else:
                yield from _differences(f"{path}.{key}", one[key], other[key])
    elif _form(one) == _form(other):
        return
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _differences(f"{path}.{at}", a, b)
    else:
        yield path, _kind(one), _kind(other)


def _presence(is_there: bool) -> str:
    return "has it" if is_there else "has none"


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} entries" if len(value) != 1 else "1 entry"
    return {"NoneType": "null", "str": "a text", "dict": "an object"}.get(type(value).__name__, str(value))


def _shown_edges(instance: Instance) -> str:
    """`2 ← 1`: the second waits for the first."""
    edges = [(at + 1, before + 1) for at, row in enumerate(inner_edges(instance)) for before in row]
    return ", ".join(f"{at} ← {before}" for at, before in edges) or "none inside"

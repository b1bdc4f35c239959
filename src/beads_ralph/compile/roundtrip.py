"""Whether a formula gives back the very beads that it was made from; nothing is poured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from beads_ralph.bead.items import Item
from beads_ralph.compile.molecule import compose
from beads_ralph.compile.origin import Place, root_id
from beads_ralph.compile.setting import Setting
from beads_ralph.errors import RalphError
from beads_ralph.formula.model import Formula
from beads_ralph.formula.shape import Bead, Instance
from beads_ralph.formula.variables import Given, values

COMPARED: Final = ("title", "description", "issue_type", "priority", "assignee", "labels")


@dataclass(frozen=True)
class Loss:
    """One thing that does not come back as it was."""

    bead: str
    field: str
    wanted: Any
    got: Any


def losses(
    formula: Formula, rows: Sequence[Mapping[str, Given]], instances: Sequence[Instance], setting: Setting
) -> Iterator[Loss]:
    """Every difference between the beads of the instances and what their rows give."""
    for number, (row, instance) in enumerate(zip(rows, instances, strict=True), 1):
        place = Place(root_id(formula.name, number), setting.plan_file, number)
        try:
            molecule = compose(formula, values(formula, row), setting, place)
        except RalphError as refused:
            yield Loss(instance[0]["id"], "variables", "", refused.message)
            continue
        for fault in molecule.faults:
            yield Loss(instance[0]["id"], fault.field or "", "", fault.message)
        poured = {member.id: member.to_json() for member in molecule.members if not isinstance(member, Item)}
        yield from _between(instance, poured)


def _between(instance: Instance, poured: Mapping[str, Bead]) -> Iterator[Loss]:
    for bead in instance:
        if bead["id"] not in poured:
            yield Loss(bead["id"], "id", bead["id"], ", ".join(poured) or "no bead")
        else:
            yield from differences(bead, poured[bead["id"]])


def differences(one: Bead, other: Bead) -> Iterator[Loss]:
    """Where two beads are not the same, times and the place in a molecule aside."""
    for field in COMPARED:
        if one[field] != other[field]:
            yield Loss(one["id"], field, one[field], other[field])
    if set(one["dependencies"]) != set(other["dependencies"]):
        yield Loss(one["id"], "dependencies", one["dependencies"], other["dependencies"])
    for key in dict.fromkeys((*one["metadata"], *other["metadata"])):
        wanted, got = one["metadata"].get(key), other["metadata"].get(key)
        if wanted != got or (key in one["metadata"]) != (key in other["metadata"]):
            yield Loss(one["id"], f"metadata.{key}", wanted, got)

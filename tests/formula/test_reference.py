"""docs/reference/formula-reference.md names every field of the language, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beads_ralph.bead.field_types import FrozenModel
from beads_ralph.errors import Code
from beads_ralph.formula import expressions
from beads_ralph.formula.model import (
    GATE_TYPES,
    READERS_OWN,
    BranchRule,
    Compose,
    Formula,
    Step,
    StepGate,
    StepLoop,
    Var,
)

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "formula-reference.md").read_text(encoding="utf-8")
SECTIONS = dict(
    zip(*[iter(re.split(r"^##+ (.+)$", PAGE, flags=re.MULTILINE)[1:])] * 2, strict=True)  # heading, text
)


def first_cells(section: str) -> set[str]:
    rows = re.findall(r"^\|([^|]*)\|", SECTIONS[section], flags=re.MULTILINE)
    return {word for cell in rows for word in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize(
    ("section", "model"),
    [("The formula", Formula), ("Steps", Step), ("Loops", StepLoop), ("Gates", StepGate)],
)
def test_every_field_has_a_row_and_no_row_is_without_one(section: str, model: type[FrozenModel]) -> None:
    fields = {field.alias or name for name, field in model.model_fields.items()} - set(READERS_OWN)
    assert (
        first_cells(section) - ({"needs", "gate", "condition", "waits_for"} if model is StepLoop else set())
        == fields
    )


def test_every_field_of_a_variable_has_a_row() -> None:
    assert set(Var.model_fields) <= first_cells("Variables")


def test_every_rule_of_derive_has_a_row_and_no_row_is_without_one() -> None:
    assert first_cells("Variables that follow from others") == set(expressions.DERIVATIONS)


@pytest.mark.parametrize("model", [BranchRule, Compose])
def test_every_rule_of_compose_is_named(model: type[FrozenModel]) -> None:
    names = {field.alias or name for name, field in model.model_fields.items()} - {"branch"}
    assert [name for name in names if f"`{name}`" not in SECTIONS["Branches"]] == []


def test_every_type_of_a_gate_is_named() -> None:
    assert [kind for kind in GATE_TYPES if f"`{kind}`" not in SECTIONS["Gates"]] == []


def test_the_codes_it_names_exist() -> None:
    assert set(re.findall(r"FORMULA\.[A-Z_]+", PAGE)) <= {str(code) for code in Code}

"""What is given, checked against what a formula asks for."""

from __future__ import annotations

from typing import Any

import pytest

from beads_ralph.errors import Code, RalphError
from beads_ralph.formula import expressions
from beads_ralph.formula.variables import Given, values
from tests.formula.recipes import faults, formula, step


def refused(made: Any, given: dict[str, Given], row: str = "") -> RalphError:
    with pytest.raises(RalphError) as caught:
        values(made, given, row=row)
    return caught.value


def codes(error: RalphError) -> dict[str | None, Code]:
    return {fault.field: fault.code for fault in error.faults}


def one(var: Any, *, text: str = "{{v}}") -> Any:
    return formula(step("s", title=f"t {text}"), variables={"v": var})


# --- what is missing --------------------------------------------------------------------------------


def test_every_fault_is_told_at_once_those_that_are_missing_first() -> None:
    made = formula(
        step("s", title="{{a}} {{b}} {{c}}"),
        variables={"a": {"enum": ["x"]}, "b": {"required": True, "description": "the b"}, "c": {}},
    )
    error = refused(made, {"a": "y", "bb": "1"})
    assert error.code is Code.MISSING_VAR
    assert codes(error) == {
        "vars.b": Code.MISSING_VAR,
        "vars.c": Code.MISSING_VAR,
        "vars.a": Code.INVALID_VAR,
        "vars.bb": Code.INVALID_VAR,
    }
    assert "the b" in error.faults[0].message
    assert "--var b=" in error.faults[0].remedy


def test_a_row_is_named_as_the_place() -> None:
    error = refused(one({"required": True}), {}, row="rows.csv:3")
    assert str(error.faults[0]).startswith("rows.csv:3: ")


@pytest.mark.parametrize("given", [{}, {"v": ""}, {"v": []}])
def test_a_variable_without_a_default_must_have_a_value(given: dict[str, Given]) -> None:
    assert codes(refused(one({}), given)) == {"vars.v": Code.MISSING_VAR}


def test_a_required_variable_is_demanded_also_where_nothing_uses_it() -> None:
    assert codes(refused(one({"required": True}, text=""), {})) == {"vars.v": Code.MISSING_VAR}


def test_an_unused_variable_without_a_default_is_not_demanded() -> None:
    assert values(one({}, text=""), {}).texts() == {}


def test_an_empty_default_counts_as_a_value_whatever_the_rules() -> None:
    assert values(one({"default": "", "enum": ["x"], "pattern": "x"}), {}).text("v") == ""


def test_what_only_a_condition_asks_for_is_empty_where_it_is_not_given() -> None:
    made = formula(step("a"), step("s", title="{{u}}", condition="{{v}}"), variables={"v": {}, "u": {}})
    assert "v" not in values(made, {})
    assert codes(refused(made, {"v": "1"})) == {"vars.u": Code.MISSING_VAR}


def test_names_that_are_not_declared_are_text_where_others_are_declared() -> None:
    made = formula(step("s", title="{{a}} {{else}}"), variables={"a": "A"})
    assert values(made, {}).texts() == {"a": "A"}
    assert values(made, {"else": "E"}).texts() == {"a": "A", "else": "E"}


def test_without_any_declared_variable_every_name_is_demanded() -> None:
    made = formula(step("s", title="{{a}}", labels=["{{b}}"]))
    assert codes(refused(made, {})) == {"vars.a": Code.MISSING_VAR, "vars.b": Code.MISSING_VAR}
    assert values(made, {"a": "1", "b": "2"}).texts() == {"a": "1", "b": "2"}


def test_an_unknown_name_is_refused_with_the_one_that_was_meant() -> None:
    error = refused(one({"default": "x"}), {"w": "1", "vv": "2"})
    assert {fault.code for fault in error.faults} == {Code.INVALID_VAR}
    assert "did you mean v?" in error.faults[1].message


# --- what is wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("var", "given", "value"),
    [
        ({}, "x", "x"),
        ({}, 3, "3"),
        ({}, True, "true"),
        ({}, " x ", " x "),
        ({"enum": ["a", "b"]}, "b", "b"),
        ({"pattern": "^[a-z]+$"}, "abc", "abc"),
        ({"pattern": "b"}, "abc", "abc"),
        ({"type": "int"}, "12", 12),
        ({"type": "int"}, " -3 ", -3),
        ({"type": "int"}, 5, 5),
        ({"type": "int", "enum": [1, 2]}, "2", 2),
        ({"type": "bool"}, "yes", True),
        ({"type": "bool"}, "Off", False),
        ({"type": "bool"}, True, True),
        ({"type": "list"}, "a\r\n b\n\n", ("a", "b")),
        ({"type": "list"}, '["a b", 2, ""]', ("a b", "2")),
        ({"type": "list"}, ["x", "y"], ("x", "y")),
        ({"type": "list", "enum": ["x", "y"]}, "y\nx", ("y", "x")),
        ({"type": "list"}, "one", ("one",)),
    ],
)
def test_values_that_are_taken(var: dict[str, Any], given: Given, value: Any) -> None:
    assert values(one(var), {"v": given})["v"] == value


@pytest.mark.parametrize(
    ("var", "given"),
    [
        ({"enum": ["a", "b"]}, "c"),
        ({"enum": ["a"], "default": "a"}, ""),
        ({"pattern": "^[a-z]+$"}, "aB"),
        ({"type": "int"}, "1.5"),
        ({"type": "int"}, "x"),
        ({"type": "int"}, "9" * 5000),
        ({"type": "bool"}, "maybe"),
        ({"type": "list"}, "[1,"),
        ({"type": "list"}, '[{"a": 1}]'),
        ({"type": "list", "pattern": "^x"}, "xa\nb"),
        ({}, ["a", "b"]),
    ],
)
def test_values_that_are_refused(var: dict[str, Any], given: Given) -> None:
    error = refused(one(var), {"v": given})
    assert codes(error) == {"vars.v": Code.INVALID_VAR}


def test_what_a_loop_counts_with_is_a_whole_number() -> None:
    loop = {"range": "1..{n}", "body": [step("w")]}
    made = formula(step("fan", loop=loop), variables={"n": {}})
    assert codes(refused(made, {})) == {"vars.n": Code.MISSING_VAR}
    assert codes(refused(made, {"n": "many"})) == {"vars.n": Code.INVALID_VAR}
    assert values(made, {"n": "2"}).text("n") == "2"


def test_values_are_text_entries_and_kind() -> None:
    variables = {"n": {"type": "int"}, "b": {"type": "bool"}, "xs": {"type": "list"}, "s": {}}
    made = formula(step("s"), variables=variables)
    found = values(made, {"n": 1, "b": "no", "xs": "p\nq", "s": "t"})
    assert found.texts() == {"n": "1", "b": "false", "xs": "p\nq", "s": "t"}
    assert found.entries("xs") == ("p", "q")
    assert found.entries("s") == ("t",)
    assert dict(found) == {"n": 1, "b": False, "xs": ("p", "q"), "s": "t"}


# --- what follows from others -----------------------------------------------------------------------

DERIVED = {
    "sprint_id": {"required": True},
    "slug": {"derive": "dashed(sprint_id)"},
    "tasks": {"type": "list"},
    "prose": {"derive": "sentences(tasks)"},
}


def test_a_variable_follows_from_another_unless_it_is_given() -> None:
    made = formula(step("a", description="{{slug}}: {{prose}}"), variables=DERIVED)
    found = values(made, {"sprint_id": "2.1", "tasks": ["One.", "Two"]})
    assert (found["slug"], found["prose"]) == ("2-1", "One. Two.")
    assert values(made, {"sprint_id": "2.1", "tasks": "x", "slug": "mine"})["slug"] == "mine"


def test_what_is_missing_is_what_it_follows_from() -> None:
    made = formula(step("a", description="{{slug}}: {{prose}}"), variables=DERIVED)
    with pytest.raises(RalphError) as caught:
        values(made, {})
    assert [field for field, _ in faults(caught.value)] == ["vars.sprint_id", "vars.tasks"]


def test_what_follows_keeps_the_rules_too() -> None:
    rule = {"title": {"required": True}, "name": {"derive": "slug(title)", "pattern": "^[a-z]+$"}}
    made = formula(step("a", description="{{name}}"), variables=rule)
    with pytest.raises(RalphError) as caught:
        values(made, {"title": "Nr 5"})
    ((field, message),) = faults(caught.value)
    assert field == "vars.name"
    assert "follows from title" in message


@pytest.mark.parametrize(
    ("rule", "source", "expected"),
    [
        ("dashed", "3a.2b", "3a-2b"),
        ("phase", "3a.2b", "3a"),
        ("phase_number", "3a.2b", "03"),
        ("phase_number", "112.1", "112"),
        ("phase_number", "x", ""),
        ("slug", "Größe & Mehr", "grosse-mehr"),
        ("branch_slug", "数 Count", "count"),
        ("sentences", "One\nTwo.", "One. Two."),
        ("bullets", ["One", "Two"], "- One\n- Two"),
    ],
)
def test_the_rules(rule: str, source: str | list[str], expected: str) -> None:
    call = expressions.parse_derivation(f"{rule}(x)")
    assert call is not None
    assert call.value(source) == expected
    assert str(call) == f"{rule}(x)"

"""The text of a formula's file says what the formula says."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beads_ralph.errors import Code, RalphError
from beads_ralph.formula.file_format import cell, dumps, null_in, sheet

NASTY = ['"', "\\", "\n", "\r", "a", "'", "{{x}}", "#", "\t", "=", "[", "%s", "\x7f", "é", "\u2028", " "]
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(st.sampled_from(NASTY), max_size=9).map(
    "".join
)
SCALARS = (
    TEXTS
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
@example({"a": '\n"""'})
@example({"a": '\n""""'})
@example({"a": "\\\n"})
@example({"a": {"b": {"c": {}}, "d": [{}, {}]}})
@example({"a": [{"b": 1}, 2, {"c d": {}}]})
def test_toml_and_json_give_back_what_was_written(value: dict[str, Any]) -> None:
    assert tomllib.loads(dumps(value, "toml")) == value
    assert json.loads(dumps(value, "json")) == value


def test_toml_reads_as_a_person_would_write_it() -> None:
    formula = {
        "formula": "work",
        "version": 1,
        "vars": {"sprint_id": {"required": True, "pattern": r"^\d+$"}},
        "steps": [
            {
                "id": "a",
                "title": "{{title}}",
                "labels": ["x", "y"],
                "metadata": {"dev_agents": [{"role": "p"}]},
            },
            {"id": "b", "description": 'One\n"two"'},
        ],
    }
    assert dumps(formula, "toml") == (
        'formula = "work"\n'
        "version = 1\n"
        "\n"
        "[vars.sprint_id]\n"
        "required = true\n"
        "pattern = '^\\d+$'\n"
        "\n"
        "[[steps]]\n"
        'id = "a"\n'
        'title = "{{title}}"\n'
        'labels = ["x", "y"]\n'
        "\n"
        "[[steps.metadata.dev_agents]]\n"
        'role = "p"\n'
        "\n"
        "[[steps]]\n"
        'id = "b"\n'
        'description = """\nOne\n"two\\""""\n'
    )


def test_toml_has_no_null_and_says_where_one_is() -> None:
    formula = {"steps": [{"metadata": {"dev_agents": [{"model": None}]}}]}
    assert null_in(formula) == "steps[0].metadata.dev_agents[0].model"
    assert null_in({"a": [0, "", False, {}]}) is None
    with pytest.raises(RalphError, match=r"metadata\.dev_agents\.model is null") as caught:
        dumps(formula, "toml")
    assert caught.value.code == Code.FORMULA_INVALID
    assert json.loads(dumps(formula, "json")) == formula


def test_cells_hold_lists_as_lines_where_lines_say_the_same() -> None:
    assert cell(["one", "two"]) == "one\ntwo"
    assert cell([]) == ""
    assert cell(["one\ntwo"]) == '["one\\ntwo"]'
    assert cell(["[x]"]) == '["[x]"]'
    assert cell([" one"]) == '[" one"]'
    assert (cell(True), cell(3), cell("x")) == ("true", "3", "x")
    assert sheet([{"a": "x,y", "b": ["1", "2"]}], "csv") == 'a,b\n"x,y","1\n2"\n'

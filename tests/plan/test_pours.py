"""**Formula** and **Pour**: the name of a formula and the values of its variables, each with its line."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.plan import At, Given
from beads_ralph.plan.model import Sprint
from tests.plan.plans import fault_lines, only, sprint_plan


def said(body: str) -> tuple[str | None, dict[str, Given]]:
    sprint = only(body)
    return named(sprint), values(sprint)


def named(sprint: Sprint) -> str | None:
    return sprint.formula.value if sprint.formula else None


def values(sprint: Sprint) -> dict[str, Given]:
    return {name: value.value for name, value in sprint.pour.values.items()} if sprint.pour else {}


# --- where a formula is named -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "**Formula**: feature\n**Pour**: name=api\n",
        "**Formula**: `feature` (the shipped one)\n\n**Pour**:\n- name: api\n",
        "**Pour**: formula=feature, name=api\n",
        "**Pour**: formula: feature, name: api\n",
        "**Pour**:\n- formula: feature\n- name: api\n",
        "**Pour**: formula=feature\n- name: api\n",
        "**Pour**:\n```yaml\nformula: feature\nname: api\n```\n",
        "**Pour**:\n```\nformula=feature\nname=api\n```\n",
        '**Pour**:\n```json\n{"formula": "feature", "vars": {"name": "api"}}\n```\n',
        "**Pour**: template=feature, name=api\n",
        "**Pour**:\n- template: feature\n- name: api\n",
        "#### Formula\n- feature\n\n#### Pour\n- name: api\n",
        "**Formula**: feature\n**Pour**: formula=feature, name=api\n",
    ],
)
def test_a_formula_is_named_by_formula_or_inside_of_pour(body: str) -> None:
    assert said(body) == ("feature", {"name": "api"})


@pytest.mark.parametrize(
    "body", ["**Template**: feature\n**Tasks**: x\n", "**Formula**: none\n", "**Formula**: -\n"]
)
def test_nothing_else_makes_a_sprint_formula_driven(body: str) -> None:
    sprint = only(body)
    assert (sprint.is_poured, sprint.formula, sprint.pour) == (False, None, None)


def test_template_in_pour_is_a_variable_where_the_formula_is_named_elsewhere() -> None:
    assert said("**Formula**: a\n**Pour**: template=feature\n") == ("a", {"template": "feature"})
    assert said("**Pour**: formula=a, template=feature\n") == ("a", {"template": "feature"})


def test_the_prompt_template_and_the_formula_stand_beside_one_another() -> None:
    sprint = only("**Template**: bug-fix\n**Formula**: a\n")
    assert (sprint.template, sprint.formula) == (At("bug-fix", 2), At("a", 3))


# --- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("name=api, model=opus", {"name": "api", "model": "opus"}),
        ("name=api model=opus", {"name": "api", "model": "opus"}),
        ("name = api, model = opus", {"name": "api", "model": "opus"}),
        ("name: api, title: Fix: it", {"name": "api", "title": "Fix: it"}),
        ('title="The API, and more", n=1', {"title": "The API, and more", "n": "1"}),
        ("title='It, too', n=1", {"title": "It, too", "n": "1"}),
        ("title='say \"hi\", now'", {"title": 'say "hi", now'}),
        ("title=`a, b`, glob=`*.py`, other=`*.md`", {"title": "a, b", "glob": "*.py", "other": "*.md"}),
        ("`name=api`, `model=opus`", {"name": "api", "model": "opus"}),
        ("`name=api, model=opus`", {"name": "api", "model": "opus"}),
        ("parts=[api, web], n=1", {"parts": ("api", "web"), "n": "1"}),
        ('parts=["a, b", c], none=[]', {"parts": ("a, b", "c"), "none": ()}),
        ("sprint_id=1.10, yes=true, version=007", {"sprint_id": "1.10", "yes": "true", "version": "007"}),
        ("url=https://example.org/a?b=c&d=e, x=", {"url": "https://example.org/a?b=c&d=e", "x": ""}),
        ("snake_case_name=my_long_name", {"snake_case_name": "my_long_name"}),
        ("name=api,\nmodel=opus", {"name": "api", "model": "opus"}),
    ],
)
def test_values_on_the_line(line: str, expected: Mapping[str, Given]) -> None:
    assert said(f"**Formula**: f\n**Pour**: {line}\n") == ("f", expected)


@pytest.mark.parametrize(
    ("bullets", "expected"),
    [
        ("- name: api\n- model = opus", {"name": "api", "model": "opus"}),
        ("- `name`: `api`\n- **model**: opus", {"name": "api", "model": "opus"}),
        ("- title: Fix this, then: that", {"title": "Fix this, then: that"}),
        ("- name=api, model=opus", {"name": "api", "model": "opus"}),
        ("- parts:\n  - api\n  - web: old\n    and new", {"parts": ("api", "web: old and new")}),
        ("- parts: [api, web]\n- ~~gone: 1~~", {"parts": ("api", "web")}),
        ('- title: "quoted, too"\n- empty:', {"title": "quoted, too", "empty": ""}),
        ("- text:\n  ```\n  one\n  two\n  ```", {"text": "one\ntwo"}),
        ("1. name: api\n2. model: opus", {"name": "api", "model": "opus"}),
    ],
)
def test_values_as_bullets(bullets: str, expected: Mapping[str, Given]) -> None:
    assert said(f"**Formula**: f\n\n**Pour**:\n{bullets}\n") == ("f", expected)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("name: api\nsprint_id: 1.10\nyes: true", {"name": "api", "sprint_id": "1.10", "yes": "true"}),
        ("parts: [api, web]\nmore:\n  - a\n  - b", {"parts": ("api", "web"), "more": ("a", "b")}),
        ("text: |\n  one\n  two", {"text": "one\ntwo"}),
        ("title: Fix: it\nname: api", {"title": "Fix: it", "name": "api"}),
        ('# a note\nname=api\n\nparts=[a, b]\nq="x y"', {"name": "api", "parts": ("a", "b"), "q": "x y"}),
        ("name=api, and more\nother: 2", {"name": "api, and more", "other": "2"}),
        ('{"name": "api", "n": 2, "parts": ["a", 1]}', {"name": "api", "n": "2", "parts": ("a", "1")}),
    ],
)
def test_values_in_a_fenced_block(block: str, expected: Mapping[str, Given]) -> None:
    assert said(f"**Formula**: f\n**Pour**:\n\n```\n{block}\n```\n") == ("f", expected)


def test_all_three_places_may_be_used_at_once_and_every_value_knows_its_line() -> None:
    sprint = only("**Pour**: formula=f, a=1\n- b: 2\n\n```\nc: 3\nd: 4\n```\n")
    assert sprint.pour is not None
    assert sprint.formula == At("f", 2)
    assert {name: value.line for name, value in sprint.pour.values.items()} == {
        "a": 2,
        "b": 3,
        "c": 6,
        "d": 7,
    }


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=20)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("formula", "template", "vars")
)
GIVEN = st.dictionaries(NAMES, TEXTS | st.lists(TEXTS, max_size=4).map(tuple), max_size=5)


@given(GIVEN)
def test_law_whatever_is_written_as_json_or_yaml_comes_back(given_values: dict[str, Given]) -> None:
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in given_values.items()}
    for block in (json.dumps(plain, indent=1), yaml.safe_dump(plain, allow_unicode=True)):
        fenced = "\n".join(["~~~~~~", block.rstrip("\n"), "~~~~~~"])
        assert said(f"**Formula**: f\n**Pour**:\n\n{fenced}\n") == ("f", given_values)


# --- faults -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "line", "words"),
    [
        ("**Pour**: name=api\n", "PARSE.MISSING_SECTION", 2, "names no formula"),
        ("**Pour**: feature\n", "PARSE.INVALID_PATTERN", 2, "'feature' where name=value"),
        ("**Formula**: f\n**Pour**: a=x, y, b=1\n", "PARSE.INVALID_PATTERN", 3, "'y' where name=value"),
        ("**Formula**: f\n**Pour**:\n- a: 1\n- what\n", "PARSE.INVALID_PATTERN", 5, "'what'"),
        ("**Formula**: f\n**Pour**: a=1\n- a: 2\n", "PARSE.INVALID_PATTERN", 4, "a twice, first on line 3"),
        ("**Formula**: f\n**Pour**:\n```\na: 1\na: 2\n```\n", "PARSE.INVALID_PATTERN", 6, "a twice"),
        (
            "**Formula**: f\n**Pour**:\n```\nb: 1\na: {x: 1}\n```\n",
            "PARSE.INVALID_PATTERN",
            6,
            "text or a list",
        ),
        ("**Formula**: f\n**Pour**:\n```\na: [[1]]\n```\n", "PARSE.INVALID_PATTERN", 5, "text or a list"),
        (
            "**Formula**: f\n**Pour**:\n```\na: 1\nb:\n  - [\n```\n",
            "PARSE.INVALID_PATTERN",
            8,
            "neither YAML",
        ),
        ("**Formula**: f\n**Pour**:\n```\njust words\n```\n", "PARSE.INVALID_PATTERN", 5, "'just words'"),
        ('**Formula**: f\n**Pour**:\n```\n{"a": "\\ud83d"}\n```\n', "PARSE.INVALID_PATTERN", 5, "half of a"),
        ("**Formula**: f\n**Pour**: formula=g\n", "PARSE.INVALID_PATTERN", 3, "'f' and **Pour** says 'g'"),
        ("**Pour**: formula=[a, b]\n", "PARSE.INVALID_PATTERN", 2, "one formula"),
        ("**Formula**: f\n- a: 1\n", "PARSE.INVALID_PATTERN", 3, "below **Pour**"),
        ("**Formula**: f\n**Formula**: g\n", "PARSE.MARKDOWN", 3, "twice"),
    ],
)
def test_faults_are_told_once_at_their_line(body: str, code: str, line: int, words: str) -> None:
    plan = sprint_plan(body)
    assert fault_lines(plan) == [(code, line)]
    assert words in plan.faults[0].message
    assert plan.faults[0].remedy

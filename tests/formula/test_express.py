"""Texts are said with known variables where that is evident in every instance, and only there."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.formula.columns import Template, Variable, express, filled, known, text_of

SPRINTS = ["2.1", "2.2", "3a.12"]
SLUGS = ["2-1", "2-2", "3a-12"]
NAMES = ["users", "users-list", "x"]


def variables() -> list[Variable]:
    found = [Variable("sprint_id", SPRINTS), Variable("sprint_slug", SLUGS), Variable("name", NAMES)]
    for variable in found:
        variable.name = variable.base
    return found


def expressed(*values: str) -> str | None:
    template = express(values, [known(variable) for variable in variables()])
    return None if template is None else text_of(template)


def test_names_are_made_of_what_is_known() -> None:
    ids = [f"bd-{slug}-{name}" for slug, name in zip(SLUGS, NAMES, strict=True)]
    assert expressed(*ids) == "bd-{{sprint_slug}}-{{name}}"
    assert expressed(*(f"Sprint {sprint} - it" for sprint in SPRINTS)) == "Sprint {{sprint_id}} - it"


def test_one_value_that_begins_another_does_not_mislead() -> None:
    assert expressed("users-list", "users-list-list", "x-list") == "{{name}}-list"
    assert expressed("users.users", "users-list.users-list", "x.x") == "{{name}}.{{name}}"


def test_parts_of_words_are_no_evidence() -> None:
    assert expressed("v2.1", "v2.2", "v3a.12") is None
    assert expressed("usersTable", "users-listTable", "xTable") is None


def test_a_text_that_only_some_instances_explain_is_not_expressed() -> None:
    assert expressed("about users", "about users-list", "about y") is None


def test_braces_around_a_variable_are_safe_or_refused() -> None:
    values = [f"{{{{{name}}}}}" for name in NAMES]
    assert values[0] == "{{users}}"
    assert expressed(*values) == "{{{{name}}}}"
    literal = ["{{name}} " + name for name in NAMES]
    assert expressed(*literal) is None, "the text's own braces would be read as the variable"


def test_the_one_instance_that_objects_is_heard_however_many_agree() -> None:
    sprint = Variable("sprint_id", [f"1.{n}" for n in range(1000)])
    right = [f"see 1.{n}" for n in range(1000)]
    assert express(right, [known(sprint)]) == ("see ", sprint)
    assert express([*right[:617], "see 1.1", *right[618:]], [known(sprint)]) is None


WORDS = st.text(string.ascii_lowercase + " -{}.%1", min_size=0, max_size=6)


@given(st.data())
def test_what_is_found_gives_every_value_back(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    columns = st.lists(WORDS, min_size=count, max_size=count)
    words = [Variable("v", data.draw(columns)) for _ in range(3)]
    pieces: Template = tuple(data.draw(st.lists(st.sampled_from(words) | WORDS, max_size=5)))
    values = [filled(pieces, at) for at in range(count)] if data.draw(st.booleans()) else data.draw(columns)
    template = express(values, [known(word) for word in words])
    if template is not None:
        assert [filled(template, at) for at in range(count)] == list(values)

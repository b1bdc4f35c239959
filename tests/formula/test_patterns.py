"""Which sprints and phases repeat, found without comparing each with each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beads_ralph.config.model import Config
from beads_ralph.formula.definitions import by_shape, find_parting
from beads_ralph.formula.repeats import Pattern, find
from beads_ralph.formula.worth import ENOUGH
from tests.compile.plans import beads_of, plan, sprint
from tests.formula.plans import SETTING, endpoint, instances, sample, surroundings
from tests.formula.test_make import PHASES, THREE


def found(text: str) -> list[Pattern]:
    agents = {"source_branch": "main", "dev_agents": ["claude (sonnet)"], "qa_agents": ["claude (haiku)"]}
    setting = replace(SETTING, config=Config.model_validate({"plan": agents}))
    beads = beads_of(text, setting, agent_check=False)
    return find({name: bead.to_json() for name, bead in beads.items()}, surroundings)


def test_a_pattern_tells_what_stays_and_what_varies() -> None:
    (pattern,) = found(THREE)
    assert pattern.name == "endpoint"
    assert pattern.sprints == "2.1,2.2,3.1"
    assert (pattern.beads, pattern.is_bulk) == (3, False)
    assert pattern.constant["metadata.source_branch"] == "develop"
    assert pattern.varying["title"] == ["Users endpoint", "Orders endpoint", "Bills endpoint"]
    assert pattern.varying["metadata.dev_prompts"][1] == ["Write orders/model.py", "Document it"]
    assert not set(pattern.constant) & set(pattern.varying)
    assert "resource" in pattern.made.formula["vars"]


def test_phases_of_the_same_make_up_come_first_of_those_that_replace_as_much() -> None:
    (phases,) = found(PHASES)
    assert phases.sprints == "2.1+2.2,3.1+3.2"
    assert phases.steps == ["work", "check"]
    assert phases.beads == 4
    assert phases.constant["check.title"] == "Check"


def test_ten_are_a_bulk() -> None:
    things = ("ants", "bees", "cats", "dogs", "eels", "flies", "goats", "hares", "ibises", "jays")
    rows = [endpoint(f"1.{at}", thing) for at, thing in enumerate(things)]
    sizes = {n: found(plan(*rows[:n]))[0].is_bulk for n in (9, 10)}
    assert sizes == {9: False, 10: True}


def shapes(text: str) -> list[str]:
    """The sprints of one shape together, where there are several."""
    beads = beads_of(text, agent_check=False).values()
    groups = by_shape([bead.to_json()] for bead in beads)
    return [",".join(one[0]["metadata"]["sprint"] for one in group) for group in groups if len(group) > 1]


def test_lists_of_texts_may_differ_in_length_but_not_lists_of_checks() -> None:
    lists = plan(sprint("1.1", "A", tasks=["a"]), sprint("1.2", "B", tasks=["a", "b"], labels="x"))
    assert shapes(lists) == ["1.1,1.2"]
    checks = plan(sprint("1.1", "A", verify="`a`"), sprint("1.2", "B"))
    assert shapes(checks) == []


def test_phases_with_other_edges_inside_are_not_the_same() -> None:
    things = (("2.1", "users"), ("2.2", "bills"), ("3.1a", "orders"), ("3.1b", "items"))
    text = plan(*(endpoint(number, thing) for number, thing in things))
    assert [pattern.sprints for pattern in found(text)] == ["2.1,2.2,3.1a,3.1b"]


def test_a_merge_is_no_work() -> None:
    text = plan(
        sprint("1.1a", "A"), sprint("1.1b", "B"), sprint("1.2", "Merge both"), sprint("1.3", "C"),
    )  # fmt: skip
    assert shapes(text) == ["1.1a,1.1b,1.3"]


def test_what_parts_is_named_with_who_would_fit() -> None:
    text = plan(sprint("1.1", "A"), sprint("1.2", "B", verify="`x`"), sprint("1.3", "C"))
    parting = find_parting(instances(text, "1.1", "1.2", "1.3"))
    assert parting is not None
    assert (parting.field, parting.one, parting.other) == ("metadata.dod", "has none", "has it")
    assert (parting.odd, parting.fitting) == ("1.2", ["1.1,1.3", "1.2"])
    assert find_parting(instances(text, "1.1", "1.3")) is None


def test_parting_of_groups_names_sizes_edges_and_numbers_of_entries() -> None:
    text = plan(
        sprint("1.1", "A"), sprint("1.2", "B"), sprint("2.1a", "C"), sprint("2.1b", "D"),
        sprint("3.1", "E", qa_agents="\n- claude\n- claude (opus)"),
    )  # fmt: skip
    sizes = find_parting(instances(text, "1.1+1.2", "2.1a"))
    assert sizes is not None
    assert (sizes.field, sizes.one, sizes.other) == ("sprints", "2", "1")
    entries = find_parting(instances(text, "1.1", "3.1"))
    assert entries is not None
    assert (entries.field, entries.one, entries.other) == ("metadata.qa_agents", "1 entry", "2 entries")
    edges = find_parting(instances(text, "1.1+1.2", "2.1a+2.1b"))
    assert edges is not None
    assert (edges.field, edges.one, edges.other) == ("dependencies", "2 ← 1", "none inside")


def readme() -> str:
    """The plan that the README shows."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    start = text.index("### Sprint 1.1")
    return text[start : text.index("\nEND", start)]


@pytest.mark.parametrize(
    "text", [readme(), sample("harbour.md"), sample("service.md"), sample("todo-app.md")]
)
def test_sprints_that_only_have_the_same_form_are_not_worth_a_formula(text: str) -> None:
    assert found(text) == []


def test_repeats_among_other_sprints_are_found_all_the_same() -> None:
    things = (("9.1", "users"), ("9.2", "orders"), ("9.3", "bills"))
    text = "\n".join((sample("harbour.md"), *(endpoint(number, thing) for number, thing in things)))
    (pattern,) = found(text)
    assert pattern.sprints == "9.1,9.2,9.3"
    assert pattern.score > ENOUGH

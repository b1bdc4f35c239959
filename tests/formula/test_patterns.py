"""Which sprints and phases repeat, found without comparing each with each."""

from __future__ import annotations

from beads_ralph.formula.definitions import find_parting
from beads_ralph.formula.patterns import Pattern, find
from tests.compile.plans import beads_of, plan, sprint
from tests.formula.plans import endpoint, instances, sample, surroundings
from tests.formula.test_make import PHASES, THREE


def found(text: str) -> list[Pattern]:
    return find(
        {name: bead.to_json() for name, bead in beads_of(text, agent_check=False).items()}, surroundings
    )


def test_a_pattern_tells_what_stays_and_what_varies() -> None:
    (pattern,) = found(THREE)
    assert pattern.name == "endpoint"
    assert pattern.sprints == "2.1,2.2,3.1"
    assert (pattern.beads, pattern.is_bulk) == (3, False)
    assert pattern.constant["metadata.source_branch"] == "develop"
    assert pattern.varying["title"] == ["Users endpoint", "Orders endpoint", "Bills endpoint"]
    assert pattern.varying["metadata.dev_prompts"][1] == ["Write orders/model.py", "Document it"]
    assert not set(pattern.constant) & set(pattern.varying)
    assert "title" in pattern.made.formula["vars"]


def test_phases_of_the_same_make_up_come_first_of_those_that_replace_as_much() -> None:
    phases, *others = found(PHASES)
    assert phases.sprints == "2.1+2.2,3.1+3.2"
    assert phases.steps == ["work", "check"]
    assert phases.beads == 4
    assert phases.constant["check.title"] == "Check"
    assert [pattern.sprints for pattern in others] == ["2.1,2.2,3.1,3.2"]


def test_ten_are_a_bulk() -> None:
    sizes = {n: found(plan(*(endpoint(f"1.{k}", f"x{k}") for k in range(n))))[0].is_bulk for n in (9, 10)}
    assert sizes == {9: False, 10: True}


def test_lists_of_texts_may_differ_in_length_but_not_lists_of_checks() -> None:
    lists = plan(sprint("1.1", "A", tasks=["a"]), sprint("1.2", "B", tasks=["a", "b"], labels="x"))
    assert [pattern.sprints for pattern in found(lists)] == ["1.1,1.2"]
    checks = plan(sprint("1.1", "A", verify="`a`"), sprint("1.2", "B"))
    assert found(checks) == []


def test_phases_with_other_edges_inside_are_not_the_same() -> None:
    text = plan(
        sprint("2.1", "A"), sprint("2.2", "B"), sprint("3.1a", "C"), sprint("3.1b", "D"),
    )  # fmt: skip
    assert [pattern.sprints for pattern in found(text)] == ["2.1,2.2,3.1a,3.1b"]


def test_a_merge_is_no_work() -> None:
    text = plan(
        sprint("1.1a", "A"), sprint("1.1b", "B"), sprint("1.2", "Merge both"), sprint("1.3", "C"),
    )  # fmt: skip
    assert [pattern.sprints for pattern in found(text)] == ["1.1a,1.1b,1.3"]


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


def test_the_sample_plans_have_the_patterns_that_a_reader_sees() -> None:
    service = found(sample("service.md"))
    assert service[0].sprints == "1.2a,1.2b,2a.1,2b.1"

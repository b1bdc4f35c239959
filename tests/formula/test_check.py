"""Everything that is wrong with a formula, by field; and what is merely odd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.formula.bd_compatible import why_not_plain
from beads_ralph.formula.check import check
from beads_ralph.formula.file_format import parse
from tests.formula.recipes import formula, step

LOOP = {"count": 2, "body": [step("w")]}


def fields(*steps: dict[str, Any], **more: Any) -> list[str | None]:
    return [fault.field for fault in check(formula(*steps, **more)).faults]


def warned(*steps: dict[str, Any], **more: Any) -> list[str | None]:
    report = check(formula(*steps, **more))
    assert report.faults == ()
    return [warning.field for warning in report.warnings]


def test_a_sound_formula_has_no_fault_and_no_warning() -> None:
    made = formula(
        step("a", title="{{v}}"),
        step("b", "a", gate={"type": "timer", "timeout": "1h30m"}, condition="{{v}} == x"),
        step("c", "b", loop={"range": "1..{n}", "var": "i", "body": [step("d", title="{i}")]}),
        step("e", "c", waits_for="all-children", priority=0),
        variables={"v": {"default": "x", "enum": ["x", "y"], "pattern": "^."}, "n": {"type": "int"}},
        phase="liquid",
    )
    report = check(made)
    assert (report.faults, report.warnings) == ((), ())


@pytest.mark.parametrize(
    ("steps", "field"),
    [
        ([step("", title="x")], "steps[0].id"),
        ([step("a b")], "steps[0].id"),
        ([step("a/../b")], "steps[0].id"),
        ([step("-a")], "steps[0].id"),
        ([step("a" * 81)], "steps[0].id"),
        ([step("a"), step("a")], "steps[1].id"),
        ([step("a", children=[step("b")]), step("b")], "steps[1].id"),
        ([step("f", loop={"count": 1, "body": [step("w"), step("w")]})], "steps[0].loop.body[1].id"),
        ([step("a", title=" ")], "steps[0].title"),
        ([step("e", children=[step("a", title="")])], "steps[0].children[0].title"),
        ([step("f", loop={"count": 1, "body": [step("w", title="")]})], "steps[0].loop.body[0].title"),
        ([step("a", priority=5)], "steps[0].priority"),
        ([step("a", priority=-1)], "steps[0].priority"),
        ([step("a", priority="{{p}}")], "steps[0].priority"),
        ([step("a", "b")], "steps[0].needs[0]"),
        ([step("a"), step("b", depends_on=["a", "c"])], "steps[1].depends_on[1]"),
        ([step("f", loop=LOOP), step("b", "w")], "steps[1].needs[0]"),
        ([step("f", loop=LOOP), step("b", "f.iter1.w")], "steps[1].needs[0]"),
        ([step("f", loop={"count": 1, "body": [step("w", "x")]})], "steps[0].loop.body[0].needs[0]"),
        ([step("a", "a")], "steps[0].needs"),
        ([step("a", "b"), step("b", "c"), step("c", "a")], "steps[0].needs"),
        ([step("e", children=[step("c", "e")])], "steps[0].needs"),
        ([step("e", "b", children=[step("c")]), step("b", "c")], "steps[0].needs"),
        ([step("f", loop={"count": 1, "body": [step("w", "f")]})], "steps[0].needs"),
        ([step("a"), step("b", "a", waits_for="all")], "steps[1].waits_for"),
        ([step("a", waits_for="children-of()")], "steps[0].waits_for"),
        ([step("a", waits_for="children-of(x)")], "steps[0].waits_for"),
        ([step("a", condition="v")], "steps[0].condition"),
        ([step("a", condition="{{v}} > 3")], "steps[0].condition"),
        ([step("a", condition="{{v}} ==")], "steps[0].condition"),
        ([step("a", condition="{{nope}}")], "steps[0].condition"),
        ([step("a", gate={"type": " "})], "steps[0].gate.type"),
        ([step("a", gate={"type": "timer"})], "steps[0].gate.timeout"),
        ([step("a", gate={"type": "timer", "timeout": "soon"})], "steps[0].gate.timeout"),
        ([step("a", gate={"type": "human", "timeout": "1 h"})], "steps[0].gate.timeout"),
        ([step("f", loop={"count": 1, "body": []})], "steps[0].loop.body"),
        ([step("f", loop={"body": [step("w")]})], "steps[0].loop"),
        ([step("f", loop={"count": 1, "range": "1..2", "body": [step("w")]})], "steps[0].loop"),
        ([step("f", loop={"count": 0, "body": [step("w")]})], "steps[0].loop.count"),
        ([step("f", loop={"count": -1, "body": [step("w")]})], "steps[0].loop.count"),
        ([step("f", loop={"count": 10**9, "body": [step("w")]})], "steps[0].loop.count"),
        ([step("f", loop={"until": "x", "body": [step("w")]})], "steps[0].loop.max"),
        ([step("f", loop=LOOP, children=[step("c")])], "steps[0].children"),
        ([step("f", loop={"range": "1..2", "var": "v", "body": [step("w")]})], "steps[0].loop.var"),
        ([step("f", loop={"range": "1..2", "var": "1", "body": [step("w")]})], "steps[0].loop.var"),
        ([step("e", type="beads-ralph-work", children=[step("c")])], "steps[0].type"),
        ([step("a", on_complete={"for_each": "output.x"})], "steps[0].on_complete"),
        ([step("a", on_complete={"for_each": "x", "bond": "y"})], "steps[0].on_complete.for_each"),
    ],
)
def test_what_is_wrong_with_a_step_is_told_by_its_field(steps: list[dict[str, Any]], field: str) -> None:
    assert fields(*steps, variables={"v": "x"}) == [field]


@pytest.mark.parametrize(
    "said",
    [
        "3",
        "1...",
        "..3",
        "a..b",
        "1..3;",
        "3..1",
        "1..1/0",
        "1..9^999",
        "1..(2",
        "1..2)",
        "1..",
        "{x}..3",
        "1..10001",
        "1..-",
        "(-1)^0.5..2",
        "1.." + "9" * 300,
    ],
)
def test_a_bad_range_is_told(said: str) -> None:
    assert fields(step("f", loop={"range": said, "body": [step("w")]})) == ["steps[0].loop.range"]


@pytest.mark.parametrize(
    ("var", "field"),
    [
        ({"required": True, "default": "x"}, "vars.u"),
        ({"pattern": "("}, "vars.u.pattern"),
        ({"pattern": "(?=x)"}, "vars.u.pattern"),
        ({"default": "c", "enum": ["a"]}, "vars.u.default"),
        ({"default": "c", "pattern": "^a"}, "vars.u.default"),
        ({"default": "c", "type": "int"}, "vars.u.default"),
        ({"enum": ["1", "c"], "type": "int"}, "vars.u.enum[1]"),
        ({"enum": ["a", "b"], "pattern": "^a"}, "vars.u.enum[1]"),
    ],
)
def test_what_is_wrong_with_a_variable_is_told_by_its_field(var: dict[str, Any], field: str) -> None:
    assert fields(step("a", title="{{u}}"), variables={"u": var}) == [field]


@pytest.mark.parametrize("name", ["sprint-id", "1a", "", "a b", "ä"])
def test_a_variable_that_no_placeholder_can_name_is_a_fault(name: str) -> None:
    assert fields(step("a"), variables={name: "x"}) == [f"vars.{name}"]


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"steps": "x"}, "steps"),
        ({"steps": [3]}, "steps[0]"),
        ({"steps": [{"id": 3, "title": "x"}]}, "steps[0].id"),
        ({"steps": [{"id": "a", "title": "x", "needs": ["b", 3]}]}, "steps[0].needs[1]"),
        ({"steps": [{"id": "a", "title": "x", "priority": 1.5}]}, "steps[0].priority"),
        ({"steps": [{"id": "a", "title": "x", "priority": True}]}, "steps[0].priority"),
        ({"steps": [{"id": "a", "title": "x", "gate": {}}]}, "steps[0].gate.type"),
        ({"steps": [{"id": "a", "title": "x", "loop": {"count": "3"}}]}, "steps[0].loop.count"),
        ({"vars": {"a": 1.5}}, "vars.a"),
        ({"vars": {"a": {"type": "number"}}}, "vars.a.type"),
        ({"vars": {"a": {"enum": "x"}}}, "vars.a.enum"),
        ({"vars": {"a": {"required": "yes"}}}, "vars.a.required"),
        ({"type": "flow"}, "type"),
        ({"version": "1"}, "version"),
        ({"extends": "base"}, "extends"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_by_its_field(raw: dict[str, Any], field: str) -> None:
    read = parse({"formula": "x", **raw}, Path("x.formula.json"))
    assert [fault.field for fault in read.faults] == [field]
    assert read.formula is None


def test_the_head() -> None:
    assert fields(step("a"), formula="") == ["formula"]
    assert fields(step("a"), version=0) == ["version"]
    assert warned(step("a"), formula="y") == ["formula"]
    assert warned(step("a"), phase="solid") == ["phase"]
    assert warned() == ["steps"]


def test_branches_name_steps() -> None:
    branch = {"from": "a", "steps": ["b", "no"], "join": ""}
    assert fields(step("a"), step("b"), compose={"branch": [branch]}) == [
        "compose.branch[0].join",
        "compose.branch[0].steps[1]",
    ]
    round_about = {"from": "a", "steps": ["b"], "join": "a"}
    assert fields(step("a"), step("b"), compose={"branch": [round_about]}) == ["steps[0].needs"]


@pytest.mark.parametrize(
    ("steps", "more", "field"),
    [
        ([step("a")], {"variables": {"u": "x"}}, "vars.u"),
        (
            [step("a", title="{{sprint}}")],
            {"variables": {"sprint": "x", "sprint_": "{{sprint}}"}},
            "vars.sprint_",
        ),
        (
            [step("a", title="{{sprit_id}} {{sprint_id}}")],
            {"variables": {"sprint_id": "x"}},
            "steps[0].title",
        ),
        ([step("a", depend_on=["b"])], {}, "steps[0].depend_on"),
        ([step("a", gate={"type": "human", "who": "x"})], {}, "steps[0].gate.who"),
        ([step("prüfung", ID="x")], {}, "steps[0].ID"),
        ([step("a")], {"variables": {"title": {"requried": True}}}, "vars.title.requried"),
        ([step("a")], {"step": []}, "step"),
        ([step("a", waits_for="all-children")], {}, "steps[0].waits_for"),
        ([step("a", gate={"type": "gh:pr"})], {}, "steps[0].gate.await_id"),
        ([step("a", gate={"type": "moon"})], {}, "steps[0].gate.type"),
        ([step("a", on_complete={"for_each": "output.x", "bond": "y"})], {}, "steps[0].on_complete"),
        ([step("a"), step("s", "a", waits_for="any-children")], {}, "steps[1].waits_for"),
        ([step("f", loop={"until": "x", "max": 2, "body": [step("w")]})], {}, "steps[0].loop.until"),
        ([step("a")], {"compose": {"hooks": [{"trigger": "x", "attach": "y"}]}}, "compose.hooks"),
        ([step("a")], {"compose": {"gate": [{"before": "a", "condition": "x"}]}}, "compose.gate[0]"),
        ([step("f", loop=LOOP, labels=["x"])], {}, "steps[0].labels"),
        ([step("f", loop=LOOP | {"var": "i"})], {}, "steps[0].loop.var"),
    ],
)
def test_what_is_odd_is_a_warning(steps: list[dict[str, Any]], more: dict[str, Any], field: str) -> None:
    assert warned(*steps, **more) == [field]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([step("alpha"), step("b", "alhpa")], "did you mean alpha"),
        ([step("f", loop=LOOP), step("b", "w")], "inside of the loop 'f'"),
        ([step("a", condition="{{hotfx}}")], "did you mean hotfix"),
    ],
)
def test_a_near_miss_is_named(steps: list[dict[str, Any]], words: str) -> None:
    made = formula(*steps, variables={"hotfix": "x"})
    assert words in check(made).faults[0].message


def test_all_faults_are_told_at_once() -> None:
    steps = [step("a", "x", priority=9), step("a", condition="?"), step("c", "y", title="")]
    assert len(fields(*steps, variables={"v": {"required": True, "default": ""}})) == 7


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"derive": "slug"}, "must be rule(variable)"),
        ({"derive": "upper(title)"}, "one of dashed, phase,"),
        ({"derive": "slug(titel)"}, "titel is not a variable; did you mean title?"),
        ({"derive": "slug(other)"}, "other follows from another one itself"),
        ({"derive": "slug(title)", "default": "x"}, "neither required nor has a default"),
        ({"derive": "slug(title)", "required": True}, "neither required nor has a default"),
        ({"derive": "slug(title)", "type": "list"}, "gives a text"),
    ],
)
def test_how_a_variable_follows_from_another_is_checked(more: dict[str, Any], said: str) -> None:
    variables = {"title": {}, "other": {"derive": "slug(title)"}, "name": more}
    report = check(formula(step("a", description="{{title}} {{other}} {{name}}"), variables=variables))
    (fault,) = report.faults
    assert fault.field == "vars.name.derive"
    assert said in fault.message


def test_what_only_feeds_another_variable_is_used() -> None:
    variables = {"title": {}, "name": {"derive": "slug(title)"}}
    report = check(formula(step("a", description="{{name}}"), variables=variables))
    assert (report.faults, report.warnings) == ((), ())
    assert "follows from another variable" in (why_not_plain(formula(step("a"), variables=variables)) or "")


@pytest.mark.parametrize("value", ["x", "{{v}}", {"until": "2099-01-01"}, 1, True])
@pytest.mark.parametrize("key", ["parked", "proven", "attempt_count", "gate_override"])
def test_a_bead_cannot_be_given_what_runs_keep(key: str, value: object) -> None:
    bead = step("a", type="beads-ralph-work", metadata={key: value})
    (fault,) = check(formula(bead)).faults
    assert fault.field == f"steps[0].metadata.{key}"
    assert "kept by runs" in fault.message
    assert check(formula(step("a", metadata={key: value}))).faults == (), "a person's task is not worked on"


@pytest.mark.parametrize("value", [None, 0, "", []])
def test_what_says_that_no_run_was_there_may_stand_in_a_formula(value: object) -> None:
    bead = step("a", type="beads-ralph-work", metadata={"attempt_count": value})
    assert check(formula(bead)).faults == ()

"""What a formula makes with given values: texts, types, and what waits for what."""

from __future__ import annotations

from typing import Any

import pytest

from beads_ralph.bead.items import GateRule
from beads_ralph.errors import Code, RalphError
from beads_ralph.formula.render import render
from beads_ralph.formula.variables import values
from tests.formula.recipes import by_key, formula, needs, poured, step

# --- placeholders -----------------------------------------------------------------------------------


def test_placeholders_are_filled_in_everywhere() -> None:
    made = formula(
        {
            "id": "a",
            "title": "{{x}}",
            "description": "d {{x}}",
            "notes": "n {{x}}",
            "type": "{{kind}}",
            "labels": ["l-{{x}}"],
            "assignee": "{{x}}",
            "bead_id": "bd-{{x}}",
            "after": ["bd-{{x}}-0"],
            "metadata": {"{{x}}": {"deep": ["{{x}}", {"er": "<{{x}}>"}]}},
            "gate": {"type": "gh:pr", "await_id": "{{x}}", "repo": "o/{{x}}", "timeout": "{{t}}"},
        },
        variables={"x": {"required": True}, "kind": "bug", "t": "2h"},
    )
    (ready,) = poured(made, x="Y").steps
    assert (ready.title, ready.description, ready.notes) == ("Y", "d Y", "n Y")
    assert (ready.issue_type, ready.labels, ready.assignee) == ("bug", ("l-Y",), "Y")
    assert (ready.bead_id, ready.after) == ("bd-Y", ("bd-Y-0",))
    assert ready.metadata == {"{{x}}": {"deep": ["Y", {"er": "<Y>"}]}}
    assert ready.gate == GateRule(type="gh:pr", await_id="Y", timeout="2h", repo="o/Y")


def test_what_a_value_says_is_not_taken_for_a_placeholder() -> None:
    loop = {"range": "1..1", "var": "i", "body": [step("w", title="{{a}} {{b}} {i}")]}
    made = formula(step("fan", loop=loop), variables={"a": "{{b}}", "b": "{i}{{a}}"})
    assert poured(made).steps[0].title == "{{b}} {i}{{a}} 1"


@pytest.mark.parametrize("text", ["{{}}", "{{ a }}", "{{a-b}}", "{{1a}}", "{{other}}", "{i}", "{{ä}}", "{{a"])
def test_what_is_no_variable_stays(text: str) -> None:
    made = formula(step("s", title=f"{{{{a}}}}: {text}"), variables={"a": "A"})
    assert poured(made).steps[0].title == f"A: {text}"


def test_numbers_booleans_and_lists_keep_their_kind_in_metadata() -> None:
    variables = {
        "n": {"type": "int", "default": "007"},
        "yes": {"type": "bool", "default": "on"},
        "xs": {"type": "list", "default": "a\n\n b \nc"},
    }
    metadata: dict[str, Any] = {"n": "{{n}}", "text": "#{{n}}", "yes": "{{yes}}", "no": "not {{yes}}"}
    metadata |= {"xs": ["z", "{{xs}}"], "lines": "{{xs}}", "in": [["{{xs}}"], "{{n}}"]}
    made = formula(
        step("s", metadata=metadata, labels=["{{xs}}", "l"], after=["{{xs}}"]), variables=variables
    )
    (ready,) = poured(made).steps
    assert ready.metadata == {
        "n": 7,
        "text": "#7",
        "yes": True,
        "no": "not true",
        "xs": ["z", "a", "b", "c"],
        "lines": "a\nb\nc",
        "in": [["a", "b", "c"], 7],
    }
    assert ready.labels == ("a", "b", "c", "l")
    assert ready.after == ("a", "b", "c")


def test_what_is_empty_falls_out_of_lists_and_ids() -> None:
    said = {"labels": ["{{no}}", "x{{no}}"], "after": ["{{no}}", "{{none}}"], "bead_id": "{{no}}"}
    made = formula(step("s", **said), variables={"no": "", "none": {"type": "list", "default": ""}})
    (ready,) = poured(made).steps
    assert (ready.labels, ready.after, ready.bead_id) == (("x",), (), None)


def test_a_title_that_comes_out_empty_is_a_fault() -> None:
    made = formula(step("s", title="{{t}}"), variables={"t": ""})
    with pytest.raises(RalphError) as caught:
        poured(made)
    assert caught.value.code is Code.FORMULA_INVALID
    assert caught.value.faults[0].field == "steps[0].title"


def test_a_priority_may_be_a_variable() -> None:
    made = formula(step("s", priority="{{p}}"), variables={"p": {"type": "int", "default": 3}})
    assert poured(made).steps[0].priority == 3
    with pytest.raises(RalphError, match="0 to 4"):
        poured(made, p=9)


def test_the_root_is_named_by_title_and_desc_where_there_are_such() -> None:
    named = formula(step("s"), variables={"title": {"required": True}, "desc": "D"}, description="not this")
    assert (poured(named, title="T").title, poured(named, title="T").description) == ("T", "D")
    other = formula(step("s"), variables={"v": "V"}, description="of {{v}}")
    assert (poured(other).title, poured(other).description) == ("x", "of V")


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("", "task"),
        ("bug", "bug"),
        ("feat", "feature"),
        ("ADR", "decision"),
        (" task ", "task"),
        ("own", "own"),
    ],
)
def test_types_are_named_as_bd_names_them(said: str, made: str) -> None:
    assert poured(formula(step("s", type=said))).steps[0].issue_type == made


# --- conditions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("{{v}}", "yes", True),
        ("{{v}}", "False", False),
        ("{{v}}", "0", False),
        ("{{v}}", "no", False),
        ("{{v}}", "OFF", False),
        ("{{v}}", "", False),
        ("!{{v}}", "", True),
        ("!{{v}}", "x", False),
        ("{{v}} == x", "x", True),
        ("{{v}}==x", "y", False),
        ("{{v}} == 'x y'", "x y", True),
        ('{{v}} != "x"', "x", False),
        ("  {{v}} != x  ", "y", True),
        ("{{v}} == {{v}}", "{{v}}", True),
    ],
)
def test_conditions(condition: str, value: str, *, holds: bool) -> None:
    made = formula(step("a"), step("b", condition=condition), variables={"v": value})
    assert ("b" in by_key(made)) is holds


def test_a_step_that_is_left_out_is_bridged() -> None:
    off = {"condition": "{{v}}"}
    made = formula(
        step("a"), step("b", "a", **off), step("c", "b", **off), step("d", "c"), variables={"v": ""}
    )
    assert needs(made) == {"a": (), "d": ("a",)}
    assert needs(made, v="yes") == {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)}


def test_a_container_goes_with_the_last_of_its_children() -> None:
    off = {"condition": "{{v}}"}
    parts = step("e", "a", children=[step("b", **off), step("c", "b", **off)])
    made = formula(step("a"), parts, step("d", "c"), variables={"v": ""})
    assert needs(made) == {"a": (), "d": ("a",)}


def test_where_nothing_is_left_nothing_is_poured() -> None:
    made = formula(step("a", condition="{{v}}"), variables={"v": ""})
    with pytest.raises(RalphError, match="no step is left") as caught:
        poured(made)
    assert caught.value.code is Code.FORMULA_INVALID


# --- containers -------------------------------------------------------------------------------------


def test_children_wait_with_their_container_and_are_waited_for_with_it() -> None:
    epic = step("e", "a", children=[step("b"), step("c", "b"), step("f", children=[step("g")])])
    found = by_key(formula(step("a"), epic, step("d", "e")))
    assert {key: ready.needs for key, ready in found.items()} == {
        "a": (),
        "e": ("a",),
        "b": ("a",),
        "c": ("b",),
        "f": (),
        "g": ("a",),
        "d": ("b", "c", "g"),
    }
    assert {key: ready.parent for key, ready in found.items() if ready.parent} == {
        "b": "e",
        "c": "e",
        "f": "e",
        "g": "f",
    }
    assert [key for key, ready in found.items() if ready.is_epic] == ["e", "f"]
    assert found["e"].issue_type == "epic"


def test_a_container_may_name_its_type() -> None:
    ready = by_key(formula(step("e", type="feature", children=[step("b")])))["e"]
    assert (ready.issue_type, ready.is_epic) == ("feature", True)


@pytest.mark.parametrize(
    "waits", [{"waits_for": "children-of(e)"}, {"waits_for": "all-children", "needs": ["e"]}]
)
def test_waiting_for_children_is_waiting_for_those_that_are_there(waits: dict[str, Any]) -> None:
    made = formula(step("e", children=[step("b"), step("c")]), step("d") | waits)
    assert needs(made)["d"] == ("b", "c")


def test_branches_fork_and_join() -> None:
    branch = {"from": "a", "steps": ["b", "c"], "join": "d"}
    made = formula(step("a"), step("b"), step("c"), step("d"), compose={"branch": [branch]})
    assert needs(made) == {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


# --- loops ------------------------------------------------------------------------------------------


def loop(name: str, *waits: str, body: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return step(name, *waits, loop={"body": body, **more})


def test_rounds_follow_one_another_and_needs_reach_around_them() -> None:
    fan = loop("fan", "a", count=3, body=[step("w"), step("v", "w")])
    assert needs(formula(step("a"), fan, step("z", "fan"))) == {
        "a": (),
        "fan.iter1.w": ("a",),
        "fan.iter1.v": ("fan.iter1.w",),
        "fan.iter2.w": ("fan.iter1.v",),
        "fan.iter2.v": ("fan.iter2.w",),
        "fan.iter3.w": ("fan.iter2.v",),
        "fan.iter3.v": ("fan.iter3.w",),
        "z": ("fan.iter3.v",),
    }


def test_every_beginning_of_a_round_waits_for_every_end_of_the_one_before() -> None:
    fan = loop("fan", count=2, body=[step("p"), step("q")])
    found = needs(formula(fan, step("z", "fan")))
    assert found["fan.iter2.p"] == found["fan.iter2.q"] == ("fan.iter1.p", "fan.iter1.q")
    assert found["z"] == ("fan.iter2.p", "fan.iter2.q")


@pytest.mark.parametrize(
    ("said", "given", "numbers"),
    [
        ("1..3", {}, [1, 2, 3]),
        ("-1..1", {}, [-1, 0, 1]),
        ("{n}..{n}+1", {"n": "4"}, [4, 5]),
        ("1..2^{{n}}", {"n": "1"}, [1, 2]),
        ("(1+1)*2 .. 9/2", {}, [4]),
        ("2..2", {}, [2]),
    ],
)
def test_a_range_counts(said: str, given: dict[str, str], numbers: list[int]) -> None:
    fan = loop("fan", range=said, var="i", body=[step("w", title="no {i}", labels=["{{i}}"])])
    made = formula(fan, variables={"n": "1"})
    steps = poured(made, **given).steps
    assert [ready.title for ready in steps] == [f"no {number}" for number in numbers]
    assert [ready.labels for ready in steps] == [(str(number),) for number in numbers]
    assert [ready.key for ready in steps] == [f"fan.iter{at}.w" for at, _ in enumerate(numbers, 1)]


@pytest.mark.parametrize(("n", "code"), [("0", Code.INVALID_VAR), ("20000", Code.FORMULA_INVALID)])
def test_a_range_that_its_variables_spoil(n: str, code: Code) -> None:
    made = formula(loop("fan", range="1..{n}", body=[step("w")]), variables={"n": {"required": True}})
    with pytest.raises(RalphError) as caught:
        poured(made, n=n)
    assert caught.value.code is code


def test_loops_inside_of_loops() -> None:
    inner = loop("in", "w", range="1..2", var="j", body=[step("x", title="{i}{j}"), step("y", "x", "w")])
    made = formula(loop("out", range="1..2", var="i", body=[step("w"), inner, step("v", "in")]))
    found = needs(made)
    assert found["out.iter1.in.iter1.x"] == ("out.iter1.w",)
    assert found["out.iter1.in.iter2.x"] == ("out.iter1.in.iter1.y",)
    assert found["out.iter1.in.iter2.y"] == ("out.iter1.in.iter2.x", "out.iter1.w")
    assert found["out.iter1.v"] == ("out.iter1.in.iter2.y",)
    assert found["out.iter2.w"] == ("out.iter1.v",)
    assert by_key(made)["out.iter2.in.iter1.x"].title == "21"


def test_a_round_that_conditions_empty_is_passed_over() -> None:
    fan = loop("fan", "a", count=2, body=[step("w", condition="{{v}}")])
    made = formula(step("a"), fan, step("z", "fan"), variables={"v": ""})
    assert needs(made) == {"a": (), "z": ("a",)}


def test_the_condition_of_a_loop_counts() -> None:
    fan = loop("fan", "a", count=2, body=[step("w")]) | {"condition": "{{v}}"}
    assert needs(formula(step("a"), fan, step("z", "fan"), variables={"v": "no"})) == {"a": (), "z": ("a",)}


def test_a_name_means_the_nearest_step() -> None:
    made = formula(step("a"), step("w"), loop("fan", count=1, body=[step("w", "a"), step("v", "w")]))
    assert needs(made)["fan.iter1.v"] == ("fan.iter1.w",)


# --- gates ------------------------------------------------------------------------------------------


def test_the_gate_of_a_container_or_a_loop_holds_up_all_that_it_begins_with() -> None:
    gate = {"type": "human", "id": "boss"}
    epic = step("e", children=[step("b"), step("c"), step("d", "b")], gate=gate)
    fan = loop("fan", count=2, body=[step("w")]) | {"gate": gate}
    found = by_key(formula(epic, fan))
    assert found["gate-e"].issue_type == found["gate-fan"].issue_type == "gate"
    assert found["gate-e"].metadata == {"gate": {"type": "human", "await_id": "boss"}}
    assert found["gate-e"].title == "Gate: human boss"
    assert [key for key, ready in found.items() if "gate-e" in ready.needs] == ["e", "b", "c"]
    assert [key for key, ready in found.items() if "gate-fan" in ready.needs] == ["fan.iter1.w"]


@pytest.mark.parametrize(
    ("gate", "value"), [({"type": "{{x}}"}, ""), ({"type": "timer", "timeout": "{{x}}"}, "soon")]
)
def test_a_gate_that_its_variables_spoil(gate: dict[str, str], value: str) -> None:
    made = formula(step("s", gate=gate), variables={"x": value})
    with pytest.raises(RalphError, match=r"gate\."):
        poured(made)


def test_what_nobody_acts_on_is_poured_and_kept_as_a_label() -> None:
    again = loop("l", until="w.status == 'complete'", max=3, body=[step("w"), step("v", "w")])
    found = by_key(
        formula(
            step("a", on_complete={"for_each": "output.x", "bond": "y"}),
            again | {"needs": ["a"]},
            step("z", "l", waits_for="any-children", gate={"type": "mail", "id": "bob"}),
            compose={"gate": [{"before": "z", "condition": "a.status == 'complete'"}]},
        )
    )
    assert {key: list(ready.needs) for key, ready in found.items()} == {
        "a": [],
        "l.iter1.w": ["a"],
        "l.iter1.v": ["l.iter1.w"],
        "z": ["l.iter1.v"],
    }
    assert {key: ready.labels for key, ready in found.items() if ready.labels} == {
        "l.iter1.w": ('loop:{"max":3,"until":"w.status == \'complete\'"}',),
        "z": ('gate:{"condition":"a.status == \'complete\'"}',),
    }
    gate = found["z"].gate
    assert gate is not None
    assert gate.to_json() == {"type": "mail", "await_id": "bob"}


# --- what cannot be rendered ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "more", "field"),
    [
        ([step("s", expand="macro")], {}, "steps[0].expand"),
        ([step("e", children=[step("s", expand="m")])], {}, "steps[0].children[0].expand"),
        ([step("s")], {"compose": {"aspects": ["x"]}}, "compose.aspects"),
        ([step("s")], {"advice": [{"target": "s"}]}, "advice"),
        ([step("s")], {"type": "expansion", "template": [step("t")]}, "template"),
    ],
)
def test_what_only_bd_does_is_refused_by_its_field(
    steps: list[dict[str, Any]], more: dict[str, Any], field: str
) -> None:
    made = formula(*steps, **more)
    with pytest.raises(RalphError) as caught:
        render(made, values(made, {}))
    assert caught.value.code is Code.FORMULA_UNSUPPORTED
    assert [fault.field for fault in caught.value.faults] == [field]
    assert caught.value.faults[0].file == "x.formula.json"


@pytest.mark.parametrize(
    "steps",
    [
        [step("a.b"), step("a-b")],
        [loop("fan", count=1, body=[step("w")]), step("fan-iter1-w")],
        [step("s", gate={"type": "human"}), step("gate-s")],
        [loop("fan", count=2, body=[step("w", bead_id="bd-1")])],
    ],
)
def test_two_steps_cannot_have_one_id(steps: list[dict[str, Any]]) -> None:
    with pytest.raises(RalphError, match="two steps would have the id"):
        poured(formula(*steps))

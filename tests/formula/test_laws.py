"""What holds of every formula, however it is put together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.errors import Code, RalphError
from beads_ralph.formula import expressions
from beads_ralph.formula.bd_compatible import why_not_plain
from beads_ralph.formula.check import check
from beads_ralph.formula.file_format import parse
from beads_ralph.formula.model import Formula
from beads_ralph.formula.render import Rendered, outline, render
from beads_ralph.formula.variables import Filling, Values, values
from tests.formula.recipes import formula, step

Raw = dict[str, Any]
FLAGS = ("on", "off")
CONDITIONS = ["", "", "", "{{on}}", "{{off}}", "!{{off}}", "{{on}} == yes", "{{on}} != yes"]
VARIABLES = {"on": "yes", "off": "", "name": {"default": "N"}}

# --- formulas in any shape --------------------------------------------------------------------------


@st.composite
def bodies(draw: st.DrawFn, known: tuple[str, ...] = (), depth: int = 0, prefix: str = "s") -> list[Raw]:
    """Steps that may wait for those before them; containers and loops inside of one another."""
    made: list[Raw] = []
    here = list(known)
    for at in range(draw(st.integers(1, 3))):
        name = f"{prefix}{at}"
        waits = draw(st.lists(st.sampled_from(here), unique=True, max_size=2)) if here else []
        one = step(name, *waits, title=f"{{{{name}}}} {name}", condition=draw(st.sampled_from(CONDITIONS)))
        kind = draw(st.sampled_from(["leaf", "leaf", "epic", "count", "range"])) if depth < 2 else "leaf"
        if kind == "epic":
            one["children"] = draw(bodies(tuple(here), depth + 1, f"{name}_"))
            inside = [inner for child in one["children"] for inner in _scope(child)]
            made.append(one)
            here += [name, *inside]
            continue
        if kind in ("count", "range"):
            body = draw(bodies(tuple(here), depth + 1, f"{name}_"))
            rounds = draw(st.integers(1, 3))
            one["loop"] = {"count": rounds, "body": body}
            if kind == "range":
                one["loop"] = {"range": f"0..{rounds}-1", "var": f"i{depth}", "body": body}
        made.append(one)
        here.append(name)
    return made


def _scope(one: Raw) -> Iterator[str]:
    """The names by which later steps may call it and what is in it; not into loops."""
    yield one["id"]
    for child in one.get("children", ()):
        yield from _scope(child)


formulas = bodies().map(lambda steps: formula(*steps, variables=VARIABLES))


def rendered(made: Formula) -> Rendered | None:
    """None where the conditions leave nothing."""
    try:
        return render(made, values(made, {}))
    except RalphError as error:
        if "no step is left" not in error.message:
            raise
        return None


# --- an oracle --------------------------------------------------------------------------------------


class Oracle:
    """Beginnings and ends: everything that a formula says, as edges `later → earlier` between moments."""

    def __init__(self, steps: list[Raw]) -> None:
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.leaves: list[str] = []
        self._steps(steps, "", {}, None, out=False)

    def _steps(
        self, steps: list[Raw], prefix: str, scope: dict[str, str], around: str | None, *, out: bool
    ) -> None:
        for one in steps:
            key = f"{prefix}{one['id']}"
            scope[one["id"]] = key
            gone = out or not _holds(one["condition"])
            self.graph.add_edge(f"{key} end", f"{key} begin")
            if around is not None:
                self.graph.add_edge(f"{key} begin", f"{around} begin")
                self.graph.add_edge(f"{around} end", f"{key} end")
            for name in one.get("needs", ()):
                self.graph.add_edge(f"{key} begin", f"{scope[name]} end")
            self._inside(one, key, prefix, scope, out=gone)

    def _inside(self, one: Raw, key: str, prefix: str, scope: dict[str, str], *, out: bool) -> None:
        if "children" in one:
            self._steps(one["children"], prefix, scope, key, out=out)
        elif "loop" in one:
            self._rounds(one["loop"], key, scope, out=out)
        elif not out:
            self.leaves.append(key)

    def _rounds(self, loop: Raw, key: str, scope: dict[str, str], *, out: bool) -> None:
        count = loop["count"] if "count" in loop else int(loop["range"][3:].partition("-")[0])
        for number in range(1, count + 1):
            here = f"{key}.iter{number}"
            self.graph.add_edge(
                f"{here} begin", f"{key} begin" if number == 1 else f"{key}.iter{number - 1} end"
            )
            self.graph.add_edge(f"{key} end", f"{here} end")
            self.graph.add_edge(f"{here} end", f"{here} begin")
            self._steps(loop["body"], f"{here}.", dict(scope), here, out=out)

    def before(self) -> dict[str, set[str]]:
        ends = {f"{leaf} end": leaf for leaf in self.leaves}
        return {
            leaf: {ends[moment] for moment in nx.descendants(self.graph, f"{leaf} begin") if moment in ends}
            for leaf in self.leaves
        }


def _holds(text: str) -> bool:
    condition = expressions.parse_condition(text)
    return condition is None or condition.holds({"on": "yes", "off": ""}.__getitem__)


# --- laws -------------------------------------------------------------------------------------------


@given(bodies())
def test_steps_wait_for_exactly_what_the_formula_says(steps: list[Raw]) -> None:
    made = rendered(formula(*steps, variables=VARIABLES))
    oracle = Oracle(steps)
    if made is None:
        assert oracle.leaves == []
        return
    leaves = [ready.key for ready in made.steps if not ready.is_epic]
    assert leaves == oracle.leaves
    graph: nx.DiGraph[str] = nx.DiGraph({ready.key: list(ready.needs) for ready in made.steps})
    assert {leaf: set(nx.descendants(graph, leaf)) for leaf in leaves} == oracle.before()


@given(formulas)
def test_the_result_is_sound(made: Formula) -> None:
    found = rendered(made)
    if found is None:
        return
    keys = [ready.key for ready in found.steps]
    epics = {ready.key for ready in found.steps if ready.is_epic}
    assert len(set(keys)) == len(keys)
    assert nx.is_directed_acyclic_graph(nx.DiGraph({ready.key: list(ready.needs) for ready in found.steps}))
    for at, ready in enumerate(found.steps):
        assert set(ready.needs) <= set(keys) - epics
        assert ready.parent is None or ready.parent in epics & set(keys[:at])
        assert "{{" not in ready.title
    assert {ready.parent for ready in found.steps} >= epics  # no container is empty


@given(formulas)
def test_what_is_sound_has_no_fault_and_can_be_looked_at(made: Formula) -> None:
    assert check(made).faults == ()
    assert outline(made).hindrances == ()
    why_not_plain(made)


@given(formulas)
def test_a_formula_comes_back_from_its_json(made: Formula) -> None:
    read = parse(json.loads(json.dumps(made.to_json())), Path("x.formula.json"))
    assert read.formula is not None
    assert read.formula.to_json() == made.to_json()
    assert read.formula.steps == made.steps


# --- texts and values -------------------------------------------------------------------------------

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
braces = st.text("{}abi ", max_size=12)


@given(anything | braces, anything | braces)
def test_a_value_arrives_as_it_is(first: str, second: str) -> None:
    filling = Filling(Values({"a": first, "b": second}), {"i": "3"})
    assert filling.text("{{a}}|{i}|{{b}}|{{c}}|{j}") == f"{first}|3|{second}|{{{{c}}}}|{{j}}"
    assert filling.json(["{{a}}", {"k": "x{{b}}"}]) == [first, {"k": f"x{second}"}]


@given(st.lists(anything.filter(lambda text: text.strip()), max_size=4), anything)
def test_lists_are_spliced_whole(entries: list[str], other: str) -> None:
    filling = Filling(Values({"xs": tuple(entries), "o": other}))
    assert filling.json(["{{xs}}", "{{o}}"]) == [*entries, other]
    assert filling.entries(["{{xs}}"]) == tuple(entries)


@given(
    st.dictionaries(st.sampled_from(["v", "w", "x"]), anything | st.integers() | st.booleans(), max_size=3)
)
def test_values_are_all_right_or_all_told(given_values: dict[str, Any]) -> None:
    rules: Raw = {"v": {"enum": ["", "a"]}, "w": {"type": "int", "default": "1"}}
    made = formula(step("s", title="{{v}}{{w}}"), variables=rules)
    told = refusal(made, given_values)
    if told is None:
        found = values(made, given_values)
        assert found["v"] == "a"
        assert isinstance(found["w"], int)
    else:
        assert {fault.code for fault in told.faults} <= {Code.MISSING_VAR, Code.INVALID_VAR}
        assert len({fault.field for fault in told.faults}) == len(told.faults)


def refusal(made: Formula, given_values: dict[str, Any]) -> RalphError | None:
    try:
        values(made, given_values)
    except RalphError as error:
        return error
    return None


numbers = st.integers(0, 12).map(str)
sums = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-({text})"),
    ),
    max_leaves=5,
)


@given(sums)
def test_a_range_counts_as_python_does(text: str) -> None:
    value = eval(text)  # noqa: S307 - digits, signs and parentheses
    assert expressions.range_bounds(f"{text}..{text}", {}) == (value, value)


# --- whatever a file says ---------------------------------------------------------------------------

WORDS = (
    "a b v {{v}} !{{v}} {v} 1..2 1..{v} all-children children-of(a) human timer 1h ( slug(v) beads-ralph-work"
)
KEYS = "id title needs gate loop body count range default required enum pattern branch from v other"
words = st.sampled_from(["", *WORDS.split()])
texts = st.lists(words, max_size=2)
leaves = st.none() | st.booleans() | st.integers(-1, 6) | st.floats(allow_nan=False) | words
keys = st.sampled_from([*Formula.model_fields, *KEYS.split()])
things = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)


def steps_like(inner: st.SearchStrategy[list[Raw]]) -> st.SearchStrategy[list[Raw]]:
    """Steps whose fields have the right kind of value, and mostly the wrong value."""
    loop = {"count": st.integers(-1, 3), "range": words, "var": words, "until": words, "body": inner}
    gate = dict.fromkeys(("await_id", "timeout", "repo"), words)
    fields: dict[str, st.SearchStrategy[Any]] = {
        **dict.fromkeys(("waits_for", "condition", "type", "bead_id", "assignee", "expand"), words),
        **dict.fromkeys(("needs", "depends_on", "labels", "after"), texts),
        "priority": st.integers(-1, 5) | words,
        "metadata": st.dictionaries(words, things, max_size=2),
        "on_complete": st.dictionaries(st.sampled_from(["for_each", "bond"]), words),
        "children": inner,
        "gate": st.fixed_dictionaries({"type": words}, optional=gate),
        "loop": st.fixed_dictionaries({}, optional=loop),
    }
    return st.lists(st.fixed_dictionaries({"id": words, "title": words}, optional=fields), max_size=3)


branches = st.fixed_dictionaries({}, optional={"from": words, "steps": texts, "join": words})
kinds = st.sampled_from(["string", "int", "bool", "list"])
var = st.fixed_dictionaries(
    {},
    optional={
        "default": leaves,
        "required": st.booleans(),
        "enum": texts,
        "pattern": words,
        "type": kinds,
        "derive": words,
    },
)
files = st.fixed_dictionaries(
    {"formula": words, "steps": st.recursive(steps_like(st.just([])), steps_like, max_leaves=4)},
    optional={
        "vars": st.dictionaries(words, var | words, max_size=2),
        "compose": st.fixed_dictionaries({"branch": st.lists(branches, max_size=2)}),
    },
)


@given(things | files)
def test_whatever_a_file_says_it_is_a_formula_or_its_faults(said: Any) -> None:
    read = parse(said, Path("x.formula.json"))
    if read.formula is None:
        assert read.faults
        assert {fault.code for fault in read.faults} == {Code.FORMULA_INVALID}
        return
    report = check(read.formula)
    why_not_plain(read.formula)
    if not report.faults:
        looked = outline(read.formula)
        assert looked.steps or looked.hindrances or not read.formula.steps

"""The law of the alchemist: what was made of sprints gives these sprints' beads back, all of each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import SprintId
from beads_ralph.compile import rows
from beads_ralph.compile.build import Built, build
from beads_ralph.compile.molecule import compose
from beads_ralph.compile.setting import Place, Setting, root_id
from beads_ralph.config.model import Config
from beads_ralph.formula import spellings
from beads_ralph.formula.check import check
from beads_ralph.formula.definitions import Instance, by_shape, find_parting, instance_shape
from beads_ralph.formula.file_format import Format, dumps, null_in, read_text, sheet
from beads_ralph.formula.patterns import make
from beads_ralph.formula.variables import values
from beads_ralph.plan import At, Plan, Sprint
from beads_ralph.plan.model import SprintCheck
from tests.compile.plans import beads_of, plan, sprint
from tests.formula.plans import SETTING, sample, surroundings
from tests.selection import examples

TIMES = ("created_at", "updated_at", "parent")


def given_back(
    instances: Sequence[Instance], form: Format, sheet_form: str, setting: Setting
) -> list[list[Any]]:
    """Made, written, read, checked, filled in and composed: as `make` and `pour` do it, without files."""
    made = make(instances, surroundings(setting=setting))
    file = setting.root / ".beads" / "formulas" / f"work.formula.{form}"
    read = read_text(dumps(made.formula, form), file, "project")
    assert read.formula is not None, read.faults
    report = check(read.formula)
    assert (report.faults, report.warnings) == ((), ())
    text = sheet(made.rows, "csv" if sheet_form == "csv" else "json")
    found = []
    for number, row in enumerate(rows.read(text, f"rows.{sheet_form}"), 1):
        place = Place(root_id("work", number), ".beads/formulas/work.formula.toml", number)
        molecule = compose(read.formula, values(read.formula, row.given), setting, place)
        assert molecule.faults == ()
        found.append([member.to_json() for member in molecule.members])
    return found


def told(bead: Any) -> dict[str, Any]:
    """All that a bead says but for the moment and the pour; a set of dependencies has no order."""
    said = {key: value for key, value in bead.items() if key not in TIMES}
    return {**said, "dependencies": sorted(bead["dependencies"])}


def assert_law(instances: Sequence[Instance], form: Format, sheet_form: str, setting: Setting) -> None:
    poured = given_back(instances, form, sheet_form, setting)
    assert [[told(bead) for bead in one] for one in poured] == [
        [told(bead) for bead in one] for one in instances
    ]


# --- plans that nobody would write ------------------------------------------------------------------

PIECES = [
    "{{title}}",
    "{{sprint_id}}",
    "{{x}}",
    "{",
    "}",
    '"',
    "'",
    "\n",
    "\r",
    "é",
    "%s",
    "#",
    "\\",
    "[",
    "]",
    "a",
]
PIECES += [
    "b",
    "ab",
    " ",
    "1",
    "2.1",
    "1-1",
    ",",
    '"""',
    "\t",
    "=",
    "数",
    "- ",
    ". ",
    "\u2028",
    "${x}",
    "\x7f",
]
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join).filter(str.strip)
WORDS = st.sampled_from(["a", "ab", "abc", "b", "a-b", "x1"])
TITLES = st.builds("{}{}".format, WORDS | st.just("Merge x"), TEXTS | st.just("")).map(str.strip)
MODELS = st.sampled_from(["haiku", "sonnet", "opus"])
IDS = [f"{phase}.{part}" for phase in ("1", "2", "3a", "3b", "12") for part in ("1", "2a", "2b", "3")]


def ats(inner: st.SearchStrategy[Any], low: int, high: int) -> st.SearchStrategy[Any]:
    return st.lists(inner.map(lambda value: At(value, 1)), min_size=low, max_size=high).map(tuple)


def agents(count: int, *, told: bool) -> st.SearchStrategy[Any]:
    names = WORDS.map(lambda word: f".claude/agents/{word}.md") | st.just("claude")
    more = {"context": TEXTS | st.just("")} if told else {}
    one = st.fixed_dictionaries({"role": st.just("polecat"), "agent": names, "model": MODELS, **more})
    return ats(one.map(AgentSpec.model_validate), count, count)


@st.composite
def sprints(draw: st.DrawFn) -> tuple[Sprint, ...]:
    """Sprints of one shape: they have the same fields, and anything in them."""
    ids = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=5, unique=True))
    fields = draw(st.sets(st.sampled_from(sorted(optional("", 1)))))
    counts = {name: draw(st.integers(1, 2)) for name in ("dev", "qa", "verify")}
    told = draw(st.booleans())
    found = []
    for number in sorted(parsed for text in ids if (parsed := SprintId.parse(text))):
        title = draw(TITLES)
        said: dict[str, Any] = {
            "tasks": draw(ats(TEXTS, 1, 3)),
            "dev_agents": draw(agents(counts["dev"], told=False)),
            "qa_agents": draw(agents(counts["qa"], told=told)),
            "source_branch": At(draw(st.sampled_from(["develop", "main"])), 1),
        }
        more = optional(number.dashed, counts["verify"])
        said |= {name: draw(more[name]) for name in sorted(fields)}
        found.append(Sprint(number, title, f"### Sprint {number}: {title}", 1, **said))
    return tuple(found)


def optional(mark: str, checks: int) -> dict[str, st.SearchStrategy[Any]]:
    """What a sprint may have, by field; `mark` keeps branches and folders apart."""
    folders = st.sampled_from(["../x/", "/srv/y/", "inside/"])
    return {
        "criteria": ats(TEXTS, 1, 3),
        "verify": ats(st.builds(SprintCheck, TEXTS, TEXTS), checks, checks),
        "branch": WORDS.map(lambda word: At(f"work/{word}-{mark}", 1)),
        "worktree": folders.map(lambda folder: At(folder + mark, 1)),
        "team": TEXTS.map(lambda text: At(text, 1)),
        "description": TEXTS,
        "labels": ats(TEXTS, 0, 3),
        "priority": st.integers(0, 4).map(lambda number: At(number, 1)),
        "bead_name": WORDS.map(lambda word: At(word, 1)),
        "template": st.sampled_from(["bug-fix", "feature"]).map(lambda word: At(word, 1)),
        "depends_on": ats(st.sampled_from(["bd-other-1", "bd-other-2"]), 0, 2),
    }


FRONT_MATTERS = [
    {},
    {"worktree_root": "../there", "rig": "elsewhere"},
    {"worktree_root": "/srv/far/{repo}", "branch_template": "w/{sprint}-{name}"},
    {"max_retry_attempts": 7, "labels": ["a", "{{b}}"], "priority": 0, "verify": ["make test"], "team": "us"},
]


def built_of(sprints: tuple[Sprint, ...], setting: Setting, head: Mapping[str, Any]) -> Built:
    return build(Plan(setting.plan_file, sprints, front_matter=At(head, 1)), setting)


@st.composite
def beads(draw: st.DrawFn) -> list[Any]:
    """The beads of a plan as JSON; two sprints that want one branch are none of this law's business."""
    built = built_of(draw(sprints()), UNCHECKED, draw(st.sampled_from(FRONT_MATTERS)))
    assume(not built.all_faults)
    return [bead.to_json() for bead in built.beads.values()]


def alike(instances: Sequence[Instance]) -> list[Instance]:
    """Those that have the shape of the most."""
    groups: dict[Hashable, list[Instance]] = {}
    for instance in instances:
        groups.setdefault(instance_shape(instance), []).append(instance)
    return max(groups.values(), key=len)


UNCHECKED = replace(SETTING, agent_check=False)
FORMS = st.sampled_from(["toml", "json"])
SHEETS = st.sampled_from(["csv", "json"])
GENEROUS = settings(
    max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@GENEROUS
@given(beads(), FORMS, SHEETS)
def test_sprints_come_back(found: list[Any], form: Format, sheet_form: str) -> None:
    assert_law(alike([[bead] for bead in found]), form, sheet_form, UNCHECKED)


@GENEROUS
@given(beads(), FORMS, SHEETS, st.integers(2, 3))
def test_groups_come_back_whatever_waits_for_what(
    found: list[Any], form: Format, sheet_form: str, size: int
) -> None:
    assume(len(found) >= size)
    groups = [found[at : at + size] for at in range(0, len(found) - size + 1, size)]
    assert_law(alike(groups), form, sheet_form, UNCHECKED)


@GENEROUS
@given(beads())
def test_the_assay_sees_every_change(found: list[Any]) -> None:
    """What the command proves before it writes is the law of this file."""
    instances = alike([[bead] for bead in found])
    made = make(instances, surroundings(setting=UNCHECKED))
    read = read_text(dumps(made.formula, "json"), Path("work.formula.json"))
    assert read.formula is not None
    assert list(rows.losses(read.formula, made.rows, instances, UNCHECKED)) == []
    (first,), *others = instances
    changed = [[{**first, "description": first["description"] + "!"}], *others]
    (loss,) = rows.losses(read.formula, made.rows, changed, UNCHECKED)
    assert (loss.bead, loss.field) == (first["id"], "description")


# --- names in many spellings ------------------------------------------------------------------------

NAMES = ("user", "order item", "bill", "http route", "key", "tax", "page view", "branch")
SPELLINGS = ("lower", "snake", "kebab", "constant", "sentence_case", "title_case", "pascal", "camel")
PHRASES = (
    "Serve /{} at once",
    "Write api/{}.py",
    "Add class {}",
    "Test {} in tests/test_{}.py",
    "Keep it small",
)


@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(NAMES), min_size=2, max_size=5, unique=True),
    st.lists(st.tuples(st.sampled_from(PHRASES), st.sampled_from(SPELLINGS)), min_size=1, max_size=4),
    st.sampled_from(("_plural", "")),
)
def test_what_is_spelt_in_many_ways_is_one_variable_and_comes_back(
    names: list[str], phrases: list[tuple[str, str]], number: str
) -> None:
    """However a name is spelt: the same beads, and one more row needs nothing but the name."""
    sprints = [
        sprint(
            f"1.{at}",
            f"{spellings.RULES['sentence_case' + number](name)} endpoint",
            tasks=[text.replace("{}", spellings.RULES[style + number](name)) for text, style in phrases],
        )
        for at, name in enumerate(names, 1)
    ]
    instances = [[bead.to_json()] for bead in beads_of(plan(*sprints), UNCHECKED).values()]
    assert_law(instances, "toml", "csv", UNCHECKED)
    made = make(instances, surroundings(setting=UNCHECKED)).formula
    assert [name for name, said in made["vars"].items() if said.get("required")] == ["resource"]


# --- plans that people wrote ------------------------------------------------------------------------

DEFAULTS = {"dev_agents": ["claude (sonnet)"], "qa_agents": ["claude (haiku)"]}


@pytest.mark.parametrize("name", ["service.md", "messy.md", "todo-app.md"])
def test_every_choice_of_one_shape_from_the_plans_at_hand_comes_back(name: str) -> None:
    setting = replace(UNCHECKED, config=Config.model_validate({"plan": DEFAULTS}))
    found = {sprint: bead.to_json() for sprint, bead in beads_of(sample(name), setting).items()}
    choices = [choice for size in (1, 2, 3) for choice in combinations(found.values(), size)]
    fitting = [choice for choice in choices if find_parting([[bead] for bead in choice]) is None]
    assert len(fitting) >= len(found)
    for choice in fitting:
        assert_law([[bead] for bead in choice], "toml", "csv", setting)


@pytest.mark.parametrize("name", ["service.md", "todo-app.md"])
def test_every_group_of_one_shape_comes_back(name: str) -> None:
    setting = replace(UNCHECKED, config=Config.model_validate({"plan": DEFAULTS}))
    found = {sprint: bead.to_json() for sprint, bead in beads_of(sample(name), setting).items()}
    groups = [group for group in by_shape([bead] for bead in found.values()) if len(group) > 1]
    assert groups
    for group in groups:
        assert_law(group, "toml", "json", setting)


def test_a_null_inside_is_kept_where_the_format_has_one() -> None:
    agent = {"role": "polecat", "agent": "claude", "model": None}
    setting = replace(
        UNCHECKED,
        config=Config.model_validate(
            {"plan": {"dev_agents": [agent], "qa_agents": [agent], "source_branch": "x"}}
        ),
    )
    plan = tuple(
        Sprint(SprintId(1, "", n, "", f"1.{n}"), f"T{n}", f"### T{n}", 1, tasks=(At("do", 1),))
        for n in (1, 2)
    )
    instances = [[bead.to_json()] for bead in built_of(plan, setting, {}).beads.values()]
    assert len(instances) == 2
    assert null_in(make(instances, surroundings(setting=setting)).formula) is not None
    assert_law(instances, "json", "csv", setting)


def test_beads_are_beads() -> None:
    """The law speaks of what mason makes: were these no beads, it would say nothing."""
    assert all(isinstance(bead, Bead) for bead in beads_of(sample("service.md"), UNCHECKED).values())

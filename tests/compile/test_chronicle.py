"""Sprints that name a formula: poured in the plan's own graph, beside those that are compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beads_ralph.bead import graph
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONTAINERS, GATE, MERGE, WORK
from beads_ralph.compile import load
from beads_ralph.compile.build import Built
from beads_ralph.compile.molecule import Molecule
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.formula.model import Formula
from beads_ralph.plan import annotate, parse
from beads_ralph.store.protocol import Stored
from tests.compile.formulas import compiled, formula, merge, person, poured, whole, work
from tests.compile.plans import SETTING, plan, sprint
from tests.selection import examples

ONE = formula("one", work("code"))
PAIR = formula("pair", work("code"), work("review", needs=["code"]))
FORK = formula("fork", work("left"), work("right"))
AGREED = formula("agreed", work("code"), person("agree", needs=["code"]))


def members(built: Built, name: str) -> dict[str, Bead | Item]:
    """Step → what it became."""
    molecule = built.molecules[name]
    return {member.id.removeprefix(f"{molecule.root.id}-"): member for member in molecule.members}


def bead(built: Built, name: str, step: str | None = None) -> Bead:
    found = built.beads[name] if step is None else members(built, name)[step]
    assert isinstance(found, Bead)
    return found


def everything(built: Built) -> list[Stored]:
    return load.require_valid(built, [one.id.text for one in built.plan.sprints]).stored


def told(built: Built) -> list[tuple[Code, int | None]]:
    return [(fault.code, fault.line) for fault in built.all_faults]


# --- what a sprint becomes ----------------------------------------------------------------------------


def test_s1_ov2_formula_sprints_are_poured_and_the_others_compiled() -> None:
    built = whole(plan(sprint("1.1", "Start"), poured("1.2", "The API", "pair"), sprint("1.3", "End")), PAIR)
    assert list(built.beads) == ["1.1", "1.3"]
    assert list(built.molecules) == ["1.2"]
    assert built.ids["1.2"] == "bd-1-2-the-api"
    assert [each.id for each in everything(built)] == [
        "bd-1-1-start",
        "bd-1-2-the-api",
        "bd-1-2-the-api-code",
        "bd-1-2-the-api-review",
        "bd-1-3-end",
    ]


def test_the_root_stands_for_the_sprint() -> None:
    text = plan(
        "### Sprint 2.1: The API\n\nWhat it is about.\n\n**Risk**: high\n\n**Formula**: pair\n**Labels**: x\n"
    )
    root = whole(text, PAIR).molecules["2.1"].root
    assert (root.id, root.title, root.issue_type) == ("bd-2-1-the-api", "The API", "molecule")
    assert root.description == "What it is about.\n\nRisk: high"
    assert root.labels == ["phase-02", "sprint-2-1", "x"]
    assert root.metadata == {
        "formula": "pair",
        "plan_file": SETTING.plan_file,
        "plan_section": "### Sprint 2.1: The API",
        "plan_sprint_id": "2.1",
        "branch": "feature/2-1-the-api",
    }


def test_a_step_has_the_place_of_its_sprint() -> None:
    built = whole(plan(poured("3a.2b", "The API", "pair")), PAIR)
    step = bead(built, "3a.2b", "code")
    where = step.metadata
    assert (where.phase, where.sprint, where.plan_sprint_id) == ("3a", "3a.2b", "3a.2b")
    assert (where.plan_file, where.plan_section) == (SETTING.plan_file, "### Sprint 3a.2b: The API")
    assert (where.formula, where.molecule, where.step) == ("pair", "bd-3a-2b-the-api", "code")
    assert step.parent == "bd-3a-2b-the-api"
    assert step.labels[:2] == ["phase-03", "sprint-3a-2b"]
    assert (where.source_branch, where.dev_agents[0].model) == ("develop", "sonnet")


def test_a_formula_cannot_move_its_beads_to_another_sprint_or_plan() -> None:
    """Else they would never be found again as beads of this plan."""
    elsewhere = {"plan_file": "other.md", "plan_sprint_id": "9.9", "sprint": "9.9", "phase": "9"}
    built = whole(plan(poured("1.1", "A", "odd")), formula("odd", work("code", metadata=elsewhere)))
    where = bead(built, "1.1", "code").metadata
    assert (where.plan_file, where.plan_sprint_id, where.sprint, where.phase) == (
        SETTING.plan_file, "1.1", "1.1", "1"
    )  # fmt: skip


def test_several_beads_have_branches_of_their_own_and_a_single_one_has_the_sprints() -> None:
    text = plan(poured("1.1", "A", "pair"), poured("1.2", "B", "one"), poured("1.3", "C", "agreed"))
    built = whole(text, PAIR, ONE, AGREED)
    assert bead(built, "1.1", "code").metadata.branch == "feature/1-1-a-code"
    assert bead(built, "1.1", "review").metadata.branch == "feature/1-1-a-review"
    assert bead(built, "1.2", "code").metadata.branch == "feature/1-2-b"
    assert bead(built, "1.3", "code").metadata.branch == "feature/1-3-c"
    trees = [bead(built, "1.1", step).metadata.worktree_path for step in ("code", "review")]
    assert [tree.rpartition("/")[2] for tree in trees] == ["1-1-a-code", "1-1-a-review"]


def test_branch_and_worktree_of_the_sprint_carry_the_step_behind_them() -> None:
    given_place = {"branch": "`work/api`", "worktree": "`../trees/api`"}
    built = whole(plan(poured("1.1", "A", "pair", **given_place)), PAIR)
    where = bead(built, "1.1", "code").metadata
    assert (where.branch, where.worktree_path) == ("work/api-code", "/srv/trees/api-code")
    alone = whole(plan(poured("1.1", "A", "one", **given_place)), ONE)
    where = bead(alone, "1.1", "code").metadata
    assert (where.branch, where.worktree_path) == ("work/api", "/srv/trees/api")


def test_what_a_step_does_not_say_it_has_from_the_sprint() -> None:
    text = plan(
        "### Sprint 1.1: A\n\nMind the old clients.\n\n**Formula**: pair\n**Source Branch**: main\n"
        "**Team**: core\n**Labels**: api\n**Priority**: 3\n**Template**: refactor\n\n"
        "**Dev Agents**:\n- claude (opus) - Be brief\n\n"
        "**QA Agents**:\n- claude (haiku) - Look\n\n**Tasks**:\n- First this\n- Then that\n\n"
        "**Acceptance Criteria**:\n- It is fast\n\n**Verify**: `make test`\n"
    )
    step = bead(whole(text, PAIR), "1.1", "review")
    where = step.metadata
    assert (where.source_branch, where.team_name, step.priority, where.template) == (
        "main",
        "core",
        3,
        "refactor",
    )
    assert step.labels == ["phase-01", "sprint-1-1", "api"]
    assert [(agent.model, agent.context) for agent in where.dev_agents] == [("opus", "Be brief")]
    assert where.dev_prompts == ["Do review", "First this", "Then that"]
    assert where.acceptance_criteria == ["It is fast"]
    assert where.dod is not None
    assert [check.command for check in where.dod.verifiers] == ["make test"]
    assert step.description.endswith("Mind the old clients.")


def test_what_a_step_says_itself_wins() -> None:
    own = {
        "source_branch": "stable",
        "team_name": "docs",
        "dev_agents": ["claude (haiku)"],
        "dev_prompts": ["Only this"],
        "branch": "docs/api",
    }
    text = plan(poured("1.1", "A", "f", source_branch="main", team="core", priority="3", tasks="x"))
    step = bead(
        whole(text, formula("f", work("code", priority=0, metadata=own), work("more"))), "1.1", "code"
    )
    where = step.metadata
    assert (where.source_branch, where.team_name, where.branch, step.priority) == (
        "stable",
        "docs",
        "docs/api",
        0,
    )
    assert (where.dev_agents[0].model, where.dev_prompts) == ("haiku", ["Only this"])


def test_a_formula_sprint_needs_neither_tasks_nor_agents_where_the_formula_has_them() -> None:
    agents = {"dev_agents": ["claude"], "qa_agents": ["claude"], "source_branch": "main"}
    complete = formula("f", work("code", metadata=agents))
    built = whole(plan(poured("1.1", "A", "f"), front_matter=""), complete)
    assert bead(built, "1.1", "code").metadata.branch == "main/1-1-do-code"
    lacking = compiled(plan(poured("1.1", "A", "one"), front_matter=""), ONE)
    assert {fault.code for fault in lacking.all_faults} == {Code.MISSING_FIELD}


def test_a_bead_id_of_the_formula_wins_unless_it_is_the_roots_own() -> None:
    named = formula(
        "named", work("code", bead_id="bd-special"), work("more", bead_id="bd-{{sprint_slug}}-{{name}}")
    )
    built = whole(plan(poured("1.1", "A", "named")), named)
    assert [member.id for member in built.molecules["1.1"].members] == ["bd-special", "bd-1-1-a-more"]


def test_an_id_suffix_reaches_every_id() -> None:
    named = formula("named", work("code", bead_id="bd-special"), person("agree"))
    built = whole(plan(poured("1.1", "A", "named"), sprint("1.2", "B")), named, id_suffix="run2")
    assert [each.id for each in everything(built)] == [
        "bd-1-1-a-run2",
        "bd-special-run2",
        "bd-1-1-a-run2-agree",
        "bd-1-2-b-run2",
    ]
    assert bead(built, "1.2").dependencies == ["bd-special-run2", "bd-1-1-a-run2-agree"]


# --- variables ----------------------------------------------------------------------------------------


def texts(built: Built) -> str:
    return bead(built, "2.1b", "code").description


def echo(*names: str, **variables: Any) -> Formula:
    """A formula that says what its variables are."""
    said = {name: variables.get(name, {}) for name in names}
    lines = "\n".join(f"{name}={{{{{name}}}}}" for name in names)
    return formula("echo", work("code", title="T", description=lines), variables=said)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sprint_id", "2.1b"),
        ("sprint", "2.1b"),
        ("sprint_slug", "2-1b"),
        ("phase", "2"),
        ("title", "The API"),
        ("sprint_title", "The API"),
        ("name", "the-api"),
        ("branch", "feature/2-1b-the-api"),
        ("worktree", "/srv/shop-worktrees/feature/2-1b-the-api"),
        ("worktree_path", "/srv/shop-worktrees/feature/2-1b-the-api"),
        ("plan_file", "plans/shop.md"),
        ("source_branch", "develop"),
        ("team", "sprint-2-1b-the-api"),
        ("rig", "beads-ralph"),
        ("tasks", "Do this\nDo that"),
        ("dev_agent", "claude"),
        ("dev_model", "opus"),
        ("qa_agent", "claude"),
        ("qa_model", "haiku"),
        ("depends_on", "bd-1-1-start"),
    ],
)
def test_a_sprint_offers_what_it_says_under_the_obvious_names(name: str, expected: str) -> None:
    body = {"dev_agents": "claude (opus)", "tasks": "\n- Do this\n- Do that"}
    built = whole(plan(sprint("1.1", "Start"), poured("2.1b", "The API", "echo", **body)), echo(name))
    assert texts(built).startswith(f"{name}={expected}")


def test_personas_are_offered_by_name_as_a_plan_writes_them() -> None:
    said = "python-dev (opus) - write it"
    one = echo("dev_agent", "dev_agents")
    text = plan(poured("2.1b", "The API", "echo", dev_agents=said))
    built = whole(text, one, agent_check=False)
    assert texts(built) == f"dev_agent=python-dev\ndev_agents={said}"


def test_pour_goes_before_the_sprint_and_the_sprint_before_a_default() -> None:
    variables = {"name": {"default": "x"}, "dev_model": {"default": "haiku"}, "team": {"default": "y"}}
    one = echo("name", "dev_model", "team", **variables)
    text = plan(poured("2.1b", "The API", "echo", pour="name=mine", dev_agents="claude (opus)"))
    assert texts(whole(text, one)) == "name=mine\ndev_model=opus\nteam=y"


def test_what_follows_from_a_variable_follows_from_the_value_that_is_poured() -> None:
    one = echo("title", "name", name={"derive": "slug(title)"})
    assert texts(whole(plan(poured("2.1b", "The API", "echo")), one)) == "title=The API\nname=the-api"
    text = plan(poured("2.1b", "The API", "echo", pour="title=Another"))
    assert texts(whole(text, one)) == "title=Another\nname=another"


def test_defaults_of_the_plan_stand_behind_those_of_the_formula() -> None:
    one = echo("dev_model", "source_branch", dev_model={"default": "haiku"})
    assert texts(whole(plan(poured("2.1b", "A", "echo")), one)) == "dev_model=haiku\nsource_branch=develop"


def test_tasks_that_the_formula_takes_go_where_it_puts_them() -> None:
    taking = formula(
        "taking",
        work("code", metadata={"dev_prompts": ["Begin", "{{tasks}}"]}),
        work("review", needs=["code"]),
        variables={"tasks": {"type": "list", "required": True}},
    )
    built = whole(plan(poured("1.1", "A", "taking", tasks="\n- One\n- Two")), taking)
    assert bead(built, "1.1", "code").metadata.dev_prompts == ["Begin", "One", "Two"]
    assert bead(built, "1.1", "review").metadata.dev_prompts == ["Do review"]


def test_lists_of_pour_are_lists_of_the_formula() -> None:
    listing = formula("listing", work("code", labels=["a", "{{more}}"]), variables={"more": {"type": "list"}})
    built = whole(plan(poured("1.1", "A", "listing", pour="more=[x, y]")), listing)
    assert bead(built, "1.1", "code").labels == ["phase-01", "sprint-1-1", "a", "x", "y"]


# --- faults -------------------------------------------------------------------------------------------


def at_line(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def test_every_fault_of_the_values_stands_at_its_line() -> None:
    variables = {
        "need": {"required": True, "description": "what for"},
        "size": {"enum": ["small", "large"]},
        "count": {"type": "int"},
        "name": {"pattern": "^[0-9]+$"},
    }
    strict = formula("strict", work("code"), variables=variables)
    text = plan(poured("1.1", "A", "strict", pour="\n- size: huge\n- count: many\n- sise: small"))
    built = compiled(text, strict)
    faults = {(fault.code, fault.line, fault.field) for fault in built.all_faults}
    named = at_line(text, "**Formula**")
    assert faults == {
        (Code.MISSING_VAR, named, "vars.need"),
        (Code.INVALID_VAR, at_line(text, "huge"), "vars.size"),
        (Code.INVALID_VAR, at_line(text, "many"), "vars.count"),
        (Code.INVALID_VAR, at_line(text, "sise"), "vars.sise"),
        (Code.INVALID_VAR, named, "vars.name"),
    }
    words = {fault.field: fault for fault in built.all_faults}
    assert "did you mean size" in words["vars.sise"].message
    assert words["vars.need"].remedy == "Add a line to the sprint's **Pour**, such as: - need: VALUE"
    assert "taken from the sprint itself" in words["vars.name"].message
    assert all(fault.message.startswith("sprint 1.1: ") for fault in built.all_faults)


def test_a_formula_that_cannot_be_had_is_a_fault_of_the_sprint_alone() -> None:
    text = plan(poured("1.1", "A", "gone"), sprint("1.2", "B"))
    built = compiled(text)
    assert told(built) == [(Code.FORMULA_NOT_FOUND, at_line(text, "**Formula**"))]
    assert list(built.sprint_faults) == ["1.1"]


def test_why_a_formula_could_not_be_read_is_told_where_the_plan_names_it() -> None:
    inner = Fault(
        Code.FORMULA_INVALID, "steps[0] has no title", file="f.formula.toml", field="steps[0].title"
    )
    error = RalphError(Code.FORMULA_INVALID, "bad", faults=[inner])
    text = plan(poured("1.1", "A", "f"))
    built = compiled(text, formulas={"f": error})
    (fault,) = built.all_faults
    assert (fault.code, fault.line) == (Code.FORMULA_INVALID, at_line(text, "**Formula**"))
    assert "f.formula.toml: steps[0] has no title" in fault.message


def test_what_nobody_acts_on_is_said_where_the_plan_pours_it() -> None:
    waiting = formula("waiting", work("code"), work("more", needs=["code"], waits_for="any-children"))
    text = plan(poured("1.1", "A", "waiting"))
    built = compiled(text, waiting)
    (warning,) = built.warnings
    assert (warning.code, warning.line) == (Code.FORMULA_UNSUPPORTED, at_line(text, "**Formula**"))
    assert "any-children waits for all of them" in warning.message
    assert "1.1" in built.molecules


def test_a_bead_that_does_not_come_out_right_is_told_with_its_step() -> None:
    bad = formula("bad", work("code", metadata={"branch": "no spaces allowed"}))
    text = plan(poured("1.1", "A", "bad"))
    (fault,) = compiled(text, bad).all_faults
    assert (fault.file, fault.line) == (SETTING.plan_file, at_line(text, "**Formula**"))
    assert "sprint 1.1: step code: " in fault.message


def test_a_pour_that_makes_nothing_is_a_fault() -> None:
    never = formula("never", work("code", condition="{{on}}"), variables={"on": {"default": ""}})
    text = plan(poured("1.1", "A", "never"))
    assert told(compiled(text, never)) == [(Code.FORMULA_INVALID, at_line(text, "**Formula**"))]


def test_a_pour_that_cannot_be_read_is_the_only_fault_of_its_sprint() -> None:
    text = plan("### Sprint 1.1: A\n**Pour**: formula=one, what\n", "### Sprint 1.2: B\n**Pour**: x=1\n")
    codes = [Code.PLAN_PATTERN, Code.MISSING_SECTION]
    assert [fault.code for fault in compiled(text, ONE).all_faults] == codes


def test_a_type_is_said_to_mean_nothing_for_a_poured_sprint() -> None:
    text = plan(poured("1.1", "A", "one", type="work"))
    (warning,) = whole(text, ONE).warnings
    assert warning.line == at_line(text, "**Type**")


def test_the_legacy_schema_refuses_formula_sprints() -> None:
    text = plan(poured("1.1", "A", "one"), sprint("1.2", "B"))
    built = compiled(text, ONE, schema="legacy")
    assert told(built) == [(Code.CONSTRAINT, at_line(text, "**Formula**"))]
    assert "--schema legacy" in built.all_faults[0].remedy


def test_the_same_id_from_two_pours_is_a_fault_of_both() -> None:
    fixed = formula("fixed", work("code", bead_id="bd-same", metadata={"branch": "same"}))
    built = compiled(plan(poured("1.1a", "A", "fixed"), poured("1.1b", "B", "fixed")), fixed)
    assert [fault.code for fault in built.all_faults] == [Code.DUPLICATE_ID] * 2


def test_branches_that_git_would_refuse_are_found_among_steps_and_sprints() -> None:
    nested = formula("nested", work("code", metadata={"branch": "feature/1-2-b/deep"}))
    text = plan(poured("1.1", "A", "nested"), sprint("1.2", "B"))
    (fault,) = compiled(text, nested).all_faults
    assert fault.code is Code.CONSTRAINT
    assert "git cannot have branch feature/1-2-b/deep beside feature/1-2-b of sprint 1.2" in fault.message


def test_a_cycle_through_a_step_is_found_before_the_store_finds_it() -> None:
    text = plan(sprint("1.1", "A", depends_on="bd-1-2-b-code"), poured("1.2", "B", "one"))
    (fault,) = compiled(text, ONE).all_faults
    assert fault.code is Code.CYCLE_DETECTED
    assert "bd-1-1-a" in fault.message


def test_a_chosen_sprint_is_refused_with_the_faults_of_a_pour_that_it_waits_for() -> None:
    built = compiled(plan(poured("1.1", "A", "gone"), sprint("1.2", "B"), sprint("1.3", "C")))
    with pytest.raises(RalphError) as caught:
        load.require_valid(built, ["1.2"])
    assert caught.value.code is Code.FORMULA_NOT_FOUND
    assert list(load.require_valid(built, ["1.3"]).parts) == ["1.3"]


# --- one graph ----------------------------------------------------------------------------------------


def test_first_steps_wait_for_the_sprints_before_and_later_sprints_for_the_last_steps() -> None:
    text = plan(
        sprint("1.1", "A"), poured("1.2", "B", "pair"), poured("1.3", "C", "fork"), sprint("1.4", "D")
    )
    built = whole(text, PAIR, FORK)
    assert bead(built, "1.2", "code").dependencies == ["bd-1-1-a"]
    assert bead(built, "1.2", "review").dependencies == ["bd-1-2-b-code"]
    assert bead(built, "1.3", "left").dependencies == ["bd-1-2-b-review"]
    assert bead(built, "1.3", "right").dependencies == ["bd-1-2-b-review"]
    assert bead(built, "1.4").dependencies == ["bd-1-3-c-left", "bd-1-3-c-right"]


def test_the_order_in_the_file_is_no_matter() -> None:
    text = plan(sprint("1.3", "C"), poured("1.2", "B", "pair"), sprint("1.1", "A"))
    built = whole(text, PAIR)
    assert bead(built, "1.3").dependencies == ["bd-1-2-b-review"]
    assert [each.id for each in everything(built)][:2] == ["bd-1-3-c", "bd-1-2-b"]


def test_behind_a_persons_last_step_the_work_before_it_is_waited_for() -> None:
    built = whole(plan(poured("1.1", "A", "agreed"), sprint("1.2", "B")), AGREED)
    assert bead(built, "1.2").dependencies == ["bd-1-1-a-agree", "bd-1-1-a-code"]


def test_behind_a_sprint_of_people_only_the_work_before_that_sprint_is_waited_for() -> None:
    people = formula("people", person("agree"))
    built = whole(plan(sprint("1.1", "A"), poured("1.2", "B", "people"), sprint("1.3", "C")), people)
    assert bead(built, "1.3").dependencies == ["bd-1-2-b-agree", "bd-1-1-a"]


def test_a_merge_sprint_merges_the_branches_of_the_last_steps() -> None:
    built = whole(plan(poured("1.1", "A", "fork"), sprint("1.2", "Merge them")), FORK)
    last = bead(built, "1.2")
    assert last.issue_type == MERGE
    assert last.metadata.branches_to_merge == ["feature/1-1-a-left", "feature/1-1-a-right"]


def test_a_merge_step_merges_what_its_sprint_waits_for() -> None:
    joining = formula("joining", merge("join"))
    text = plan(sprint("1.1a", "A"), poured("1.1b", "B", "pair"), poured("1.2", "Join", "joining"))
    built = whole(text, PAIR, joining)
    step = bead(built, "1.2", "join")
    assert step.metadata.branches_to_merge == ["feature/1-1a-a", "feature/1-1b-b-review"]


def test_depends_on_takes_the_root_for_the_sprint_and_a_step_for_itself() -> None:
    text = plan(
        poured("1.1", "A", "pair"),
        sprint("2.1", "B", depends_on="bd-1-1-a"),
        sprint("2.2", "C", depends_on="bd-1-1-a-code"),
    )
    built = whole(text, PAIR)
    assert bead(built, "2.1").dependencies == ["bd-1-1-a-review"]
    assert bead(built, "2.2").dependencies == ["bd-2-1-b", "bd-1-1-a-code"]


# --- laws ---------------------------------------------------------------------------------------------

SPRINT_IDS = st.builds(
    "{}{}.{}{}".format,
    st.integers(1, 3),
    st.sampled_from(["", "", "a", "b"]),
    st.integers(1, 3),
    st.sampled_from(["", "", "a", "b"]),
)


@st.composite
def formulas(draw: st.DrawFn, name: str) -> Formula:
    """Steps of all kinds that wait for some of those before them."""
    steps: list[dict[str, Any]] = []
    for at in range(draw(st.integers(1, 4))):
        make = draw(st.sampled_from([work, person, gated, epic, loop]))
        needs = draw(st.lists(st.sampled_from([one["id"] for one in steps]), unique=True)) if steps else []
        steps.append(make(f"s{at}", needs=needs))
    return formula(name, *steps)


def gated(step: str, **said: Any) -> dict[str, Any]:
    return work(step, gate={"type": "human", "id": "go"}, **said)


def epic(step: str, **said: Any) -> dict[str, Any]:
    inner = [work(f"{step}a"), person(f"{step}b", needs=[f"{step}a"]), work(f"{step}c")]
    return {"id": step, "title": f"All of {step}", "children": inner, **said}


def loop(step: str, **said: Any) -> dict[str, Any]:
    body = [work("try"), person("look", needs=["try"])]
    return {"id": step, "title": f"Again {step}", "loop": {"count": 2, "body": body}, **said}


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, list[Formula]]:
    """Plans of written and of poured sprints; **Depends On** leads to smaller ids only."""
    ids = sorted(draw(st.sets(SPRINT_IDS, min_size=2, max_size=7)))
    known = [draw(formulas(name)) for name in ("f", "g")]
    sections: list[str] = []
    for at, name in enumerate(ids):
        fields = {"depends_on": draw(st.sampled_from(ids[:at]))} if at and draw(st.booleans()) else {}
        if draw(st.booleans()):
            sections.append(poured(name, f"Part {name}", draw(st.sampled_from(["f", "g"])), **fields))
        else:
            sections.append(sprint(name, f"Part {name}", **fields))
    return plan(*draw(st.permutations(sections))), known


def reachable(edges: Mapping[str, Sequence[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for other in edges.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def beads_of(built: Built, name: str) -> list[Bead]:
    part = built.molecules.get(name)
    found: Iterable[Any] = part.members if part else [built.beads[name]]
    return [each for each in found if isinstance(each, Bead)]


def without_cycles(text: str, known: Sequence[Formula]) -> Built | None:
    """The numbers and a random **Depends On** may contradict one another; such a plan is refused."""
    built = compiled(text, *known)
    codes = {fault.code for fault in built.all_faults}
    assert codes <= {Code.CYCLE_DETECTED, Code.SELF_DEP}
    return None if codes else built


@settings(max_examples=examples(150))
@given(plans())
def test_law_one_acyclic_graph_in_which_later_beads_reach_all_earlier_ones(
    made: tuple[str, list[Formula]],
) -> None:
    built = without_cycles(*made)
    if built is None:
        return
    things = everything(built)
    edges = {each.id: list(each.dependencies) for each in things}
    assert graph.cycle(edges) == []
    assert graph.dangling(edges) == []
    for name in built.edges:
        before = reachable(built.edges, name)
        ids = {each.id for other in before for each in steps_of(built, other)}
        for each in steps_of(built, name):
            assert ids <= reachable(edges, each.id)


def steps_of(built: Built, name: str) -> list[Stored]:
    """Without what waits for nothing itself: roots, epics and gates."""
    part = built.molecules.get(name)
    found: Sequence[Stored] = part.members if part else [built.beads[name]]
    return [each for each in found if each.issue_type not in (*CONTAINERS, GATE)]


@settings(max_examples=examples(150))
@given(plans())
def test_law_the_work_of_earlier_beads_reaches_later_ones_through_beads_alone(
    made: tuple[str, list[Formula]],
) -> None:
    """A worktree begins with the branches of the beads that its bead depends on; a person's task has none."""
    built = without_cycles(*made)
    if built is None:
        return
    agents = {each.id: each for name in built.edges for each in beads_of(built, name)}
    edges = {name: [other for other in each.dependencies if other in agents] for name, each in agents.items()}
    for name in built.edges:
        earlier = {each.id for other in reachable(built.edges, name) for each in beads_of(built, other)}
        for each in beads_of(built, name):
            assert earlier <= reachable(edges, each.id)


@settings(max_examples=examples(100))
@given(plans())
def test_law_annotating_and_reading_back_is_the_same(made: tuple[str, list[Formula]]) -> None:
    built = without_cycles(*made)
    if built is None:
        return
    text = made[0]
    ids = load.require_valid(built, [one.id.text for one in built.plan.sprints]).ids
    annotated = annotate(text, parse(text, SETTING.plan_file), ids)
    again = whole(annotated, *made[1])
    read = {one.id.text: one.annotation.value for one in again.plan.sprints if one.annotation}
    assert read == ids == dict(again.ids)
    assert [each.to_json() for each in everything(again)] == [each.to_json() for each in everything(built)]
    assert annotate(annotated, again.plan, ids) == annotated


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_law_the_mode_is_that_of_the_chosen_sprints(kinds: list[bool]) -> None:
    sections = [
        poured(f"1.{at}", f"P{at}", "one") if is_poured else sprint(f"1.{at}", f"P{at}")
        for at, is_poured in enumerate(kinds, 1)
    ]
    built = whole(plan(*sections), ONE)
    batch = load.require_valid(built, [one.id.text for one in built.plan.sprints])
    expected = "formula" if all(kinds) else "mixed" if any(kinds) else "direct"
    assert batch.mode == expected
    assert len(batch.members) == len(kinds)
    assert len(batch.stored) == len(kinds) + sum(kinds)
    assert all(each.issue_type == WORK for each in batch.members)
    assert list(_roots(batch.molecules)) == [batch.ids[f"1.{at}"] for at, one in enumerate(kinds, 1) if one]


def _roots(found: Iterable[Molecule]) -> Iterator[str]:
    return (molecule.root.id for molecule in found)

"""What a formula with its values becomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.bead.items import GateRule, Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import SprintId
from beads_ralph.compile.build import build
from beads_ralph.compile.molecule import compose
from beads_ralph.compile.setting import Place, number_in, root_id
from beads_ralph.compile.sprints import tracking
from beads_ralph.errors import Code
from beads_ralph.formula.variables import values
from beads_ralph.plan import Sprint, parse
from beads_ralph.plan.model import At
from tests.compile.molecule_formulas import (
    DEFAULTS,
    MERGE,
    WORK,
    bead,
    composed,
    formula,
    members,
    setting,
    sound,
    step,
)

PLAN = """\
---
source_branch: develop
---
# Shop

## Phase 2: Middle

### Sprint 2.1: Backend API
**Priority**: 0
**Labels**: api, python
**Dev Agents**:
- python-dev (opus) - write it
**QA Agents**:
- qa-review (haiku) - read it
**Tasks**:
- Write the API
- Test the API
**Acceptance Criteria**:
- It answers
**Verify**: `make test`

### Sprint 2.2a: Search
**Tasks**:
- Search

### Sprint 2.2b: Basket
**Tasks**:
- Basket

### Sprint 2.3: Merge both
**Tasks**:
- Merge
"""

# --- ids --------------------------------------------------------------------------------------------


def test_s1_fr7_2_ids_are_made_of_the_formula_its_number_and_the_step() -> None:
    loop = {"id": "fan", "title": "Fan", "loop": {"count": 2, "body": [step("work")]}}
    gated = step("merge", gate={"type": "human"})
    made = sound(composed(formula(step("work"), loop, gated, name="work-sprint")))
    assert made.root.id == "bd-work-sprint-007"
    assert [member.id for member in made.members] == [
        "bd-work-sprint-007-work",
        "bd-work-sprint-007-fan-iter1-work",
        "bd-work-sprint-007-fan-iter2-work",
        "bd-work-sprint-007-merge",
        "bd-work-sprint-007-gate-merge",
    ]


@pytest.mark.parametrize(
    ("name", "number", "wanted"),
    [
        ("work", 1, "bd-work-001"),
        ("work", 1000, "bd-work-1000"),
        ("v1.2 hot/fix", 2, "bd-v1-2-hot-fix-002"),
        ("größe", 3, "bd-größe-003"),
    ],
)
def test_an_id_is_made_of_letters_digits_and_dashes_and_gives_its_number_back(
    name: str, number: int, wanted: str
) -> None:
    assert root_id(name, number) == wanted
    assert number_in(wanted, name) == number
    assert number_in(f"feature/{wanted.removeprefix('bd-')}-title", name) == number


@pytest.mark.parametrize(
    "other", ["bd-work-sprint-001", "bd-my-work-001", "bd-work-01", "bd-work-001x", "feature/homework-001-x"]
)
def test_other_formulas_numbers_do_not_count(other: str) -> None:
    assert number_in(other, "work") is None


def test_an_id_that_the_formula_names_is_taken() -> None:
    source = formula(step("work", bead_id="bd-{{module}}-work"), step("next", needs=["work"]))
    made = sound(composed(source, {"module": "shop"}))
    assert made.given_ids == {"bd-shop-work"}
    assert members(made)["next"].dependencies == ["bd-shop-work"]


def test_ids_that_meet_are_a_fault() -> None:
    made = composed(formula(step("work", bead_id="bd-pattern-007-next"), step("next")))
    assert {fault.code for fault in made.faults} == {Code.DUPLICATE_ID}


# --- items ------------------------------------------------------------------------------------------


def test_everything_a_step_says_is_in_its_item() -> None:
    source = formula(
        step(
            "ask",
            title="Ask {{who}}",
            description="About {{what}}",
            notes="Soon, {{who}}",
            priority=3,
            labels=["for-{{who}}"],
            assignee="{{who}}",
            metadata={"deep": {"what": ["{{what}}"]}},
        )
    )
    item = members(composed(source, {"who": "ann", "what": "prices"}))["ask"]
    assert isinstance(item, Item)
    assert item.to_json() == {
        "id": "bd-pattern-007-ask",
        "title": "Ask ann",
        "issue_type": "task",
        "description": "About prices",
        "notes": "Soon, ann",
        "priority": 3,
        "labels": ["for-ann"],
        "assignee": "ann",
        "dependencies": [],
        "metadata": {"deep": {"what": ["prices"]}},
        "parent": "bd-pattern-007",
    }


def test_children_lie_below_their_epic_and_gates_beside_their_step() -> None:
    source = formula(
        {"id": "build", "title": "Build", "children": [step("a"), step("b", needs=["a"])]},
        step("ship", needs=["build"], gate={"type": "timer", "timeout": "1h"}),
    )
    made = members(composed(source))
    assert made["build"].issue_type == "epic"
    assert {made["a"].parent, made["b"].parent} == {made["build"].id}
    assert made["gate-ship"].gate == GateRule(type="timer", timeout="1h")
    assert made["gate-ship"].parent == made["ship"].parent == "bd-pattern-007"
    assert set(made["ship"].dependencies) == {made["a"].id, made["b"].id, made["gate-ship"].id}


def test_the_root_has_the_formulas_words_and_the_assignee() -> None:
    source = formula(
        step("a"), description="All of {{what}}", vars={"title": {"required": True}, "what": "it"}
    )
    root = composed(source, {"title": "Prices"}, assignee="ann").root
    assert (root.title, root.description, root.issue_type) == ("Prices", "All of it", "molecule")
    assert (root.assignee, root.metadata) == ("ann", {"formula": "pattern"})


def test_the_parts_of_a_wisp_are_all_wisps() -> None:
    source = formula(step("a", WORK), step("b", gate={"type": "human"}))
    made = sound(composed(source, wisp=True))
    assert all(thing.ephemeral for thing in made.batch)
    assert not any(thing.ephemeral for thing in sound(composed(source)).batch)


# --- beads ------------------------------------------------------------------------------------------


def mason_bead(sprint: str) -> Bead:
    found = build(parse(PLAN, "plan.md"), setting()).beads[sprint]
    assert isinstance(found, Bead)
    return found


def test_s1_fr7_2_a_step_is_completed_as_mason_completes_a_sprint() -> None:
    """The same words, in a plan and in a formula, make the same bead, but for where they stand."""
    source = formula(
        step(
            "api",
            WORK,
            title="Backend API",
            description="Write the API. Test the API.",
            priority=0,
            labels=["api", "python"],
            metadata={
                "dev_prompts": ["Write the API", "Test the API"],
                "dev_agents": ["python-dev (opus) - write it"],
                "qa_agents": ["qa-review (haiku) - read it"],
                "acceptance_criteria": ["It answers"],
                "dod": {"verifiers": ["make test"]},
            },
        ),
        vars={"sprint_id": {"required": True}},
    )
    made = bead(composed(source, {"sprint_id": "2.1"}), "api").to_json()
    wanted = mason_bead("2.1").to_json()
    told = {
        key: made["metadata"].pop(key) for key in ("formula", "molecule", "step", "plan_file", "plan_section")
    }
    assert told == {
        "formula": "pattern",
        "molecule": "bd-pattern-007",
        "step": "api",
        "plan_file": ".beads/formulas/pattern.formula.json",
        "plan_section": "pattern: api",
    }
    for key in ("plan_file", "plan_section"):
        del wanted["metadata"][key]
    assert made.pop("parent") == "bd-pattern-007"
    assert (made.pop("id"), wanted.pop("id")) == ("bd-pattern-007-api", "bd-2-1-backend-api")
    assert made == wanted


OWN: list[tuple[str, Any, Any]] = [
    ("rig", "other", "other"),
    ("branch", "work/{{word}}", "work/x"),
    ("source_branch", "release/{{word}}", "release/x"),
    ("worktree_path", "../trees/{{word}}", "/trees/x"),
    ("worktree_path", "/elsewhere/{{word}}", "/elsewhere/x"),
    ("team_name", "{{word}}", "x"),
    ("phase", "3a", None),
    ("dev_prompts", ["{{word}}"], ["x"]),
    ("max_retry_attempts", 9, 9),
    ("template", "bug-fix", "bug-fix"),
    ("timeout_minutes", 5, 5),
    ("invented", {"{{word}}": "{{word}}"}, {"{{word}}": "x"}),
    ("dod", {"verifiers": [{"name": "t", "command": "make {{word}}"}]}, None),
]


@pytest.mark.parametrize(("key", "said", "wanted"), OWN)
def test_what_a_step_says_goes_before_what_is_filled_in(key: str, said: Any, wanted: Any) -> None:
    said_too = {"sprint": "3a.1"} if key == "phase" else {}
    made = composed(formula(step("a", WORK, metadata={key: said, **said_too}), vars={"word": "x"}))
    found = bead(made, "a").to_json()["metadata"][key]
    if key == "dod":
        wanted = {"verifiers": [{"name": "t", "command": "make x"}]}
    assert found == (wanted if wanted is not None else said)


def test_the_description_is_the_prompt_and_the_title_where_there_is_none() -> None:
    made = composed(formula(step("a", WORK, description="Do it"), step("b", WORK)))
    assert bead(made, "a").metadata.dev_prompts == ["Do it"]
    assert bead(made, "b").metadata.dev_prompts == ["Step b"]


def test_notes_go_into_the_description_of_a_bead() -> None:
    made = bead(composed(formula(step("a", WORK, description="Do it", notes="Mind the gap"))), "a")
    assert made.description == "Do it\n\nMind the gap"


def test_beads_are_counted_where_no_sprint_is_named() -> None:
    made = composed(formula(step("a", WORK), step("ask"), step("b", WORK)))
    assert [bead(made, name).metadata.sprint for name in "ab"] == ["7.1", "7.2"]
    assert bead(made, "b").labels == ["phase-07", "sprint-7-2"]


def test_two_formulas_do_not_share_a_branch_by_their_numbers() -> None:
    """7.1 is the first bead of the seventh pour of any formula."""
    branches = {
        bead(composed(formula(step("a", WORK), name=name)), "a").metadata.branch for name in ("one", "two")
    }
    assert branches == {"feature/one-007-step-a", "feature/two-007-step-a"}


@pytest.mark.parametrize("text", ["2", "2.x.1", "phase 2", "2.1\n"])
def test_what_is_no_sprint_is_a_fault_of_the_step(text: str) -> None:
    source = formula(step("a", WORK), vars={"sprint_id": {"required": True}})
    (fault,) = composed(source, {"sprint_id": text}).faults
    assert fault.code is Code.FIELD_PATTERN
    assert fault.field == "steps.a.metadata.sprint"


def test_every_fault_is_told_with_file_row_step_and_field() -> None:
    source = formula(
        step("a", WORK, metadata={"branch": "no good"}),
        step("b", WORK, metadata={"dev_agents": ["python dev (huge)"], "attempt_count": -1}),
        step("c", title="x" * 501),
        step("d", WORK, assignee="ann"),
    )
    place = replace(Place("bd-pattern-001", "p.json"), label="rows.csv row 3")
    faults = composed(source, place=place).faults
    assert {fault.file for fault in faults} == {"p.json"}
    assert all(fault.message.startswith("rows.csv row 3: step ") for fault in faults)
    assert [fault.field for fault in faults] == [
        "steps.a.metadata.branch",
        "steps.b.metadata.dev_agents.0",
        "steps.b.metadata.attempt_count",
        "steps.c.title",
        "steps.d.assignee",
    ]


def test_a_bead_needs_a_branch_to_start_from_and_agents() -> None:
    faults = composed(
        formula(step("a", WORK)), setting=setting(source_branch=None, dev_agents=None, qa_agents=None)
    ).faults
    fields = ["source_branch", "dev_agents", "qa_agents"]
    assert [fault.field for fault in faults] == [f"steps.a.metadata.{name}" for name in fields]
    assert {fault.code for fault in faults} == {Code.MISSING_FIELD}


def test_personas_are_looked_for_as_mason_does(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "agents").mkdir(parents=True)
    faults = composed(formula(step("a", WORK)), setting=setting(tmp_path)).faults
    assert [fault.field for fault in faults] == [
        "steps.a.metadata.dev_agents.0.agent",
        "steps.a.metadata.qa_agents.0.agent",
    ]
    unchecked = replace(setting(tmp_path), agent_check=False)
    assert composed(formula(step("a", WORK)), setting=unchecked).faults == ()


# --- whole metadata ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sprint", ["2.1", "2.2a", "2.3"])
def test_a_step_that_says_everything_is_taken_as_it_stands(sprint: str) -> None:
    """Without what belongs to the machine: that is filled in as mason does."""
    wanted = mason_bead(sprint).to_json()
    left_out = {"worktree_path", *tracking(setting(), setting().config.plan)}
    said = {
        key: value
        for key, value in wanted["metadata"].items()
        if key not in left_out and value is not None  # TOML has no null
    }
    source = formula(
        step(
            "it",
            wanted["issue_type"],
            title=wanted["title"],
            description=wanted["description"],
            priority=wanted["priority"],
            labels=wanted["labels"],
            bead_id=wanted["id"],
            after=wanted["dependencies"],
            metadata=said,
        )
    )
    (made,) = sound(composed(source)).members
    assert isinstance(made, Bead)
    found = made.to_json()
    assert found.pop("parent") == "bd-pattern-007"
    assert found == wanted


# --- what waits for what ----------------------------------------------------------------------------


def test_a_bead_behind_a_persons_task_also_waits_for_the_beads_before_it() -> None:
    source = formula(
        step("a", WORK),
        step("b", WORK),
        step("look", needs=["a"]),
        step("think", needs=["look", "b"]),
        step("go", WORK, needs=["think"]),
        step("merge", MERGE, needs=["think"]),
    )
    made = members(composed(source))
    assert set(made["go"].dependencies) == {made[name].id for name in ("think", "a", "b")}
    assert made["look"].dependencies == [made["a"].id]
    branches = [made[name].metadata.branch for name in ("b", "a")]
    assert sorted(made["merge"].metadata.branches_to_merge) == sorted(branches)


def test_the_first_steps_wait_for_what_comes_before_the_molecule() -> None:
    source = formula(
        {"id": "all", "title": "All", "children": [step("ask", gate={"type": "human"}), step("go", WORK)]},
        step("then", WORK, needs=["ask"]),
    )
    place = Place("bd-pattern-001", "plan.md", waits=("bd-1-1-x",), branches={"bd-1-1-x": "work/x"})
    made = sound(composed(source, place=place))
    found = members(made)
    assert set(made.entries) == {found["ask"].id, found["go"].id}
    assert found["go"].dependencies == ["bd-1-1-x"]
    assert set(found["ask"].dependencies) == {"bd-1-1-x", found["gate-ask"].id}
    assert set(found["then"].dependencies) == {found["ask"].id, "bd-1-1-x"}
    assert found["gate-ask"].dependencies == found["all"].dependencies == []


def test_what_waits_for_the_molecule_waits_for_its_last_steps_and_the_beads_behind_them() -> None:
    source = formula(
        step("a", WORK), step("b", WORK, needs=["a"]), step("look", needs=["b"]), step("c", WORK, needs=["a"])
    )
    made = sound(composed(source))
    found = members(made)
    assert set(made.exits) == {found[name].id for name in ("look", "b", "c")}


def test_a_merge_at_the_start_merges_what_comes_before_the_molecule() -> None:
    place = Place(
        "bd-pattern-001", "plan.md", waits=("bd-x", "bd-y"), branches={"bd-x": "w/x", "bd-y": "w/y"}
    )
    made = composed(formula(step("m", MERGE)), place=place)
    assert bead(made, "m").metadata.branches_to_merge == ["w/x", "w/y"]


def test_a_merge_of_nothing_is_a_fault() -> None:
    (fault,) = composed(formula(step("m", MERGE))).faults
    assert fault.field == "steps.m.metadata.branches_to_merge"


# --- attached ---------------------------------------------------------------------------------------


def test_s1_fr7_3_what_is_attached_follows_what_stands_before_it() -> None:
    first = formula(step("a", WORK), step("b", needs=["a"]), step("c", needs=["a"]))
    other = formula(step("d"), step("e", WORK, needs=["d"]), name="more")
    place = Place("bd-pattern-001", "p")
    none = values(first, {})
    attached = [(other, none), (other, none)]
    made = members(compose(first, none, setting(), place, attached=attached))
    assert [*made] == ["a", "b", "c", "more-d", "more-e", "more-2-d", "more-2-e"]
    assert set(made["more-d"].dependencies) == {made["b"].id, made["c"].id}
    assert set(made["more-e"].dependencies) == {made["more-d"].id, made["a"].id}
    assert made["more-2-d"].dependencies == [made["more-e"].id]
    assert made["more-e"].metadata.formula == "more"
    assert {member.parent for member in made.values()} == {"bd-pattern-001"}


# --- a sprint of a plan -----------------------------------------------------------------------------


def test_the_sprint_of_a_plan_speaks_for_every_step_that_says_nothing() -> None:
    number = SprintId.parse("4.2")
    assert number is not None
    sprint = Sprint(
        number,
        "Prices",
        "Sprint 4.2: Prices",
        12,
        source_branch=At("release", 13),
        labels=(At("prices", 14),),
        priority=At(0, 15),
    )
    source = formula(step("a", WORK), step("b", WORK, priority=3, labels=["own"], needs=["a"]))
    made = composed(source, place=Place("bd-4-2-prices", "plan.md", sprint=sprint, line=12))
    first, second = bead(made, "a"), bead(made, "b")
    assert (first.metadata.plan_file, first.metadata.plan_section) == ("plan.md", "Sprint 4.2: Prices")
    assert {one.metadata.plan_sprint_id for one in (first, second)} == {"4.2"}
    assert {one.metadata.source_branch for one in (first, second)} == {"release"}
    assert (first.priority, second.priority) == (0, 3)
    assert second.labels == ["phase-04", "sprint-4-2", "own", "prices"]
    assert first.metadata.branch == "release/4-2-step-a"


def test_a_bead_that_is_there_keeps_its_id_its_branch_and_its_worktree() -> None:
    source = formula(step("a", WORK))
    before = bead(composed(source), "a")
    renamed = formula(step("a", WORK, title="Another title"))
    place = Place("bd-pattern-007", "p", 7, known={"a": before})
    (after,) = sound(composed(renamed, place=place)).members
    assert isinstance(after, Bead)
    kept = ("branch", "worktree_path", "team_name")
    assert after.id == before.id
    assert [getattr(after.metadata, key) for key in kept] == [getattr(before.metadata, key) for key in kept]


def test_the_defaults_of_a_plan_go_before_those_of_the_settings() -> None:
    own = setting(rig="plan").config.plan
    made = composed(formula(step("a", WORK)), place=Place("bd-x-001", "p", defaults=own))
    assert bead(made, "a").metadata.rig == "plan" != DEFAULTS["rig"]

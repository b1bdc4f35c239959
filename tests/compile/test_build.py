"""What mason makes of a sprint: ids, labels, types, places, agents; always the same from the same plan."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead import schema
from beads_ralph.bead.legacy import LegacyBead
from beads_ralph.bead.model import OUTPUT_SCHEMA, Bead
from beads_ralph.compile.setting import Setting
from beads_ralph.config.model import Config, PlanDefaults
from beads_ralph.errors import Code
from beads_ralph.git.commands import Repository
from tests.compile.plans import (
    NOON,
    SEED_BEAD,
    SEED_PLAN_FILE,
    SEED_SPRINT,
    SETTING,
    beads_of,
    compiled,
    only,
    plan,
    seed_plan,
    sprint,
)

# --- ids --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sprint_id", "title", "bead_id"),
    [
        ("1.1", "Core Schema Validation Script", "bd-1-1-core-schema-validation-script"),
        ("1.2a", "Example Work Bead", "bd-1-2a-example-work-bead"),
        ("3a.2b", "API Validation Layer", "bd-3a-2b-api-validation-layer"),
        ("1.3", "Integration & Documentation", "bd-1-3-integration-documentation"),
        ("10.12ab", "X", "bd-10-12ab-x"),
        ("1.1", "Don't panic!", "bd-1-1-dont-panic"),
        ("1.1", "already-hyphened -- twice", "bd-1-1-already-hyphened-twice"),
        ("1.1", "a" * 40, "bd-1-1-" + "a" * 30),
        ("1.1", "a" * 29 + " bcd", "bd-1-1-" + "a" * 29),
        ("1.1", "Überprüfung", "bd-1-1-uberprufung"),
    ],
)
def test_s1_fr3_1_s1_fr3_2_an_id_is_phase_sprint_and_the_title_as_words(
    sprint_id: str, title: str, bead_id: str
) -> None:
    assert only(plan(sprint(sprint_id, title))).id == bead_id


@pytest.mark.parametrize(
    ("sprint_id", "title", "name", "bead_id"),
    [
        ("1.1", "Core Schema Validation Script", "schema", "bd-1-1-schema"),
        ("1.2a", "Example Work Bead", "work-bead", "bd-1-2a-work-bead"),
        ("3a.2b", "API Validation Layer", "validation", "bd-3a-2b-validation"),
        ("1.1", "Any", "bd-1-1-whole", "bd-1-1-whole"),
    ],
)
def test_s1_fr3_4_the_seeds_ids_come_from_a_bead_name(
    sprint_id: str, title: str, name: str, bead_id: str
) -> None:
    assert only(plan(sprint(sprint_id, title, bead_name=name))).id == bead_id


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=60))
def test_every_generated_id_is_one_that_the_schema_takes(title: str) -> None:
    built = compiled(plan(sprint("1.1", f"A {title}")))
    for bead in built.beads.values():
        assert bead.id.startswith("bd-1-1-a")
        assert not bead.id.endswith("-")
        assert len(bead.id) <= len("bd-1-1-") + 30


def test_s1_fr3_3_s1_t6_two_sprints_with_one_id_are_both_named() -> None:
    text = plan(sprint("1.1a", "First", bead_name="bd-same"), sprint("1.1b", "Second", bead_name="bd-same"))
    faults = compiled(text).all_faults
    assert [fault.code for fault in faults] == [Code.DUPLICATE_ID] * 2
    assert [text.splitlines()[(fault.line or 0) - 1] for fault in faults] == [
        "### Sprint 1.1a: First",
        "### Sprint 1.1b: Second",
    ]


def test_s1_t6_one_number_written_in_two_ways_is_a_duplicate() -> None:
    codes = {fault.code for fault in compiled(plan(sprint("1.1", "A"), sprint("1.01", "B"))).all_faults}
    assert codes == {Code.DUPLICATE_ID}


def test_s1_n2_2_a_suffix_makes_room_for_a_second_mason() -> None:
    text = plan(sprint("1.1", "Schema"), sprint("1.2", "Work"))
    beads = beads_of(text, id_suffix="run2")
    assert [bead.id for bead in beads.values()] == ["bd-1-1-schema-run2", "bd-1-2-work-run2"]
    assert beads["1.2"].dependencies == ["bd-1-1-schema-run2"]


@pytest.mark.parametrize("name", ["bd-../../etc", "bd-a/b", "bd-a\\b", "bd-a..b", "bd-a b"])
def test_a_bead_name_cannot_lead_out_of_its_place(name: str) -> None:
    text = plan(sprint("1.1", "Schema", bead_name=f"`{name}`"))
    (fault,) = compiled(text).all_faults
    assert (fault.code, fault.field) == (Code.CONSTRAINT, "id")
    assert text.splitlines()[(fault.line or 0) - 1].startswith("**Bead Name**")


# --- core fields ------------------------------------------------------------------------------------


def test_s1_ov1_one_bead_a_sprint_in_the_order_of_the_plan() -> None:
    ids = ["1.1", "1.2a", "1.2b", "1.3", "2a.1", "2b.1", "3.1"]
    assert list(beads_of(plan(*(sprint(name, f"Sprint {name}") for name in ids)))) == ids


def test_s1_fr3_5_the_fifteen_core_fields() -> None:
    raw = only(plan(sprint("1.1", "Schema"))).to_json()
    del raw["metadata"]
    assert raw == {
        "id": "bd-1-1-schema",
        "title": "Schema",
        "description": "Do the work.",
        "status": "open",
        "priority": 1,
        "issue_type": "beads-ralph-work",
        "assignee": "beads-ralph-scrum-master",
        "owner": None,
        "dependencies": [],
        "labels": ["phase-01", "sprint-1-1"],
        "comments": [],
        "external_ref": None,
        "created_at": "2026-02-08T10:00:00Z",
        "updated_at": "2026-02-08T10:00:00Z",
        "closed_at": None,
    }
    assert len(raw) == 15


def test_s1_fr3_5_times_are_utc_wherever_mason_runs() -> None:
    moment = datetime.fromisoformat("2026-02-08T10:00:00.7+05:00")
    assert only(plan(sprint("1.1", "Schema")), now=moment).created_at == "2026-02-08T05:00:00Z"


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        (["Write the model", "Test it"], "Write the model. Test it."),
        (["Ends with a stop.", "And so on..."], "Ends with a stop. And so on."),
        (["One"], "One."),
    ],
)
def test_s1_fr3_6_the_description_is_the_tasks_as_sentences(tasks: list[str], said: str) -> None:
    assert only(plan(sprint("1.1", "Schema", tasks=tasks))).description == said


def test_s1_fr3_6_prose_of_the_sprint_goes_before_its_tasks_and_notes_stay() -> None:
    text = plan(sprint("1.1", "Schema", risks="none known")).replace(
        "### Sprint 1.1: Schema\n", "### Sprint 1.1: Schema\n\nLays the ground for all else.\n"
    )
    assert only(text).description == "Lays the ground for all else.\n\nRisks: none known"


@pytest.mark.parametrize(
    ("sprint_id", "labels"),
    [
        ("1.2a", ["phase-01", "sprint-1-2a"]),
        ("3a.2b", ["phase-03", "sprint-3a-2b"]),
        ("3b.1", ["phase-03", "sprint-3b-1"]),
        ("12.5c", ["phase-12", "sprint-12-5c"]),
        ("100.1", ["phase-100", "sprint-100-1"]),
    ],
)
def test_s1_fr3_12_labels_name_phase_and_sprint(sprint_id: str, labels: list[str]) -> None:
    assert only(plan(sprint(sprint_id, "Schema"))).labels == labels


def test_s1_fr3_12_labels_of_the_plan_come_behind_and_none_twice() -> None:
    text = plan(sprint("1.1", "Schema", labels="backend, `phase-01`, slow, backend"))
    assert only(text).labels == ["phase-01", "sprint-1-1", "backend", "slow"]


# --- metadata ---------------------------------------------------------------------------------------


def test_s1_fr3_7_where_the_work_is_and_where_it_was_planned() -> None:
    text = plan(
        sprint(
            "3a.2b",
            "API Validation",
            worktree="`../shop-worktrees/feature/api`",
            branch="`feature/api`",
            source_branch="`release/2.0` (after 3a.1 merged)",
        )
    )
    metadata = only(text).metadata
    assert metadata.rig == "beads-ralph"
    assert metadata.worktree_path == "/srv/shop-worktrees/feature/api"
    assert metadata.branch == "feature/api"
    assert metadata.source_branch == "release/2.0"
    assert (metadata.phase, metadata.sprint, metadata.plan_sprint_id) == ("3a", "3a.2b", "3a.2b")
    assert metadata.plan_file == "plans/shop.md"
    assert metadata.plan_section == "### Sprint 3a.2b: API Validation"


def test_s1_fr3_7_the_rig_of_another_repository_comes_from_its_settings() -> None:
    setting = replace(SETTING, config=Config(plan=PlanDefaults(rig="shop")))
    assert only(plan(sprint("1.1", "Schema")), setting).metadata.rig == "shop"


def test_s1_fr3_8_what_a_fresh_bead_carries() -> None:
    raw = only(plan(sprint("1.1", "Schema", tasks=["First", "Second"]))).to_json()["metadata"]
    assert raw["dev_prompts"] == ["First", "Second"]
    assert raw["branches_to_merge"] is None
    assert (raw["max_retry_attempts"], raw["attempt_count"]) == (3, 0)
    for name in ("scrum_master_session_id", "dev_agent_session_id", "pr_url", "pr_number", "scrum_result"):
        assert raw[name] is None, name
    assert raw["dev_agent_executions"] == []
    assert raw["qa_agent_executions"] == []
    assert len(raw) == 24


def test_s1_fr3_8_dev_agents_are_personas_with_a_model() -> None:
    text = plan(sprint("1.1", "Schema", dev_agents="`python-backend-dev` (opus) - knows the database"))
    (dev,) = only(text).metadata.dev_agents
    assert dev.to_json() == {
        "role": "polecat",
        "agent": ".claude/agents/python-backend-dev.md",
        "model": "opus",
        "context": "knows the database",
    }


@pytest.mark.parametrize("label", ["worktree", "branch"])
def test_a_relative_or_home_path_is_stored_absolute(label: str) -> None:
    value = "`~no-such-user/x`" if label == "worktree" else "`feature/x`"
    path = only(plan(sprint("1.1", "Schema", **{label: value}))).metadata.worktree_path
    assert Path(path).is_absolute()
    assert ".." not in Path(path).parts


@pytest.mark.parametrize(
    ("fields", "front_matter", "team"),
    [
        ({}, "", "sprint-1-2a-schema"),
        ({"team": "sprint-2.1a-backend"}, "", "sprint-2.1a-backend"),
        ({}, "team: everyone\n", "everyone"),
        ({"team": "own"}, "team: everyone\n", "own"),
    ],
)
def test_the_team_is_the_plans_or_the_sprints_own(
    fields: dict[str, str], front_matter: str, team: str
) -> None:
    text = plan(sprint("1.2a", "Schema", **fields))
    text = text.replace("source_branch: develop\n", f"source_branch: develop\n{front_matter}")
    assert only(text).metadata.team_name == team


# --- work and merge ---------------------------------------------------------------------------------

GROUP = (sprint("1.1", "Start"), sprint("1.2a", "Left"), sprint("1.2b", "Right"))


@pytest.mark.parametrize("title", ["Schema", "Tests"])
def test_s1_fr3_9_work_beads_merge_nothing(title: str) -> None:
    bead = beads_of(plan(*GROUP, sprint("1.3", title)))["1.3"]
    assert (bead.issue_type, bead.metadata.branches_to_merge) == ("beads-ralph-work", None)


@pytest.mark.parametrize("title", ["Merge the parts", "Integration & Documentation", "Final MERGE"])
def test_s1_fr3_10_s1_fr3_11_a_title_that_says_merge_over_two_branches_is_one(title: str) -> None:
    bead = beads_of(plan(*GROUP, sprint("1.3", title)))["1.3"]
    assert bead.issue_type == "beads-ralph-merge"
    assert bead.metadata.branches_to_merge == ["feature/1-2a-left", "feature/1-2b-right"]


def test_s1_fr3_11_a_title_alone_makes_no_merge_and_says_so() -> None:
    built = compiled(plan(sprint("1.1", "Start"), sprint("1.2b", "Example Merge Bead (Parallel)")))
    assert built.all_faults == ()
    assert built.beads["1.2b"].issue_type == "beads-ralph-work"
    (warning,) = built.warnings
    assert "1.2b" in warning.message
    assert "**Type**" in warning.message


@pytest.mark.parametrize(
    "shared",
    [
        {"branch": "`feature/one`", "worktree": "`../one`"},  # dev → review → fix on one branch
        {"depends_on": "bd-other-1, bd-other-2"},  # beads of another plan, whose branches we do not know
    ],
)
def test_s1_fr3_11_nothing_to_merge_is_work_whatever_the_title_says(shared: dict[str, str]) -> None:
    own = {name: value for name, value in shared.items() if name != "depends_on"}
    group = [sprint("1.1a", "Left", **own), sprint("1.1b", "Right", **own)] if own else []
    built = compiled(plan(*group, sprint("1.2", "Integration tests", **shared)))
    assert built.all_faults == ()
    assert built.beads["1.2"].issue_type == "beads-ralph-work"
    assert [warning.code for warning in built.warnings] == [Code.CONSTRAINT]


def test_s1_fr3_11_the_plans_word_goes_before_the_title() -> None:
    text = plan(*GROUP, sprint("1.3", "Merge all", type="work"), sprint("1.4", "Gather", type="merge"))
    beads = beads_of(text)
    assert beads["1.3"].issue_type == "beads-ralph-work"
    assert beads["1.4"].issue_type == "beads-ralph-merge"
    assert beads["1.4"].metadata.branches_to_merge == ["feature/1-3-merge-all"]


def test_s1_fr3_10_named_branches_make_a_merge_and_are_kept_in_order() -> None:
    text = plan(sprint("1.1", "Gather", branches_to_merge="`feature/b`, `feature/a`"))
    bead = only(text)
    assert bead.issue_type == "beads-ralph-merge"
    assert bead.metadata.branches_to_merge == ["feature/b", "feature/a"]


def test_s1_fr3_10_a_merge_of_nothing_is_refused() -> None:
    (fault,) = compiled(plan(sprint("1.1", "Gather", type="merge"))).all_faults
    assert (fault.code, fault.field) == (Code.CONSTRAINT, "metadata.branches_to_merge")


# --- branches and worktrees -------------------------------------------------------------------------


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, timeout=60, capture_output=True)


def _generated(root: Path, source: str, front_matter: str = "") -> Bead:
    setting = Setting(root, "plan.md", NOON, branches=Repository(root).branches())
    text = plan(sprint("3a.2b", "API Validation")).replace(
        "source_branch: develop\n", f"source_branch: {source}\n{front_matter}"
    )
    return only(text, setting)


@pytest.mark.parametrize(
    ("source", "branch"),
    [
        ("main", "feature/3a-2b-api-validation"),  # git cannot hold main and main/x
        ("develop", "develop/3a-2b-api-validation"),
        ("release/1.2", "release/1-2/3a-2b-api-validation"),
    ],
)
def test_the_branch_is_one_that_git_can_make_beside_its_source(repo: Path, source: str, branch: str) -> None:
    bead = _generated(repo, source)
    assert bead.metadata.branch == branch
    assert bead.metadata.worktree_path == str(repo.parent / "app-worktrees" / branch)
    _git(repo, "worktree", "add", "-b", bead.metadata.branch, bead.metadata.worktree_path, "main")


def test_a_remote_branch_clashes_as_a_local_one_does(repo: Path, tmp_path: Path) -> None:
    _git(tmp_path, "clone", "--quiet", str(repo), "copy")
    _git(tmp_path / "copy", "checkout", "--quiet", "--detach")
    _git(tmp_path / "copy", "branch", "--delete", "main")
    assert _generated(tmp_path / "copy", "main").metadata.branch == "feature/3a-2b-api-validation"


def test_the_branch_of_a_repository_without_a_commit_clashes_too(tmp_path: Path) -> None:
    _git(tmp_path, "init", "--quiet", "fresh")
    assert _generated(tmp_path / "fresh", "main").metadata.branch == "feature/3a-2b-api-validation"


def test_a_branch_template_of_the_plan_is_filled(repo: Path) -> None:
    front_matter = "branch_template: work/{repo}/{sprint}/{name}\nworktree_root: ../trees\n"
    metadata = _generated(repo, "main", front_matter).metadata
    assert metadata.branch == "work/app/3a-2b/api-validation"
    assert metadata.worktree_path == str(repo.parent / "trees" / "work/app/3a-2b/api-validation")


def test_a_branch_that_is_a_folder_of_another_is_refused() -> None:
    """git keeps branches as files."""
    text = plan(
        sprint("1.1", "Whole", branch="`feature/whole`"), sprint("1.2", "Part", branch="`feature/whole/part`")
    )
    (fault,) = compiled(text).all_faults
    assert fault.code == Code.CONSTRAINT
    assert fault.message == (
        "sprint 1.2: git cannot have branch feature/whole/part beside feature/whole of sprint 1.1"
    )


def test_head_is_no_name_for_a_branch() -> None:
    (fault,) = compiled(plan(sprint("1.1", "Odd", branch="`HEAD`"))).all_faults
    assert "not a name that git accepts" in fault.message


def test_one_worktree_holds_one_branch_and_one_branch_lies_in_one_worktree() -> None:
    text = plan(
        sprint("1.1", "A", worktree="`../tree`", branch="`feature/a`"),
        sprint("1.2", "B", worktree="`../tree`", branch="`feature/b`"),
        sprint("1.3", "C", worktree="`../other`", branch="`feature/a`"),
    )
    faults = compiled(text).all_faults
    assert [fault.code for fault in faults] == [Code.CONSTRAINT] * 2
    assert [text.splitlines()[(fault.line or 0) - 1] for fault in faults] == [
        "**Worktree**: `../tree`",
        "**Branch**: `feature/a`",
    ]


# --- QA ---------------------------------------------------------------------------------------------


def test_s1_fr4_1_s1_fr4_2_a_qa_line_is_a_persona_a_model_a_prompt_and_an_answer() -> None:
    text = plan(sprint("1.1", "Schema", qa_agents="`qa-python-tests` (haiku) - Run pytest"))
    (agent,) = only(text).metadata.qa_agents
    assert agent.to_json() == {
        "role": "polecat",
        "agent": ".claude/agents/qa-python-tests.md",
        "model": "haiku",
        "context": "Run pytest",
        "output_schema": dict(OUTPUT_SCHEMA),
    }
    properties = OUTPUT_SCHEMA["properties"]
    assert properties["status"]["enum"] == ["pass", "fail", "stop"]
    assert properties["status"]["description"]
    assert properties["message"]["type"] == "string"
    assert properties["message"]["description"]
    assert OUTPUT_SCHEMA["required"] == ["status", "message"]


def _with_answer(output_schema: dict[str, Any]) -> schema.SchemaCheck:
    raw = only(plan(sprint("1.1", "Schema"))).to_json()
    raw["metadata"]["qa_agents"][0]["output_schema"] = output_schema
    return schema.check(raw)


def test_s1_fr4_3_an_answer_may_say_more() -> None:
    more = {"coverage_percent": {"type": "number"}, "test_count": {"type": "integer"}}
    wider = {**OUTPUT_SCHEMA, "properties": {**OUTPUT_SCHEMA["properties"], **more}}
    assert _with_answer(wider).faults == ()


@pytest.mark.parametrize("name", ["status", "message"])
@pytest.mark.parametrize("place", ["properties", "required"])
def test_s1_fr4_3_an_answer_never_says_less(name: str, place: str) -> None:
    narrower = json.loads(json.dumps(OUTPUT_SCHEMA))
    narrower[place].remove(name) if place == "required" else narrower[place].pop(name)
    (fault,) = _with_answer(narrower).faults
    assert (fault.code, fault.field) == (Code.CONSTRAINT, "metadata.qa_agents.0.output_schema")


@pytest.mark.parametrize("words", [["pass", "fail"], ["pass", "fail", "stop", "maybe"], []])
def test_s1_fr4_4_pass_fail_and_stop_are_all_that_qa_can_say(words: list[str]) -> None:
    other = json.loads(json.dumps(OUTPUT_SCHEMA))
    other["properties"]["status"]["enum"] = words
    (fault,) = _with_answer(other).faults
    assert fault.code == Code.CONSTRAINT


def test_acceptance_criteria_are_kept_and_told_to_every_qa_agent() -> None:
    text = plan(
        "### Sprint 1.1: Schema\n\n**QA Agents**:\n- claude (haiku) - Run pytest\n- claude\n\n"
        "**Tasks**:\n- Do it\n\n**Acceptance Criteria**:\n- It is fast\n- It is small\n"
    )
    metadata = only(text).metadata
    assert metadata.acceptance_criteria == ["It is fast", "It is small"]
    told = "Acceptance criteria:\n- It is fast\n- It is small"
    assert [agent.context for agent in metadata.qa_agents] == [f"Run pytest\n\n{told}", told]


# --- the old schema, sameness -----------------------------------------------------------------------


def test_s1_ex1_the_old_schema_gives_the_seeds_bead_to_the_letter() -> None:
    built = compiled(SEED_SPRINT, schema="legacy", plan_file=SEED_PLAN_FILE)
    assert built.all_faults == ()
    bead = built.beads["1.1"]
    assert isinstance(bead, LegacyBead)
    assert bead.to_json() == SEED_BEAD


def test_s1_ex1_the_rig_of_an_old_bead_is_always_the_same() -> None:
    setting = replace(SETTING, config=Config(plan=PlanDefaults(rig="shop")))
    built = compiled(SEED_SPRINT, setting, schema="legacy", plan_file=SEED_PLAN_FILE)
    assert built.beads["1.1"].to_json() == SEED_BEAD


def test_s1_ex2_the_seeds_parallel_sprints_wait_for_the_first_and_the_last_for_both() -> None:
    beads = beads_of(seed_plan())
    assert {bead.id: bead.dependencies for bead in beads.values()} == {
        "bd-1-1-schema": [],
        "bd-1-2a-work": ["bd-1-1-schema"],
        "bd-1-2b-merge": ["bd-1-1-schema"],
        "bd-1-3-integration": ["bd-1-2a-work", "bd-1-2b-merge"],
    }
    kinds = {sprint_id: bead.issue_type for sprint_id, bead in beads.items()}
    assert kinds == {
        "1.1": "beads-ralph-work",
        "1.2a": "beads-ralph-work",
        "1.2b": "beads-ralph-work",
        "1.3": "beads-ralph-merge",
    }


titles = st.text("abc MERGE&-é☃ ", min_size=1, max_size=12).map(lambda text: f"T{text}".strip())
plans = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["", "a", "b"]), st.integers(1, 3), titles),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row[:3],
).map(lambda rows: plan(*(sprint(f"{phase}{track}.{number}", title) for phase, track, number, title in rows)))


@given(plans)
def test_s1_n4_1_the_same_plan_gives_the_same_beads_at_any_time(text: str) -> None:
    """Byte for byte, but for the time of making."""

    def made(moment: datetime) -> list[str]:
        beads = [bead.to_json() for bead in compiled(text, now=moment).beads.values()]
        return [json.dumps({**raw, "created_at": None, "updated_at": None}) for raw in beads]

    assert made(NOON) == made(datetime(2031, 1, 1, tzinfo=UTC))


@given(plans)
def test_s1_n3_1_every_bead_that_leaves_the_compiler_is_valid(text: str) -> None:
    built = compiled(text)
    for bead in built.beads.values():
        assert schema.check(json.loads(json.dumps(bead.to_json()))).faults == ()
    assert not built.all_faults

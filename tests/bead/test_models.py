"""The bead schema: the seed's examples hold, every rule refuses what breaks it, nothing gets lost."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from beads_ralph.bead import schema
from beads_ralph.bead.field_types import FrozenModel
from beads_ralph.bead.legacy import LegacyBead
from beads_ralph.bead.model import (
    AgentSpec,
    Bead,
    Metadata,
    QAOutput,
)
from beads_ralph.bead.run_state import DevExecution, QAExecution, QAResult, ScrumResult
from beads_ralph.errors import Code, RalphError
from tests.bead import samples
from tests.bead.samples import GONE, NEW, OLD, PROJECT, blamed, messages, sample, work
from tests.selection import examples

REQUIRED_METADATA = (
    *("rig", "worktree_path", "branch", "source_branch", "phase", "sprint", "team_name"),
    *("plan_file", "plan_section", "plan_sprint_id"),
    *("scrum_master_agent", "dev_agents", "dev_prompts", "qa_agents"),
)
SLOW = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


# --- the seed's beads -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NEW)
def test_s0_ex1_s0_ex2_s0_ex3_the_examples_of_the_seed_are_valid_and_unchanged_by_reading(name: str) -> None:
    raw = sample(name)
    assert schema.check(raw) == schema.SchemaCheck(Bead.model_validate(raw))
    assert Bead.model_validate(raw).to_json() == raw


def test_s0_ex1_the_work_bead_has_four_prompts_and_two_qa_agents() -> None:
    bead = Bead.model_validate(sample("work"))
    assert (bead.id, bead.issue_type) == ("bd-a1b2c3", "beads-ralph-work")
    assert (len(bead.metadata.dev_prompts), len(bead.metadata.qa_agents)) == (4, 2)


def test_s0_ex2_the_merge_bead_names_two_branches_and_is_labelled() -> None:
    bead = Bead.model_validate(sample("merge"))
    assert bead.issue_type == "beads-ralph-merge"
    assert bead.metadata.branches_to_merge == ["main/1-2a-auth-api", "main/1-2b-user-profile"]
    assert "merge" in bead.labels


def test_s0_ex3_the_completed_bead_shows_a_failed_and_a_passed_attempt() -> None:
    metadata = Bead.model_validate(sample("completed")).metadata
    by_attempt = [(call.attempt, call.status) for call in metadata.qa_calls]
    assert by_attempt == [(1, "fail"), (2, "pass"), (2, "pass")]
    assert metadata.scrum_result is not None
    assert all(result.message is None for result in metadata.scrum_result.qa_results)


def test_s0_ex4_every_session_of_every_attempt_is_kept() -> None:
    metadata = Bead.model_validate(sample("completed")).metadata
    assert len({call.session_id for call in metadata.calls}) == 5
    assert metadata.scrum_master_session_id == "claude-sm-session-xyz789"
    first, second = metadata.dev_calls
    assert first.feedback_from_qa is None
    assert second.feedback_from_qa


# --- nothing gets lost ------------------------------------------------------------------------------


@SLOW
@given(samples.beads(samples.new_metadata()))
def test_s0_ov1_any_valid_bead_is_written_as_it_was_read(raw: dict[str, Any]) -> None:
    assert Bead.model_validate(raw).to_json() == raw


@SLOW
@given(samples.beads(samples.old_metadata()))
def test_s0_ov1_any_legacy_bead_is_written_as_it_was_read(raw: dict[str, Any]) -> None:
    assert LegacyBead.model_validate(raw).to_json() == raw


@SLOW
@given(samples.beads(samples.new_metadata()))
def test_any_valid_bead_survives_json_text(raw: dict[str, Any]) -> None:
    assert schema.load_json(json.dumps(raw)) == raw
    assert schema.load_json(json.dumps(raw, ensure_ascii=False)) == raw


def test_s0_ov1_unknown_core_keys_are_kept_and_named_unknown_metadata_is_silently_kept() -> None:
    raw = {**sample("work"), "statuss": "open", "claimed_by": "one"}
    raw["metadata"]["anything"] = {"deep": [1]}
    checked = schema.check(raw)
    assert checked.bead is not None
    assert checked.bead.to_json() == raw
    assert [warning.field for warning in checked.warnings] == ["statuss"]


def test_records_cannot_be_changed_in_place() -> None:
    bead: FrozenModel = Bead.model_validate(sample("work"))
    with pytest.raises(ValueError, match="frozen"):
        bead.title = "other"  # type: ignore[attr-defined]


def test_s0_ov2_the_script_module_exports_the_models_under_the_seeds_names() -> None:
    program = (
        "import json, sys, bead_schema as m; bead = m.BeadRalphBead.model_validate(json.load(sys.stdin));"
        "print(bead.metadata.sprint, m.BeadMetadata.__name__, len(m.BeadRalphBead.model_json_schema()) > 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(sample("work")),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        cwd=PROJECT / "scripts",
    )
    assert (done.stdout, done.stderr) == ("1.2 Metadata True\n", "")


def test_s0_ov2_everything_that_the_script_module_announces_is_there() -> None:
    spec = importlib.util.spec_from_file_location("bead_schema", PROJECT / "scripts" / "bead_schema.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(PROJECT / "scripts"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(PROJECT / "scripts"))
        sys.modules.pop("_project", None)
    assert module.BeadRalphBead is Bead
    assert all(hasattr(module, name) for name in module.__all__)


# --- core fields ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bead_id", ["bd-a1b2", "bd-1-1-schema", "gt-7", "bd-xyz.1", "x"])
def test_s0_cf1_an_id_is_an_opaque_word(bead_id: str) -> None:
    assert messages(work("id", bead_id)) == []


@pytest.mark.parametrize(
    "bead_id", ["", " ", "a/b", "a\\b", "a..b", "-rf", "a b", "a\n", "a\0", "x" * 201, 7, None, GONE]
)
def test_s0_cf1_an_id_can_neither_leave_its_place_nor_pass_for_an_option(bead_id: Any) -> None:
    assert blamed(work("id", bead_id)) == ["id"]


def test_s0_cf1_dependencies_are_ids_too_and_never_the_bead_itself() -> None:
    assert blamed(work("dependencies", ["../x"])) == ["dependencies.0"]
    assert messages(work("dependencies", ["bd-a1b2c3"])) == ["field dependencies bd-a1b2c3 depends on itself"]


@pytest.mark.parametrize("title", ["", "   ", "\n", "x" * 501, 5, None])
def test_s0_cf2_a_title_says_something(title: Any) -> None:
    assert blamed(work("title", title)) == ["title"]


def test_s0_cf2_the_description_is_text_and_may_be_absent() -> None:
    assert messages(work("description", "")) == []
    assert messages(work("description", GONE)) == []
    assert blamed(work("description", 5)) == ["description"]


@pytest.mark.parametrize("status", ["open", "in_progress", "closed", "blocked"])
def test_s0_cf3_the_four_states(status: str) -> None:
    assert messages(work("status", status)) == []


@pytest.mark.parametrize("status", ["Open", "done", "", None, 1])
def test_s0_cf3_no_other_state(status: Any) -> None:
    assert blamed(work("status", status)) == ["status"]


@pytest.mark.parametrize("priority", [0, 1, 2, 3, 4])
def test_s0_cf4_priorities_from_critical_to_minimal(priority: int) -> None:
    assert messages(work("priority", priority)) == []


@pytest.mark.parametrize("priority", [-1, 5, "1", 1.0, True, None])
def test_s0_cf4_no_other_priority(priority: Any) -> None:
    assert blamed(work("priority", priority)) == ["priority"]


def test_s0_cf5_two_issue_types_and_what_each_merges() -> None:
    assert blamed(work("issue_type", "task")) == ["issue_type"]
    assert blamed(work("issue_type", "beads-ralph-merge")) == ["metadata.branches_to_merge"]
    for nothing in (None, [], GONE):
        assert blamed(samples.changed(sample("merge"), "metadata.branches_to_merge", nothing)) == [
            "metadata.branches_to_merge"
        ]
    assert blamed(work("metadata.branches_to_merge", ["main/x"])) == ["metadata.branches_to_merge"]
    assert messages(work("metadata.branches_to_merge", [])) == []


def test_s0_cf6_the_assignee_is_fixed() -> None:
    assert blamed(work("assignee", "me")) == ["assignee"]
    assert blamed(work("assignee", GONE)) == ["assignee"]


def test_s0_cf7_s0_cf11_owner_and_external_ref_are_optional_texts() -> None:
    for field in ("owner", "external_ref"):
        assert messages(work(field, "https://forge.example/pull/42")) == []
        assert messages(work(field, None)) == []
        assert blamed(work(field, 5)) == [field]


def test_s0_cf8_s0_cf9_dependencies_and_labels_are_lists_of_words() -> None:
    for field in ("dependencies", "labels"):
        assert messages(work(field, [])) == []
        assert blamed(work(field, "bd-x")) == [field]
        assert blamed(work(field, ["ok", 5])) == [f"{field}.1"]


def test_s0_cf10_comments_are_objects_or_texts() -> None:
    assert messages(work("comments", ["a", {"author": "qa", "text": "b"}])) == []
    assert messages(work("comments", ["a", 5])) == [
        "field comments.1 should be an object or a text (found 5)"
    ]


@pytest.mark.parametrize("field", ["created_at", "updated_at", "closed_at"])
def test_s0_cf12_times_are_iso_8601(field: str) -> None:
    for good in ("2026-02-07T10:00:00Z", "2026-02-07T10:00:00.123456+01:00", None):
        assert messages(work(field, good)) == []
    for bad in ("yesterday", "2026-13-01T00:00:00Z", "", 1770458400):
        assert blamed(work(field, bad)) == [field]


def test_s0_cf13_keys_are_snake_case_so_go_names_are_missing_fields() -> None:
    assert blamed(work("Title", "x") | {"title": 5}) == ["title"]
    raw = sample("work")
    raw["IssueType"] = raw.pop("issue_type")
    assert blamed(raw) == ["issue_type"]


@pytest.mark.parametrize("field", ["id", "title", "status", "issue_type", "assignee", "metadata"])
def test_s0_sv1_required_core(field: str) -> None:
    [fault] = schema.check(work(field, GONE), "4.1a").faults
    assert (fault.code, fault.message) == (Code.MISSING_FIELD, f"field {field} is required")


# --- metadata ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", REQUIRED_METADATA)
def test_s0_sv2_s0_wi1_s0_wi2_s0_wi3_s0_wi4_s0_wi5_s0_wi6_s0_pt1_s0_pt2_s0_pt3_required(field: str) -> None:
    [fault] = schema.check(work(f"metadata.{field}", GONE), "4.1a").faults
    assert (fault.code, fault.message) == (Code.MISSING_FIELD, f"field metadata.{field} is required")


@pytest.mark.parametrize(
    "field", ["rig", "source_branch", "team_name", "plan_file", "plan_section", "plan_sprint_id"]
)
@pytest.mark.parametrize("value", ["", "  ", None, 5])
def test_s0_wi1_s0_wi4_s0_wi7_s0_pt1_s0_pt2_s0_pt3_say_something(field: str, value: Any) -> None:
    assert blamed(work(f"metadata.{field}", value)) == [f"metadata.{field}"]


@pytest.mark.parametrize("field", ["dev_agents", "dev_prompts", "qa_agents"])
def test_s0_sv2_s0_as2_s0_as3_lists_that_must_not_be_empty(field: str) -> None:
    assert blamed(work(f"metadata.{field}", [])) == [f"metadata.{field}"]
    assert messages(work(f"metadata.{field}", []))[0].startswith(
        f"field metadata.{field} should have at least 1 item"
    )


def test_a_merge_bead_needs_no_tasks() -> None:
    bare = samples.changed(sample("merge"), "metadata.dev_prompts", [])
    assert messages(bare) == []
    as_work = samples.changed(bare, "issue_type", "beads-ralph-work")
    assert blamed(samples.changed(as_work, "metadata.branches_to_merge", None)) == ["metadata.dev_prompts"]


@pytest.mark.parametrize("path", ["/a", "/a b/c", "C:\\work\\x", "C:/work/x"])
def test_s0_wi2_an_absolute_worktree(path: str) -> None:
    assert messages(work("metadata.worktree_path", path)) == []


@pytest.mark.parametrize("path", ["a", "../a", "./a", "~/a", "C:a", "", " ", "/a\0b", 5])
def test_s0_wi2_no_relative_worktree(path: Any) -> None:
    assert blamed(work("metadata.worktree_path", path)) == ["metadata.worktree_path"]


@pytest.mark.parametrize("branch", ["-x", "/x", "x/", "a//b"])
def test_s0_wi3_a_branch_is_one_that_git_takes(branch: str) -> None:
    assert blamed(work("metadata.branch", branch)) == ["metadata.branch"]


def test_s0_wi4_a_source_branch_may_have_dots() -> None:
    assert messages(work("metadata.source_branch", "release/1.2")) == []


@pytest.mark.parametrize(("phase", "sprint"), [("1", "2.1"), ("1", "1a.2"), ("1a", "1.2"), ("1", "11.2")])
def test_s0_wi5_s0_wi6_a_sprint_lies_in_its_phase(phase: str, sprint: str) -> None:
    raw = work("metadata.phase", phase)
    assert blamed(samples.changed(raw, "metadata.sprint", sprint)) == ["metadata.sprint"]


def test_s0_tg1_s0_tg2_s0_wi7_the_grouping_key_is_a_required_text_of_its_own() -> None:
    """Beads of one team may lie on several branches, and one sprint may have several teams."""
    assert Metadata.model_fields["team_name"].is_required()
    one, two = work("metadata.team_name", "sprint-2.1-ui"), work("metadata.team_name", "sprint-2.1-ui")
    two = samples.changed(two, "metadata.branch", "main/2-1-other")
    assert messages(one) == messages(two) == []
    assert blamed(work("metadata.team_name", GONE)) == ["metadata.team_name"]


@pytest.mark.parametrize(
    "team", ["sprint-2.1-ui", "sprint-3.1-auth", "sprint-2.1a-backend", "feature-auth-team"]
)
def test_s0_tg4_team_names_of_all_shapes(team: str) -> None:
    assert messages(work("metadata.team_name", team)) == []


def test_s0_pt2_a_section_is_a_heading_or_a_range_of_lines() -> None:
    for section in ("## Phase 1 > ### Sprint 1.2: X", "### Sprint 1.2: X", "L12-L40"):
        assert messages(work("metadata.plan_section", section)) == []


# --- agents -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["scrum_master_agent", "dev_agents.0", "qa_agents.1"])
@pytest.mark.parametrize("field", ["role", "agent"])
def test_s0_as1_s0_as2_s0_as3_s0_as4_s0_sv0_role_and_agent_are_required(place: str, field: str) -> None:
    path = f"metadata.{place}.{field}"
    assert messages(work(path, GONE)) == [f"field {path} is required"]


def test_s0_as4_s0_sv0_nothing_else_of_an_agent_is_required() -> None:
    spec = AgentSpec.model_validate({"role": "polecat", "agent": "claude"})
    assert spec.to_json() == {"role": "polecat", "agent": "claude"}
    optional = ("model", "options", "context", "agent_id", "env")
    assert all(getattr(spec, name) is None for name in optional)


def test_s0_as4_s0_as10_every_field_of_an_agent() -> None:
    full = {
        "role": "polecat",
        "agent": ".claude/agents/x.md",
        "model": "opus",
        "executable": "claude",
        "options": ["--dangerously-skip-permissions"],
        "context": "any text\nat all",
        "agent_id": "session-1",
        "env": {"A": "1"},
    }
    assert messages(work("metadata.dev_agents", [full])) == []
    for field, bad in {"options": "x", "context": 1, "agent_id": 1, "env": {"A": 1}}.items():
        [path] = blamed(work("metadata.dev_agents", [{**full, field: bad}]))
        assert str(path).startswith(f"metadata.dev_agents.0.{field}")


@pytest.mark.parametrize("role", ["polecat", "witness", "mayor"])
def test_s0_as5_s0_as11_three_roles(role: str) -> None:
    assert messages(work("metadata.dev_agents.0.role", role)) == []


@pytest.mark.parametrize("role", ["Polecat", "dev", "", None])
def test_s0_as5_no_other_role(role: Any) -> None:
    assert blamed(work("metadata.dev_agents.0.role", role)) == ["metadata.dev_agents.0.role"]


def test_s0_as11_every_worker_of_the_examples_is_a_polecat() -> None:
    for name in NEW:
        metadata = Bead.model_validate(sample(name)).metadata
        workers = [metadata.scrum_master_agent, *metadata.dev_agents, *metadata.qa_agents]
        assert {worker.role for worker in workers} == {"polecat"}


@pytest.mark.parametrize("model", ["sonnet", "opus", "haiku", None])
def test_s0_as6_claudes_models(model: str | None) -> None:
    assert messages(work("metadata.dev_agents.0.model", model)) == []


@pytest.mark.parametrize("model", ["Sonnet", "gpt-5", "", 4])
def test_s0_as6_no_other_model_for_claude(model: Any) -> None:
    assert blamed(work("metadata.dev_agents.0.model", model)) == ["metadata.dev_agents.0.model"]


def test_s0_as6_other_programs_name_their_models_as_they_like() -> None:
    raw = work("metadata.dev_agents.0.executable", "codex")
    assert messages(samples.changed(raw, "metadata.dev_agents.0.model", "gpt-5")) == []


def test_s0_as7_the_program_is_claude_unless_said_otherwise() -> None:
    assert AgentSpec.model_validate({"role": "mayor", "agent": "x"}).executable == "claude"
    assert blamed(work("metadata.dev_agents.0.executable", "")) == ["metadata.dev_agents.0.executable"]


SCHEMA_OF_AGENTS = jsonschema.Draft202012Validator(schema.json_schema("AgentSpec"))


@pytest.mark.parametrize(
    "entry", ["codex", "codex:gpt-5", "claude", "claude:opus", "./tools/agent.sh", "opencode:a/b:free"]
)
def test_a_stand_in_is_a_program_and_perhaps_a_model(entry: str) -> None:
    raw = work("metadata.dev_agents.0.fallback", [entry])
    assert messages(raw) == []
    assert Bead.model_validate(raw).to_json() == raw
    assert SCHEMA_OF_AGENTS.is_valid(raw["metadata"]["dev_agents"][0])


@pytest.mark.parametrize("entry", ["", " ", "a b", ":gpt-5", "codex:", "claude:gpt-5", "codex:a b", 5])
def test_a_stand_in_that_is_neither_is_refused_by_model_and_schema(entry: Any) -> None:
    raw = work("metadata.dev_agents.0.fallback", [entry])
    assert blamed(raw) == ["metadata.dev_agents.0.fallback.0"]
    assert not SCHEMA_OF_AGENTS.is_valid(raw["metadata"]["dev_agents"][0])


@pytest.mark.parametrize("value", [None, []])
def test_nobody_need_stand_in(value: Any) -> None:
    assert messages(work("metadata.dev_agents.0.fallback", value)) == []


def test_s0_as9_the_session_of_an_agent_is_added_without_touching_the_rest() -> None:
    raw = work("metadata.dev_agents.0.agent_id", "claude-session-abc123")
    bead = Bead.model_validate(raw)
    assert bead.metadata.dev_agents[0].agent_id == "claude-session-abc123"
    assert bead.to_json() == raw


# --- qa answers, executions, results ----------------------------------------------------------------


@pytest.mark.parametrize("status", ["pass", "fail", "stop"])
def test_s0_qo1_s0_qo2_a_qa_answer(status: str) -> None:
    said = {"status": status, "message": "m", "details": {"coverage_percent": 87}}
    assert QAOutput.model_validate(said).to_json() == said
    assert QAOutput.model_validate({"status": status, "message": "m"}).details is None


@pytest.mark.parametrize(
    "said",
    [
        {"status": "ok", "message": "m"},
        {"status": "pass"},
        {"message": "m"},
        {"status": "pass", "message": None},
        {"status": "pass", "message": "m", "details": []},
    ],
)
def test_s0_qo1_no_other_qa_answer(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        QAOutput.model_validate(said)


def test_s0_qo1_an_output_schema_demands_status_and_message() -> None:
    good = {
        "type": "object",
        "properties": {
            "status": {"enum": ["pass", "fail", "stop"]},
            "message": {"type": "string"},
            "coverage_percent": {"type": "number"},
        },
        "required": ["status", "message"],
    }
    path = "metadata.qa_agents.0.output_schema"
    assert messages(work(path, good)) == []
    broken: list[dict[str, Any]] = [
        {},
        {**good, "required": ["status"]},
        {**good, "required": 1},
        {**good, "properties": {"message": {}}},
        {**good, "properties": {"status": {"enum": ["pass"]}, "message": {}}},
    ]
    for wrong in broken:
        assert blamed(work(path, wrong)) == [path]


def test_s0_rt1_s0_rt2_retry_defaults_and_bounds() -> None:
    raw = sample("work")
    del raw["metadata"]["max_retry_attempts"], raw["metadata"]["attempt_count"]
    metadata = Bead.model_validate(raw).metadata
    assert (metadata.max_retry_attempts, metadata.attempt_count) == (3, 0)
    for field, bad in {"max_retry_attempts": 0, "attempt_count": -1}.items():
        for value in (bad, "3", 1.5, True, None):
            assert blamed(work(f"metadata.{field}", value)) == [f"metadata.{field}"]


def test_s0_et1_s0_et2_s0_et3_s0_ot1_s0_ot2_tracking_is_optional() -> None:
    fields = ("scrum_master_session_id", "dev_agent_session_id", "dev_agent_executions")
    for field in (*fields, "qa_agent_executions", "pr_url", "pr_number", "scrum_result"):
        assert messages(work(f"metadata.{field}", GONE)) == []
        assert messages(work(f"metadata.{field}", None)) == []
        assert blamed(work(f"metadata.{field}", 1.5)) == [f"metadata.{field}"]


def executions(kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sample("completed")["metadata"][kind]
    return found


def test_s0_et4_a_dev_execution() -> None:
    first = executions("dev_agent_executions")[0]
    assert DevExecution.model_validate(first).to_json() == first
    for status in ("completed", "failed", "timeout"):
        DevExecution.model_validate({**first, "status": status})
    path = "metadata.dev_agent_executions"
    for field, bad in {"attempt": 0, "status": "pass", "started_at": "now", "agent_path": None}.items():
        assert blamed(work(path, [{**first, field: bad}])) == [f"{path}.0.{field}"]


def test_s0_et5_a_qa_execution() -> None:
    first = executions("qa_agent_executions")[0]
    assert QAExecution.model_validate(first).to_json() == first
    path = "metadata.qa_agent_executions"
    for field, bad in {"attempt": 0, "status": "timeout", "message": None, "details": []}.items():
        assert blamed(work(path, [{**first, field: bad}])) == [f"{path}.0.{field}"]


def test_s0_ot3_a_scrum_result() -> None:
    full: dict[str, Any] = sample("completed")["metadata"]["scrum_result"]
    assert ScrumResult.model_validate(full).to_json() == full
    least = ScrumResult.model_validate({"bead_id": "bd-x", "success": False})
    assert (least.fatal, least.bead_updated, least.attempt_count, least.qa_results) == (False, False, 0, [])
    path = "metadata.scrum_result"
    for field, bad in {"success": "yes", "fatal": 1, "bead_updated": None, "attempt_count": -1}.items():
        assert blamed(work(path, {**full, field: bad})) == [f"{path}.{field}"]


def test_s0_ot3_results_of_qa_need_no_message() -> None:
    assert QAResult.model_validate({"agent_path": "x", "status": "pass"}).message is None
    with pytest.raises(ValueError, match="status"):
        QAResult.model_validate({"agent_path": "x", "status": "ok"})


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("docker_image", "python:3.13", 5),
        ("resource_limits", {"cpus": 1.5, "memory_mb": 512, "gpus": 1}, {"memory_mb": 0}),
        ("timeout_minutes", 30, 0),
        ("budget_usd", 2.5, 0),
        ("budget_usd", 2, "2"),
        ("budget_tokens", 1000, 0.5),
        ("notification_config", {"slack": "#x"}, "x"),
        ("rollback_strategy", "revert", 5),
        ("approval_required", True, "yes"),
        ("cost_estimate", 1.25, "dear"),
    ],
)
def test_s0_ev1_later_fields_are_typed_and_not_required(field: str, good: Any, bad: Any) -> None:
    assert not Metadata.model_fields[field].is_required()
    raw = work(f"metadata.{field}", good)
    assert messages(raw) == []
    assert Bead.model_validate(raw).to_json() == raw
    assert str(blamed(work(f"metadata.{field}", bad))[0]).startswith(f"metadata.{field}")


# --- faults -----------------------------------------------------------------------------------------


def test_every_fault_is_gathered_with_its_own_path_and_code() -> None:
    raw = work("metadata.phase", "1A")
    raw = {**raw, "status": "done", "dependencies": ["a/b"]}
    del raw["title"]
    faults = {fault.field: fault.code for fault in schema.check(raw).faults}
    assert faults == {
        "title": Code.MISSING_FIELD,
        "status": Code.BEAD_SCHEMA,
        "dependencies.0": Code.CONSTRAINT,
        "metadata.phase": Code.FIELD_PATTERN,
    }


def test_a_value_with_several_shapes_gives_one_fault_at_the_field_itself() -> None:
    raw = {**work("metadata.cost_estimate", "x"), "comments": [None]}
    raw["metadata"] |= {"rollback_strategy": 1, "resource_limits": {"cpus": "2"}}
    names = ("rollback_strategy", "cost_estimate", "resource_limits.cpus")
    assert sorted(map(str, blamed(raw))) == sorted(["comments.0", *(f"metadata.{name}" for name in names)])


@pytest.mark.parametrize("raw", [None, [], "x", 5, True])
def test_a_bead_is_an_object(raw: Any) -> None:
    assert messages(raw) == ["a bead must be a JSON object"]


@pytest.mark.parametrize("metadata", [None, [], "x", 5])
def test_metadata_is_an_object(metadata: Any) -> None:
    assert blamed(work("metadata", metadata), "auto") == ["metadata"]


def test_a_long_value_is_shown_in_part() -> None:
    [message] = messages(work("status", "x" * 5000))
    assert len(message) < 300


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e999}', "a number is too large"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"\\udc00": 1}', "half of a surrogate pair"),
        ('{"a": ' + "9" * 5000 + "}", "limit"),
        ("[" * 150 + "]" * 150, "nested more than 100 levels deep"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_text_that_no_store_could_keep_is_refused(text: str, why: str) -> None:
    with pytest.raises(RalphError, match=why) as caught:
        schema.load_json(text, "bead.json")
    assert caught.value.code == Code.BEAD_SCHEMA
    assert caught.value.faults[0].file == "bead.json"


def test_what_load_json_takes_can_be_written_back_however_deep() -> None:
    deep: Any = []
    for _ in range(90):
        deep = [deep]
    raw = work("metadata.deep", deep)
    assert Bead.model_validate(schema.load_json(json.dumps(raw))).to_json() == raw


# --- JSON Schema ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*schema.MODELS, "BeadRalphBead"])
def test_s0_ov2_every_json_schema_is_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema.json_schema(name))


def test_s0_ov2_the_seeds_name_means_the_bead() -> None:
    assert schema.json_schema("BeadRalphBead") == schema.json_schema("Bead")
    with pytest.raises(RalphError, match="no schema named 'Beed'"):
        schema.json_schema("Beed")


def accepts(name: str, raw: Any) -> bool:
    return jsonschema.Draft202012Validator(schema.json_schema(name)).is_valid(raw)


@pytest.mark.parametrize("name", NEW)
def test_s0_ov2_the_json_schema_accepts_the_new_examples(name: str) -> None:
    assert accepts("Bead", sample(name))


@pytest.mark.parametrize("name", OLD)
def test_s0_ov2_the_json_schema_accepts_the_old_examples(name: str) -> None:
    assert accepts("LegacyBead", sample(name))
    assert not accepts("Bead", sample(name))


@SLOW
@given(samples.beads(samples.new_metadata()))
def test_s0_ov2_the_json_schema_accepts_every_valid_bead(raw: dict[str, Any]) -> None:
    assert accepts("Bead", raw)


BROKEN: list[tuple[str, Any]] = [
    *((field, GONE) for field in ("id", "title", "status", "issue_type", "assignee", "metadata")),
    *((f"metadata.{field}", GONE) for field in REQUIRED_METADATA),
    *((f"metadata.{field}", []) for field in ("dev_agents", "dev_prompts", "qa_agents")),
    ("id", ""),
    ("title", ""),
    ("status", "done"),
    ("priority", 5),
    ("priority", "1"),
    ("issue_type", "task"),
    ("assignee", "me"),
    ("dependencies", "bd-x"),
    ("comments", [5]),
    ("metadata.phase", "1A"),
    ("metadata.sprint", "1-2"),
    ("metadata.branch", "main/1.2"),
    ("metadata.rig", ""),
    ("metadata.dev_agents.0.role", "dev"),
    ("metadata.dev_agents.0.agent", GONE),
    ("metadata.dev_agents.0.env", {"A": 1}),
    ("metadata.attempt_count", -1),
    ("metadata.max_retry_attempts", 0),
    ("metadata.scrum_result", "done"),
    ("metadata.cost_estimate", "x"),
    ("metadata.dev_agents.0.model", "gpt-5"),
    ("metadata.branches_to_merge", ["main/x"]),
    ("issue_type", "beads-ralph-merge"),
]


@pytest.mark.parametrize(("path", "value"), BROKEN)
def test_s0_ov2_json_schema_and_model_refuse_the_same(path: str, value: Any) -> None:
    raw = work(path, value)
    assert blamed(raw)
    assert not accepts("Bead", raw)


@pytest.mark.parametrize("value", [None, [], GONE])
def test_s0_ov2_json_schema_and_model_want_branches_in_a_merge_bead(value: Any) -> None:
    raw = samples.changed(sample("merge"), "metadata.branches_to_merge", value)
    assert blamed(raw)
    assert not accepts("Bead", raw)


def test_s0_ov2_json_schema_and_model_leave_other_programs_their_models() -> None:
    raw = samples.changed(
        work("metadata.dev_agents.0.executable", "codex"), "metadata.dev_agents.0.model", "gpt-5"
    )
    assert not blamed(raw)
    assert accepts("Bead", raw)

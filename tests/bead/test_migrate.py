"""The way from the old agent fields to schema 4.1a: complete, stable, and never a guess."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beads_ralph.bead import schema
from beads_ralph.bead.legacy import SCRUM_MASTER, LegacyBead, migrate
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import persona_path, slug
from tests.bead import samples
from tests.bead.samples import NEW, OLD, blamed, changed, messages, sample
from tests.cli.running import ralph
from tests.selection import examples

ROOT = Path("/srv/app")


def moved(raw: dict[str, Any]) -> dict[str, Any]:
    return migrate(raw, ROOT, slug(raw["title"]))


def run(*words: str, given_text: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    ran = ralph("migrate", *words, stdin=given_text, cwd=cwd or Path.cwd())
    return subprocess.CompletedProcess(words, ran.code, ran.out, ran.err)


# --- field by field ---------------------------------------------------------------------------------


def test_s0_dp1_s0_dp2_s0_dp4_s0_dp6_the_seeds_example() -> None:
    assert moved(sample("migration_before")) == sample("migration_after")


def test_s0_dp1_s0_dp2_s0_dp3_dev_agent() -> None:
    raw = changed(sample("legacy"), "metadata.agent_type", "dev")
    metadata = moved(raw)["metadata"]
    assert metadata["dev_agents"] == [
        {"role": "polecat", "agent": ".claude/agents/python-backend-dev.md", "model": "sonnet"}
    ]
    assert not {"dev_agent_path", "dev_model", "agent_type"} & set(metadata)


def test_s0_dp4_s0_dp5_qa_agents_keep_their_prompt_as_context_and_their_output_schema() -> None:
    raw = changed(sample("legacy"), "metadata.qa_agents.0.agent_type", "qa")
    [old], [new] = raw["metadata"]["qa_agents"], moved(raw)["metadata"]["qa_agents"]
    assert new == {
        "role": "polecat",
        "agent": ".claude/agents/qa-python-tests.md",
        "model": "haiku",
        "context": old["prompt"],
        "output_schema": old["output_schema"],
    }


def test_s0_dp6_the_scrum_master_is_added() -> None:
    assert moved(sample("legacy"))["metadata"]["scrum_master_agent"] == {
        "role": "polecat",
        "agent": ".claude/agents/beads-ralph-scrum-master.md",
        "model": "sonnet",
    }
    assert persona_path("beads-ralph-scrum-master") == SCRUM_MASTER


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("x", ".claude/agents/x.md"),
        ("x.md", ".claude/agents/x.md"),
        (".claude/agents/x", ".claude/agents/x.md"),
        (".claude/agents/x.md", ".claude/agents/x.md"),
        ("claude", "claude"),
    ],
)
def test_s0_dp6_the_suffix_is_added_once(name: str, path: str) -> None:
    assert persona_path(name) == path
    assert persona_path(path) == path


def test_a_relative_worktree_becomes_absolute_from_the_root_and_an_absolute_one_stays() -> None:
    raw = sample("legacy")
    assert moved(raw)["metadata"]["worktree_path"] == (
        "/srv/beads-ralph-worktrees/feature/1-1-schema-validator"
    )
    for path in ("/x/../y", "C:\\work"):
        assert moved(changed(raw, "metadata.worktree_path", path))["metadata"]["worktree_path"] == path


def test_a_team_is_named_after_the_sprint_and_a_given_one_stays() -> None:
    raw = sample("legacy")
    assert moved(raw)["metadata"]["team_name"] == "sprint-1-1-core-schema-validation-script"
    assert moved(changed(raw, "metadata.team_name", "core"))["metadata"]["team_name"] == "core"


def test_a_result_in_words_is_set_aside_and_a_result_object_stays() -> None:
    raw = sample("legacy")
    words = moved(changed(raw, "metadata.scrum_result", "all well"))["metadata"]
    assert (words["scrum_result"], words["scrum_result_text"]) == (None, "all well")
    result = {"bead_id": "bd-x", "success": True}
    assert moved(changed(raw, "metadata.scrum_result", result))["metadata"]["scrum_result"] == result
    assert blamed(changed(raw, "metadata.scrum_result", {"a": 1}), "legacy") == ["metadata.scrum_result"]


@pytest.mark.parametrize("value", [None, 4, "", ["x"]])
def test_what_is_no_path_is_not_made_one(value: Any) -> None:
    """`null` must not become an agent called None."""
    for path, new in (
        ("metadata.dev_agent_path", "metadata.dev_agents.0.agent"),
        ("metadata.qa_agents.0.agent_path", "metadata.qa_agents.0.agent"),
    ):
        assert blamed(moved(changed(sample("legacy"), path, value))) == [new]


# --- laws -------------------------------------------------------------------------------------------

SLOW = settings(
    max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SLOW
@given(samples.beads(samples.old_metadata()))
def test_any_legacy_bead_migrates_to_a_valid_one_and_a_second_pass_changes_nothing(
    raw: dict[str, Any],
) -> None:
    LegacyBead.model_validate(raw)
    before = json.dumps(raw)
    new = moved(raw)
    assert messages(new) == []
    assert moved(new) == new
    assert json.dumps(raw) == before
    assert schema.read(raw, ROOT).bead == Bead.model_validate(new)


@SLOW
@given(samples.beads(samples.old_metadata()))
def test_migration_keeps_the_core_and_every_unknown_key(raw: dict[str, Any]) -> None:
    new = moved(raw)
    assert {**new, "metadata": None} == {**raw, "metadata": None}
    for key, value in raw["metadata"].items():
        if key.startswith("x_"):
            assert new["metadata"][key] == value
    for old, agent in zip(raw["metadata"]["qa_agents"], new["metadata"]["qa_agents"], strict=True):
        assert {k: v for k, v in old.items() if k.startswith("x_")} == {
            k: v for k, v in agent.items() if k.startswith("x_")
        }


@given(st.sampled_from(NEW))
def test_new_beads_come_back_unchanged(name: str) -> None:
    assert moved(sample(name)) == sample(name)


# --- auto, 4.1a, legacy -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", OLD)
def test_old_beads_are_valid_as_legacy_and_warned_of_in_auto_and_refused_as_4_1a(name: str) -> None:
    assert schema.check(sample(name), "legacy") == schema.SchemaCheck(LegacyBead.model_validate(sample(name)))
    checked = schema.check(sample(name))
    assert isinstance(checked.bead, LegacyBead)
    assert ["deprecated" in warning.message for warning in checked.warnings] == [True]
    assert {"metadata.scrum_master_agent", "metadata.dev_agents"} <= set(blamed(sample(name), "4.1a"))


@pytest.mark.parametrize("name", NEW)
def test_new_beads_are_refused_as_legacy(name: str) -> None:
    assert "metadata.dev_agent_path" in blamed(sample(name), "legacy")


def test_auto_goes_by_the_scrum_master() -> None:
    half = changed(sample("legacy"), "metadata.scrum_master_agent", {"role": "polecat", "agent": "claude"})
    assert "metadata.dev_agents" in blamed(half, "auto")
    lost = changed(sample("work"), "metadata.scrum_master_agent", samples.GONE)
    assert blamed(lost, "auto") == ["metadata.scrum_master_agent"]


def test_the_old_schema_fixes_the_rig_and_the_models_and_allows_relative_worktrees() -> None:
    raw = sample("legacy")
    assert blamed(changed(raw, "metadata.rig", "other"), "legacy") == ["metadata.rig"]
    assert blamed(changed(raw, "metadata.dev_model", "gpt"), "legacy") == ["metadata.dev_model"]
    assert blamed(changed(raw, "metadata.qa_agents", []), "legacy") == ["metadata.qa_agents"]
    assert messages(changed(raw, "metadata.worktree_path", "../x"), "legacy") == []


# --- the command ------------------------------------------------------------------------------------


def test_migrate_rewrites_in_place_keeping_the_mode_and_only_once(repo: Path) -> None:
    path = repo / "bead.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(sample("legacy")).encode())
    path.chmod(0o640)
    done = run("bead.json", cwd=repo)
    assert (done.returncode, done.stdout, done.stderr) == (0, "✓ bead.json: migrated to 4.1a\n", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    written = path.read_text(encoding="utf-8")
    assert json.loads(written) == migrate(sample("legacy"), repo, slug(sample("legacy")["title"]))
    assert run("bead.json", cwd=repo).stdout == "✓ bead.json: is 4.1a already\n"
    assert path.read_text(encoding="utf-8") == written
    assert [entry.name for entry in repo.iterdir() if "bead" in entry.name] == ["bead.json"]


def test_migrate_changes_no_file_when_one_of_them_is_bad(repo: Path) -> None:
    good, bad = repo / "good.json", repo / "bad.json"
    good.write_text(json.dumps(sample("legacy")), encoding="utf-8")
    bad.write_text(json.dumps(changed(sample("legacy"), "metadata.dev_agent_path", None)), encoding="utf-8")
    before = good.read_bytes(), bad.read_bytes()
    done = run("good.json", "bad.json", cwd=repo)
    assert done.returncode == 1
    assert "metadata.dev_agents.0.agent" in done.stderr
    assert (good.read_bytes(), bad.read_bytes()) == before


def test_migrate_prints_instead_when_asked_and_from_stdin(repo: Path) -> None:
    path = repo / "bead.json"
    path.write_text(json.dumps(sample("legacy")), encoding="utf-8")
    before = path.read_bytes()
    shown = run("--stdout", "bead.json", cwd=repo)
    piped = run("-", given_text=json.dumps(sample("legacy")), cwd=repo)
    assert shown.stdout == piped.stdout
    assert messages(json.loads(shown.stdout)) == []
    assert path.read_bytes() == before


def test_migrate_answers_scripts_with_the_envelope(repo: Path) -> None:
    path = repo / "bead.json"
    path.write_text(json.dumps(sample("legacy")), encoding="utf-8")
    answer = json.loads(run("bead.json", "--json", cwd=repo).stdout)
    assert (answer["success"], answer["error"]) == (True, None)
    assert answer["data"]["files"] == [{"file": "bead.json", "migrated": True}]
    assert messages(answer["data"]["beads"][0]) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"metadata": {"x": "\\ud800"}}', "\udcff"])
def test_migrate_refuses_what_is_no_bead(text: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "beads_ralph", "migrate", "-"],
        input=text.encode("utf-8", "surrogateescape"),
        capture_output=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"error: ")

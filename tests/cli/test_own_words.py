"""Answers say what is the case here, in words and numbers that fit."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import ralph
from tests.plan.plans import plan_of


def plan(repo: Path, *sprints: str) -> None:
    text = plan_of(sprints).replace("source_branch: develop", "source_branch: main")
    (repo / "plan.md").write_text(text, "utf-8")


def test_one_is_one(repo: Path) -> None:
    plan(repo, "1.1")
    assert "✓ plan.md: 1 sprint, no faults" in ralph("plan", "check", "plan.md", cwd=repo).out
    assert "1 sprint, 1 wave, up to 1" in ralph("plan", "graph", "plan.md", cwd=repo).out
    assert "1 bead would be inserted" in ralph("mason", "plan.md", "--dry-run", cwd=repo).out
    assert "✓ 1 bead inserted" in ralph("mason", "plan.md", "--store", "embedded", cwd=repo).out


@pytest.mark.parametrize("store", ["embedded", pytest.param("bd", marks=pytest.mark.bd)])
def test_the_ninth_stands_before_the_tenth(store: str, request: pytest.FixtureRequest) -> None:
    repo: Path = request.getfixturevalue("repo" if store == "embedded" else "bd_repo")
    sprints = [f"4.{number}" for number in range(1, 13)]
    plan(repo, *sprints)
    assert ralph("mason", "plan.md", "--store", store, cwd=repo).code == 0
    beads = ralph("list", "--store", store, "--json", cwd=repo).data["beads"]
    assert [bead["metadata"]["sprint"] for bead in beads] == sprints


def test_a_filter_that_nothing_fits_is_named(repo: Path) -> None:
    plan(repo, "1.1")
    assert ralph("mason", "plan.md", "--store", "embedded", cwd=repo).code == 0
    assert "--label nope" in (said := ralph("list", "--label", "nope", cwd=repo).out)
    assert "compile a plan" not in said


def test_a_hundred_slips_of_one_kind_are_one(repo: Path) -> None:
    sprints = [f"1.{number}" for number in range(1, 101)]
    text = plan_of(sprints).replace("- Do it", "").replace("develop", "main")
    (repo / "plan.md").write_text(text, "utf-8")
    said = ralph("plan", "check", "plan.md", cwd=repo)
    errors = [line for line in said.err.splitlines() if not line.startswith("warning")]
    assert said.code == 1
    assert len(said.err.splitlines()) <= 6
    assert "sprint 1.1 has no **Tasks**" in errors[0]
    assert "99 more like it" in errors[1]
    assert "at least one bullet" in errors[2]
    answer = ralph("plan", "check", "plan.md", "--json", cwd=repo)
    assert len(answer.error["details"]["faults"]) == 100


def test_every_fault_is_followed_by_its_own_advice(repo: Path) -> None:
    text = plan_of(["1.1", "1.2"], s1_1="**Priority**: 9\n", s1_2="**Depends On**: 7.7\n")
    (repo / "plan.md").write_text(text.replace("develop", "main"), "utf-8")
    lines = ralph("plan", "check", "plan.md", cwd=repo).err.splitlines()
    assert ["priority" in lines[0], "**Priority**" in lines[1]] == [True, True]
    assert ["7.7" in lines[2], "**Depends On**" in lines[3]] == [True, True]


def test_settings_say_how_long_a_time_is_written(repo: Path) -> None:
    (repo / "beads-ralph.yaml").write_text("dev_agent_timeout: soon\n", "utf-8")
    assert "30s, 15m or 1h30m" in ralph("config", "show", cwd=repo).err


def test_settings_with_an_alias_that_holds_itself_are_a_clear_error(repo: Path) -> None:
    (repo / "beads-ralph.yaml").write_text("plan:\n  labels: &a [*a]\n", "utf-8")
    said = ralph("config", "show", cwd=repo)
    assert said.code == 1
    assert "alias" in said.err


def test_a_bare_repository_is_called_one(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path)], check=True)
    said = ralph("run", cwd=tmp_path)
    assert said.code == 1
    assert "bare repository" in said.err
    assert "git clone" in said.err


def test_migrate_names_every_faulty_file_and_writes_none(repo: Path) -> None:
    fixtures = Path(__file__).parents[1] / "fixtures" / "beads"
    (repo / "good.json").write_text((fixtures / "legacy.json").read_text("utf-8"), "utf-8")
    before = (repo / "good.json").read_text("utf-8")
    (repo / "bad.json").write_text("{", "utf-8")
    (repo / "worse.json").write_text(json.dumps({"id": "x"}), "utf-8")
    said = ralph("migrate", "good.json", "bad.json", "worse.json", "none.json", cwd=repo)
    assert said.code == 1
    assert all(name in said.err for name in ("bad.json", "worse.json", "none.json"))
    assert "good.json" not in said.err
    assert (repo / "good.json").read_text("utf-8") == before


def test_a_faulty_ralph_bead_is_not_advised_about_plans(repo: Path) -> None:
    (repo / "bead.json").write_text(json.dumps({"id": 5, "title": 7, "intent": "x"}), "utf-8")
    said = ralph("exec", "bead.json", cwd=repo)
    assert said.code == 1
    assert "beads-ralph schema" not in said.err
    assert "ralph-bead.schema.json" in said.err or "dod.verifiers" in said.err

"""The design documents' own command lines, from the plan to the beads, on both stores."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import Query
from tests.cli.running import MASON, VALIDATE, Ran, mason, ralph, run, write
from tests.cli.stand_in import path_without_bd, wrapped_bd
from tests.compile.plans import SEED_BEAD, SEED_PLAN_FILE, plan, seed_plan, sprint

IDS = ["bd-1-1-schema", "bd-1-2a-work", "bd-1-2b-merge", "bd-1-3-integration"]


@pytest.fixture
def seed_repo(repo: Path) -> Path:
    write(repo / SEED_PLAN_FILE, seed_plan())
    return repo


@pytest.fixture
def seed_bd(bd_repo: Path) -> Path:
    write(bd_repo / SEED_PLAN_FILE, seed_plan())
    return bd_repo


def beads_mason(repo: Path, *words: str) -> dict[str, Any]:
    """`beads-mason …`: its data, out of the fence."""
    ran = run(MASON, "--plan-file", SEED_PLAN_FILE, *words, cwd=repo)
    assert ran.code == 0, ran.out + ran.err
    lines = ran.out.splitlines()
    assert (lines[0], lines[-1]) == ("```json", "```")
    answer = json.loads("\n".join(lines[1:-1]))
    assert (answer["success"], answer["error"]) == (True, None)
    return dict(answer["data"])


def expected(*sprints: str) -> dict[str, Any]:
    names = dict(zip(("1.1", "1.2a", "1.2b", "1.3"), IDS, strict=True))
    return {
        "mode": "direct",
        "beads_created": len(sprints),
        "bead_ids": [names[sprint_id] for sprint_id in sprints],
        "sprints_processed": list(sprints),
        "database_status": "inserted",
        "plan_annotated": False,
    }


def bd(repo: Path, *words: str) -> Any:
    """What the real bd itself says."""
    done = subprocess.run(
        ["bd", *words, "--json"],
        cwd=repo,
        check=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    return json.loads(done.stdout)


def ids(rows: Any) -> list[str]:
    return sorted(row["id"] for row in rows)


# --- the embedded store -----------------------------------------------------------------------------


def test_s1_ex1_s1_fr10_2_one_sprint_into_the_store(seed_repo: Path) -> None:
    data = beads_mason(seed_repo, "--sprint-filter", "1.1")
    assert {name: data[name] for name in expected()} == expected("1.1")
    (bead,) = ralph("show", "bd-1-1-schema", "--json", cwd=seed_repo).data["beads"]
    for name in ("id", "title", "description", "status", "priority", "issue_type", "labels", "dependencies"):
        assert bead[name] == SEED_BEAD[name], name


def test_s1_ex2_three_sprints_after_the_first(seed_repo: Path) -> None:
    beads_mason(seed_repo, "--sprint-filter", "1.1")
    data = beads_mason(seed_repo, "--sprint-filter", "1.2a,1.2b,1.3")
    assert {name: data[name] for name in expected()} == expected("1.2a", "1.2b", "1.3")
    found = {bead.id: bead.dependencies for bead in EmbeddedStore(seed_repo).find(Query()).beads}
    assert found == {
        "bd-1-1-schema": [],
        "bd-1-2a-work": ["bd-1-1-schema"],
        "bd-1-2b-merge": ["bd-1-1-schema"],
        "bd-1-3-integration": ["bd-1-2a-work", "bd-1-2b-merge"],
    }
    for label, bead_id in (("sprint-1-2a", IDS[1]), ("sprint-1-2b", IDS[2]), ("sprint-1-3", IDS[3])):
        assert ids(ralph("list", "--label", label, "--json", cwd=seed_repo).data["beads"]) == [bead_id]


@pytest.mark.parametrize("schema", ["4.1a", "legacy"])
def test_s1_fr5_4_every_bead_passes_the_validator_on_a_pipe(seed_repo: Path, schema: str) -> None:
    """`echo '<bead-json>' | validate-bead-schema.py` says what the design documents say it says."""
    data = beads_mason(seed_repo, "--dry-run", "--schema", schema)
    assert [bead["id"] for bead in data["beads"]] == IDS
    for bead in data["beads"]:
        ran = run(VALIDATE, cwd=seed_repo, stdin=json.dumps(bead))
        assert (ran.code, ran.out) == (0, "✓ Valid bead\n"), ran.err


def test_s1_ex1_the_old_schema_by_the_command_line(seed_repo: Path) -> None:
    data = beads_mason(seed_repo, "--sprint-filter", "1.1", "--schema", "legacy", "--dry-run")
    (bead,) = data["beads"]
    assert bead["created_at"] == bead["updated_at"]
    same = {"created_at": SEED_BEAD["created_at"], "updated_at": SEED_BEAD["updated_at"]}
    assert {**bead, **same} == SEED_BEAD


def test_old_beads_are_stored_and_read_as_new_ones(seed_repo: Path) -> None:
    beads_mason(seed_repo, "--schema", "legacy")
    listing = EmbeddedStore(seed_repo).find(Query())
    assert (len(listing.beads), listing.unreadable) == (4, ())
    (dev,) = EmbeddedStore(seed_repo).show("bd-1-1-schema").metadata.dev_agents
    assert (dev.agent, dev.model) == (".claude/agents/python-backend-dev.md", "sonnet")


def test_s1_fr5_4_an_invalid_bead_fails_on_the_pipe(seed_repo: Path) -> None:
    bead = {**SEED_BEAD, "metadata": {**SEED_BEAD["metadata"], "phase": "1.2"}}
    ran = run(VALIDATE, cwd=seed_repo, stdin=json.dumps(bead))
    assert (ran.code, ran.out) == (1, "")
    head, fault, *_ = ran.err.splitlines()
    assert (head, fault) == ("Validation errors:", r" - field metadata.phase must match pattern ^\d+[a-z]*$")


def test_s1_fr5_1_s1_i1_preflight_notices_a_missing_bd(seed_repo: Path, tmp_path: Path) -> None:
    env = {"PATH": path_without_bd(tmp_path / "bin")}
    ran = mason(SEED_PLAN_FILE, "--store", "bd", cwd=seed_repo, env=env)
    assert (ran.code, ran.error["code"]) == (1, "DATABASE.CLI_NOT_FOUND")


# --- the real bd ------------------------------------------------------------------------------------


def close(repo: Path, *bead_ids: str) -> None:
    for bead_id in bead_ids:
        bd(repo, "update", bead_id, "--claim", "--actor", "loop-1")
        bd(repo, "close", bead_id, "--reason", "done", "--actor", "loop-1")


@pytest.mark.bd
def test_s1_ex1_s1_ex2_s1_i2_s1_i3_s1_i4_s1_fr5_5_s1_fr5_6_the_seeds_plan_in_the_real_bd(
    seed_bd: Path,
) -> None:
    data = beads_mason(seed_bd, "--sprint-filter", "1.1")
    assert {name: data[name] for name in expected()} == expected("1.1")
    assert data["store"] == "bd"
    data = beads_mason(seed_bd, "--sprint-filter", "1.2a,1.2b,1.3")
    assert {name: data[name] for name in expected()} == expected("1.2a", "1.2b", "1.3")

    (shown,) = bd(seed_bd, "show", "bd-1-1-schema")
    for name in ("id", "title", "description", "status", "priority", "issue_type", "assignee"):
        assert shown[name] == SEED_BEAD[name], name
    assert sorted(shown["labels"]) == SEED_BEAD["labels"]
    metadata = shown["metadata"]
    for name in ("rig", "branch", "source_branch", "phase", "sprint", "plan_file", "plan_section"):
        assert metadata[name] == SEED_BEAD["metadata"][name], name
    assert metadata["dev_prompts"] == SEED_BEAD["metadata"]["dev_prompts"]

    # The loop's own questions: three rounds, each after the one before is closed.
    assert ids(bd(seed_bd, "ready")) == IDS[:1]
    close(seed_bd, IDS[0])
    assert ids(bd(seed_bd, "ready")) == IDS[1:3]
    close(seed_bd, *IDS[1:3])
    assert ids(bd(seed_bd, "ready")) == IDS[3:]
    assert ids(bd(seed_bd, "list", "--all", "--label-any", "sprint-1-2a,sprint-1-2b,sprint-1-3")) == IDS[1:]


@pytest.mark.bd
def test_s1_n1_1_s1_fr5_2_all_of_it_goes_through_bds_own_commands(
    seed_bd: Path, bd_path: Path, tmp_path: Path
) -> None:
    """A log of every call; no file of the database is opened by mason itself."""
    log = tmp_path / "calls"
    env = {"PATH": wrapped_bd(tmp_path / "bin", bd_path, f'echo "$1" >>"{log}"')}
    assert mason(SEED_PLAN_FILE, cwd=seed_bd, env=env).data["beads_created"] == 4
    calls = log.read_text(encoding="utf-8").split()
    assert max(calls.index("--version"), calls.index("info")) < calls.index("create")
    assert calls.count("create") == 1  # all or none
    assert not (seed_bd / "beads").exists()


@pytest.mark.full
@pytest.mark.bd
def test_s1_n1_2_what_a_loop_writes_is_what_we_read(seed_bd: Path) -> None:
    """ready → claim → show → close → metadata → next ready, by bd's command line as in the contract."""
    beads_mason(seed_bd)
    assert ids(bd(seed_bd, "ready")) == ["bd-1-1-schema"]
    bd(seed_bd, "update", "bd-1-1-schema", "--claim", "--actor", "loop-1")
    (running,) = ralph("show", "bd-1-1-schema", "--json", cwd=seed_bd).data["beads"]
    assert (running["status"], running["claimed_by"]) == ("in_progress", "loop-1")
    bd(seed_bd, "update", "bd-1-1-schema", "--status", "closed", "--actor", "loop-1")
    pull = '{"pr_url": "https://example.com/pull/7", "pr_number": 7}'
    bd(seed_bd, "update", "bd-1-1-schema", "--metadata", pull, "--actor", "loop-1")
    (done,) = ralph("show", "bd-1-1-schema", "--json", cwd=seed_bd).data["beads"]
    assert done["status"] == "closed"
    assert (done["metadata"]["pr_number"], done["metadata"]["sprint"]) == (7, "1.1")
    assert ids(ralph("ready", "--json", cwd=seed_bd).data["beads"]) == IDS[1:3]


@pytest.mark.bd
def test_s1_fr5_7_s1_n4_2_a_second_run_on_bd(seed_bd: Path) -> None:
    beads_mason(seed_bd)
    before = ids(bd(seed_bd, "list", "--all"))
    ran = mason(SEED_PLAN_FILE, cwd=seed_bd)
    assert (ran.code, ran.error["code"]) == (1, "DEPENDENCY.DUPLICATE_ID")
    data = beads_mason(seed_bd, "--check-existing")
    assert (data["beads_created"], data["beads_skipped"]) == (0, IDS)
    differing = ralph("plan", "diff", SEED_PLAN_FILE, "--json", cwd=seed_bd).data
    assert (differing["added"], differing["changed"], differing["orphaned"]) == ([], [], [])
    assert ids(bd(seed_bd, "list", "--all")) == before


@pytest.mark.full
@pytest.mark.bd
def test_an_edited_plan_reaches_bd(seed_bd: Path) -> None:
    beads_mason(seed_bd)
    close(seed_bd, IDS[0])
    text = seed_plan().replace("Sprint 1.2a: Example Work Bead", "Sprint 1.2a: Better Work Bead")
    text = text.replace("Sprint 1.1: Core", "Sprint 1.1: Other")
    text = text[: text.index("### Sprint 1.2b")] + text[text.index("### Sprint 1.3") :]
    write(seed_bd / SEED_PLAN_FILE, text)
    (closed,) = bd(seed_bd, "show", IDS[0])
    data = beads_mason(seed_bd, "--update")
    assert data["beads_orphaned"] == [IDS[2]]
    assert data["beads_left_alone"] == [IDS[0]]
    assert sorted(data["beads_updated"]) == [IDS[1], IDS[3]]
    assert bd(seed_bd, "show", IDS[0]) == [closed]
    (orphan,) = bd(seed_bd, "show", IDS[2])
    assert (orphan["status"], "orphaned" in orphan["labels"]) == ("blocked", True)
    (changed,) = bd(seed_bd, "show", IDS[1])
    assert changed["title"] == "Better Work Bead (Parallel)"
    assert beads_mason(seed_bd, "--update")["database_status"] == "unchanged"


@pytest.mark.bd
def test_acceptance_criteria_reach_bds_own_field(bd_repo: Path) -> None:
    text = plan(sprint("1.1", "Start", acceptance_criteria="It is fast"))
    mason(write(bd_repo / "plan.md", text), cwd=bd_repo)
    (row,) = bd(bd_repo, "show", "bd-1-1-start")
    assert "It is fast" in row["acceptance_criteria"]


@pytest.mark.bd
def test_s1_fr5_8_what_bd_refuses_is_told_and_nothing_is_inserted(bd_repo: Path) -> None:
    """The last of three has an id that bd cannot look up again."""
    text = plan(sprint("1.1", "A"), sprint("1.2", "B"), sprint("1.3", "C", bead_name="`bd-a,b`"))
    ran = mason(write(bd_repo / "plan.md", text), cwd=bd_repo)
    assert (ran.code, ran.error["code"]) == (1, "VALIDATION.CONSTRAINT")
    assert bd(bd_repo, "list", "--all") == []


@pytest.mark.full
@pytest.mark.bd
def test_s1_n2_1_two_masons_on_one_bd(bd_repo: Path) -> None:
    started = []
    for name in ("north", "south"):
        write(bd_repo / f"{name}.md", plan(sprint("1.1", f"{name} one"), sprint("1.2", f"{name} two")))
        started.append(
            subprocess.Popen(
                [*MASON, f"{name}.md", "--json"],
                cwd=bd_repo,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ended = []
    for process in started:
        out, err = process.communicate(timeout=240)
        ended.append(Ran(process.returncode, out, err))
    assert [ran.data["beads_created"] for ran in ended] == [2, 2]
    wanted = [
        f"bd-1-{n}-{name}-{word}" for n, word in ((1, "one"), (2, "two")) for name in ("north", "south")
    ]
    assert ids(bd(bd_repo, "list", "--all")) == sorted(wanted)


FORMULA = {
    "formula": "work-sprint",
    "description": "One sprint of work",
    "version": 1,
    "type": "workflow",
    "phase": "liquid",
    "vars": {"sprint_id": {"description": "The sprint", "required": True}},
    "steps": [{"id": "work", "title": "Sprint {{sprint_id}}", "type": "task", "priority": 1}],
}


@pytest.mark.full
@pytest.mark.bd
def test_s1_i5_bd_pours_a_formula_in_a_database_of_ours(
    repo: Path, bd_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bd_path.parent), prepend=os.pathsep)
    assert ralph("init", "--store", "bd", cwd=repo).code == 0
    write(repo / ".beads" / "formulas" / "work-sprint.formula.json", json.dumps(FORMULA))
    poured = bd(repo, "mol", "pour", "work-sprint", "--var", "sprint_id=2.1")
    assert poured["created"] >= 1
    titles = {row["title"] for row in bd(repo, "list", "--all")}
    assert "Sprint 2.1" in titles
    # What bd pours is no bead of ours: it is neither shown nor in the way.
    assert ralph("ready", "--json", cwd=repo).data["beads"] == []

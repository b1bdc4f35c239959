"""`--json`: one document on stdout and nothing else, whatever the command and however it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import MASON, Ran, compiled_here, mason, ralph, run, write
from tests.compile.plans import SEED_BEAD, only, plan, sprint

PLAN = plan(
    sprint("1.1", "Start", source_branch="main"),
    sprint("1.2a", "Left", source_branch="main", verify="`true`"),
    sprint("1.2b", "Right", source_branch="main"),
    sprint("1.3", "Merge all", source_branch="main"),
)
IDS = ["bd-1-1-start", "bd-1-2a-left", "bd-1-2b-right", "bd-1-3-merge-all"]
WARNED = plan(sprint("1.1", "Merge nothing"))


@pytest.fixture
def shop(repo: Path, with_claude: None) -> Path:
    """A repository with a compiled plan and a few files to name."""
    compiled_here(repo, PLAN)
    write(repo / "warned.md", WARNED)
    write(repo / "bead.json", json.dumps(only(plan(sprint("1.1", "Start"))).to_json()))
    write(repo / "old.json", json.dumps(SEED_BEAD))
    write(repo / "bad.json", "{}")
    write(repo / "bad.md", "### Sprint 1.1: Bare\n")
    return repo


CHECKED = {"plan", "sprints", "faults", "warnings", "without_verifier", "merges_by_title", "refused_here"}
GOOD: list[tuple[list[str], set[str]]] = [
    (["init"], {"store", "created", "kept", "checks"}),
    (["doctor"], {"healthy", "checks"}),
    (["state", "validate"], {"files", "valid", "invalid", "mended"}),
    (["state", "fix", "--runs"], {"files", "valid", "invalid", "mended"}),
    (
        ["demo", "--dir", "demo", "--plan-only"],
        {
            "root",
            "plan",
            "bead_ids",
            "sprints",
            "waves",
            "critical_path",
            "ready",
            "ended",
            "report",
            "analysis",
        },
    ),
    (["formula", "list"], {"formulas"}),
    (["formula", "check"], {"formulas"}),
    (["plan", "check", "plan.md"], CHECKED),
    (["plan", "check", "warned.md"], CHECKED),
    (["plan", "graph", "plan.md"], {"sprints", "waves", "critical_path"}),
    (["plan", "graph", "plan.md", "--format", "mermaid"], {"sprints", "waves", "critical_path"}),
    (["plan", "diff", "plan.md"], {"store", "added", "changed", "orphaned", "unchanged"}),
    (
        ["mason", "plan.md", "--check-existing"],
        {
            "mode",
            "beads_created",
            "bead_ids",
            "sprints_processed",
            "database_status",
            "plan_annotated",
            "plan_file_updated",
            "beads_skipped",
            "store",
            "warnings",
        },
    ),
    (
        ["mason", "plan.md", "--update"],
        {
            "mode",
            "beads_created",
            "bead_ids",
            "sprints_processed",
            "database_status",
            "plan_annotated",
            "plan_file_updated",
            "beads_skipped",
            "beads_updated",
            "beads_orphaned",
            "beads_left_alone",
            "store",
            "warnings",
        },
    ),
    (
        ["mason", "plan.md", "--dry-run"],
        {
            "mode",
            "dry_run",
            "beads_created",
            "bead_ids",
            "sprints_processed",
            "database_status",
            "plan_annotated",
            "plan_file_updated",
            "beads",
            "warnings",
        },
    ),
    (["list"], {"beads", "people", "store", "unreadable"}),
    (["list", "--status", "closed"], {"beads", "people", "store", "unreadable"}),
    (["ready"], {"beads", "people", "store", "unreadable"}),
    (["show", "bd-1-1-start", "bd-1-3-merge-all"], {"beads", "items", "store"}),
    (["validate", "bead.json", "old.json"], {"files"}),
    (["validate", "-"], {"files"}),
    (["migrate", "old.json"], {"beads", "files"}),
    (["migrate", "old.json", "--stdout"], {"beads", "files"}),
    (["schema"], {"name", "schema"}),
    (["schema", "QAOutput"], {"name", "schema"}),
]

BAD: list[tuple[list[str], int, str]] = [
    (["mason", "bad.md"], 1, "PARSE.MISSING_SECTION"),
    (["mason", "plan.md"], 1, "DEPENDENCY.DUPLICATE_ID"),
    (["mason"], 2, "USAGE.INVALID"),
    (["mason", "plan.md", "--plan-file", "plan.md"], 2, "USAGE.INVALID"),
    (["mason", "plan.md", "--store", "paper"], 2, "USAGE.INVALID"),
    (["mason", "plan.md", "--sprint-filter", ""], 2, "USAGE.INVALID"),
    (["plan", "check", "bad.md"], 1, "PARSE.MISSING_SECTION"),
    (["plan", "check", "warned.md", "--strict"], 1, "VALIDATION.CONSTRAINT"),
    (["plan", "check", "nope.md"], 1, "IO.FILE_NOT_FOUND"),
    (["plan", "graph", "nope.md"], 1, "IO.FILE_NOT_FOUND"),
    (["plan", "diff", "bad.md"], 1, "PARSE.MISSING_SECTION"),
    (["plan", "nope"], 2, "USAGE.INVALID"),
    (["nope"], 2, "USAGE.INVALID"),
    (["list", "--nope"], 2, "USAGE.INVALID"),
    (["list", "--status", "done"], 2, "USAGE.INVALID"),
    (["ready", "--limit", "0"], 2, "USAGE.INVALID"),
    (["show"], 2, "USAGE.INVALID"),
    (["show", "bd-1-1-start", "bd-1"], 1, "DATABASE.BEAD_NOT_FOUND"),
    (["validate", "bead.json", "bad.json"], 1, "VALIDATION.MISSING_FIELD"),
    (["validate", "nope.json"], 1, "IO.FILE_NOT_FOUND"),
    (["migrate", "bad.json"], 1, "VALIDATION.MISSING_FIELD"),
    (["schema", "Nope"], 2, "USAGE.INVALID"),
    (["demo", "--dir", "."], 2, "USAGE.INVALID"),
    (["demo", "--dir", "plan.md"], 1, "IO.WRITE_FAILED"),
]


@pytest.mark.parametrize(("words", "keys"), GOOD, ids=[" ".join(words) for words, _ in GOOD])
def test_s1_fr10_1_success_is_one_document_with_data_of_a_known_shape(
    shop: Path, words: list[str], keys: set[str]
) -> None:
    stdin = (shop / "bead.json").read_text(encoding="utf-8")
    ran = ralph(*words, "--json", cwd=shop, stdin=stdin)
    assert ran.code == 0, ran.out + ran.err
    assert ran.err == ""
    assert set(ran.data) == keys


@pytest.mark.parametrize(("words", "exit_code", "code"), BAD, ids=[" ".join(words) for words, *_ in BAD])
def test_s1_fr10_1_s1_fr10_4_failure_is_one_document_with_an_error(
    shop: Path, words: list[str], exit_code: int, code: str
) -> None:
    ran = ralph(*words, "--json", cwd=shop)
    assert (ran.code, ran.error["code"]) == (exit_code, code), ran.out
    assert ran.err == ""
    assert set(ran.error) == {"code", "message", "details", "recoverable", "suggested_action"}
    assert isinstance(ran.error["details"], str | dict)


def test_a_drawing_as_json_is_the_same_document(shop: Path) -> None:
    words = ("plan", "graph", "plan.md")
    assert ralph(*words, "--format", "json", cwd=shop) == ralph(*words, "--json", cwd=shop)


# --- shapes -----------------------------------------------------------------------------------------


def test_the_shape_of_a_drawing(shop: Path) -> None:
    data = ralph("plan", "graph", "plan.md", "--json", cwd=shop).data
    assert data["waves"] == [["1.1"], ["1.2a", "1.2b"], ["1.3"]]
    assert data["critical_path"] == ["1.1", "1.2a", "1.3"]
    first, *_, last = data["sprints"]
    assert set(first) == {"sprint", "bead_id", "title", "line", "depends_on", "depends_on_beads", "wave"}
    assert (last["bead_id"], last["depends_on"], last["wave"]) == (IDS[3], ["1.2a", "1.2b"], 3)
    assert PLAN.splitlines()[last["line"] - 1] == "### Sprint 1.3: Merge all"


def test_a_listed_bead_is_a_bead(shop: Path) -> None:
    """What `list` prints, `validate` takes."""
    for bead in ralph("list", "--json", cwd=shop).data["beads"]:
        ran = ralph("validate", "-", cwd=shop, stdin=json.dumps(bead))
        assert (ran.code, ran.out) == (0, "✓ Valid bead\n"), ran.err


def test_the_shape_of_a_fault(shop: Path) -> None:
    faults = ralph("plan", "check", "bad.md", "--json", cwd=shop).error["details"]["faults"]
    assert [set(fault) for fault in faults] == [{"code", "message", "file", "line", "suggested_action"}] * 2
    assert {fault["file"] for fault in faults} == {"bad.md"}
    assert {fault["line"] for fault in faults} == {1}


def test_warnings_are_data_in_a_document(shop: Path) -> None:
    (warning,) = ralph("plan", "check", "warned.md", "--json", cwd=shop).data["warnings"]
    assert (warning["file"], warning["code"]) == ("warned.md", "VALIDATION.CONSTRAINT")
    (row,) = mason("warned.md", "--id-suffix", "x", cwd=shop).data["warnings"]
    assert row == warning


def test_warnings_go_to_stderr_for_people(shop: Path) -> None:
    ran = ralph("plan", "check", "warned.md", cwd=shop)
    assert ran.code == 0
    assert ran.err.startswith("warning: warned.md:")
    assert "1 warning" in ran.out


# --- beads-mason ------------------------------------------------------------------------------------


def fenced(ran: Ran) -> dict[str, Any]:
    """The JSON between the fences, and nothing around them."""
    first, *middle, last = ran.out.splitlines()
    assert (first, last) == ("```json", "```")
    return dict(json.loads("\n".join(middle)))


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--plan-file", "plan.md", "--check-existing"], 0), (["--plan-file", "bad.md"], 1), (["--nope"], 2)],
)
def test_s1_fr10_1_beads_mason_answers_in_a_fence(shop: Path, words: list[str], code: int) -> None:
    ran = run(MASON, *words, cwd=shop)
    assert ran.code == code
    assert fenced(ran)["success"] is (code == 0)
    assert ran.err == ""


def test_beads_mason_answers_without_a_fence_where_asked(shop: Path) -> None:
    assert run(MASON, "plan.md", "--check-existing", "--json", cwd=shop).data["beads_skipped"] == IDS


@pytest.mark.parametrize("words", [["--help"], ["list", "--help"], ["list", "--help", "--json"]])
def test_help_is_text_alone(shop: Path, words: list[str]) -> None:
    ran = ralph(*words, cwd=shop)
    assert ran.code == 0
    assert "Usage: beads-ralph" in ran.out
    assert '"success"' not in ran.out


def test_without_a_word_it_says_how_things_are_or_what_it_can_do(shop: Path, tmp_path: Path) -> None:
    """Where nobody can look at a board; elsewhere there is nothing to look at."""
    assert ralph(cwd=shop).out == ralph("status", cwd=shop).out
    assert "Usage: beads-ralph" in ralph(cwd=tmp_path).out


def test_help_of_beads_mason_is_text_alone(shop: Path) -> None:
    ran = run(MASON, "--help", cwd=shop)
    assert ran.code == 0
    assert "Usage: beads-mason" in ran.out
    assert "```" not in ran.out


def test_version_says_one_line(shop: Path) -> None:
    ran = ralph("--version", cwd=shop)
    assert ran.code == 0
    assert ran.out.startswith("beads-ralph ")
    assert ran.out.count("\n") == 1

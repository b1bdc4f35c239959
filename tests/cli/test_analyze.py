"""analyze and forecast, and the seed's script, as commands on real files."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from beads_ralph.cli.analyze import show_groups
from beads_ralph.report.figures import RunGroup
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from tests.cli.running import PROJECT, Ran, ralph, run
from tests.journal import samples

SCRIPT = (str(PROJECT / "scripts" / "analyze-runs.sh"),)
KEYS = {
    *("total_runs", "success", "failed", "timeout", "running", "success_rate", "retry_count", "retry_rate"),
    *("avg_duration_seconds", "by_agent", "by_model", "by_template", "failure_reasons", "task_types"),
}
PLAN = """\
### Sprint 1.1: Data model
**Tasks**:
- Write it

### Sprint 1.2: Search
**Tasks**:
- Find it
"""


def put(repo: Path, bead: str, *, result: bool = True, **said: Any) -> None:
    both = {key: value for key, value in said.items() if key in samples.result()}
    for folder, raw in (
        ("runs", samples.run(bead=bead, **said)),
        ("results", samples.result(bead=bead, **both)),
    ):
        (repo / "state" / folder).mkdir(parents=True, exist_ok=True)
        if folder == "runs" or result:
            (repo / "state" / folder / f"{bead}.json").write_text(json.dumps(raw), encoding="utf-8")


@pytest.fixture
def records(repo: Path) -> Path:
    """Four beads: one of an earlier week, one that failed, one that runs."""
    put(repo, "bd-1", started_at="2026-02-01T10:00:00Z", finished_at="2026-02-01T10:05:00Z")
    put(repo, "bd-2", agent="codex", duration_seconds=100)
    put(repo, "bd-3", status="failed", failure_reason="qa-failed", exit_code=1)
    put(repo, "bd-4", status="running", finished_at=None, duration_seconds=None, result=False)
    return repo


def bare(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out))


def test_s4_a1_runs_and_results_are_merged_by_bead(records: Path) -> None:
    put(records, "bd-5", status="running", finished_at=None, duration_seconds=None, result=False)
    ended = samples.result(bead="bd-5", status="timeout", reason="took too long")
    (records / "state" / "results" / "bd-5.json").write_text(json.dumps(ended), encoding="utf-8")
    found = ralph("analyze", "--json", "--raw", cwd=records).data
    (row,) = [row for row in found["raw_data"] if row["bead"] == "bd-5"]
    assert (row["status"], row["model"], row["result_reason"]) == ("timeout", "sonnet", "took too long")
    assert found["statistics"]["timeout"] == 1


def test_s4_a2_the_script_reports_for_people(records: Path) -> None:
    ran = run(SCRIPT, cwd=records)
    assert (ran.code, ran.err) == (0, "")
    for words in ("4 runs", "67 % (2 of 3", "by agent", "codex", "qa-failed", "recommendations"):
        assert words in ran.out, ran.out


def test_s4_a3_the_script_prints_one_json_object_with_the_keys_of_the_seed(records: Path) -> None:
    found = bare(run(SCRIPT, "--json", cwd=records))
    assert set(found) >= {"generated_at", "filter", "statistics", "recommendations", "raw_data"}
    assert set(found["statistics"]) >= KEYS
    assert (found["statistics"]["total_runs"], found["statistics"]["running"]) == (4, 1)
    assert found["statistics"]["success_rate"] == pytest.approx(66.67)
    assert {row["bead"] for row in found["raw_data"]} == {"bd-1", "bd-2", "bd-3", "bd-4"}
    bare_of_rows = ralph("analyze", "--json", cwd=records).data
    assert (bare_of_rows["statistics"], bare_of_rows["raw_data"]) == (found["statistics"], [])


def test_s4_a4_since_is_taken_as_printed(records: Path) -> None:
    found = bare(run(SCRIPT, "--json", "--since", "2026-02-11", cwd=records))
    assert found["filter"] == {"since": "2026-02-11"}
    assert (found["statistics"]["total_runs"], found["statistics"]["left_out"]) == (3, 1)
    assert run(SCRIPT, "--since", "2026-02-11", cwd=records).out.startswith("3 runs")


def test_a_date_that_is_none_is_refused(records: Path) -> None:
    ran = ralph("analyze", "--since", "tomorrow", "--json", cwd=records)
    assert (ran.code, ran.error["code"]) == (2, "USAGE.INVALID")
    assert run(SCRIPT, "--since", "tomorrow", "--json", cwd=records).code == 2


def test_what_is_no_record_is_named_and_not_fatal(records: Path) -> None:
    runs = records / "state" / "runs"
    (runs / "cut.json").write_text('{"bead": "x', encoding="utf-8")
    (runs / "odd.json").write_text(
        json.dumps(samples.run(bead="odd", started_at="'$START'")), encoding="utf-8"
    )
    ran = ralph("analyze", "--json", cwd=records)
    assert [Path(row["file"]).name for row in ran.data["unreadable"]] == ["cut.json"]
    assert ran.data["statistics"]["bad_timestamps"] == 1
    assert ran.data["statistics"]["total_runs"] == 5
    assert "cut.json" in ralph("analyze", cwd=records).err


def test_without_records_it_says_so(repo: Path) -> None:
    ran = ralph("analyze", cwd=repo)
    assert ran.code == 0
    assert "no records" in ran.out
    assert ralph("analyze", "--json", cwd=repo).data["statistics"]["success_rate"] is None


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_rows_keep_their_names_however_narrow_the_terminal_is(width: int) -> None:
    told = StringIO()
    long = RunGroup(
        beads=2130, attempts=4260, first=2130, first_passed=1065, attempt_seconds=[4000.0, 9000.0]
    )
    show_groups(
        Console(file=told, width=width), "template", {"refactoring-of-data": long, "docs": RunGroup()}
    )
    head, *rows = [line.split() for line in told.getvalue().splitlines() if line.strip()]
    assert [head[:2], *(row[0] for row in rows)] == [["by", "template"], "docs", "refactoring-of-data"]
    assert ("between" in head) == (width == 200)


def test_the_page_is_written_where_asked(records: Path) -> None:
    ran = ralph("analyze", "--html", "out.html", "--json", cwd=records)
    assert ran.data["html"] == "out.html"
    assert "qa-failed" in (records / "out.html").read_text(encoding="utf-8")
    ran = ralph("analyze", "--html", "nowhere/out.html", "--json", cwd=records)
    assert (ran.code, ran.error["code"]) == (1, "IO.WRITE_FAILED")


def test_a_forecast_without_history_says_what_it_assumes(repo: Path) -> None:
    (repo / "plan.md").write_text(PLAN, encoding="utf-8")
    ralph("init", cwd=repo)
    found = ralph("forecast", "plan.md", "--json", cwd=repo).data
    assert (found["sprints"], found["defaults_used"], found["cost_usd"]) == (2, ["1.1", "1.2"], None)
    assert found["critical_path"] == ["1.1", "1.2"]
    text = ralph("forecast", "plan.md", cwd=repo).out
    assert "no history yet" in text
    assert "assumed for every sprint: 10 min an attempt" in text


def test_a_forecast_draws_from_the_records(repo: Path) -> None:
    (repo / "plan.md").write_text(PLAN, encoding="utf-8")
    ralph("init", cwd=repo)
    for number in range(6):
        put(repo, f"bd-{number}", duration_seconds=60, extra={"kind": "work", "usage": {"cost_usd": 0.25}})
    found = ralph("forecast", "plan.md", "--max-parallel", "2", "--json", cwd=repo).data
    assert 60 < found["seconds"]["p10"] < 120 < found["seconds"]["p90"] < 600
    assert 0.25 < found["cost_usd"]["p10"] < 0.5 < found["cost_usd"]["p90"] < 2.5
    assert found["basis"]["1.1"] == {"from": "kind work, agent claude, model sonnet", "attempts": 6}
    assert (found["max_parallel"], found["parallelism"]) == (2, 1.0)
    assert found["all_closed_percent"] > 80
    assert "(8 of 10 times between " in ralph("forecast", "plan.md", cwd=repo).out


def test_a_forecast_is_about_what_is_left(repo: Path) -> None:
    (repo / "plan.md").write_text(PLAN, encoding="utf-8")
    ralph("init", cwd=repo)
    for number in range(6):
        put(repo, f"bd-{number}", duration_seconds=60, extra={"kind": "work", "usage": {"cost_usd": 0.25}})
    ralph("mason", "plan.md", cwd=repo)
    store = EmbeddedStore(repo)
    close(store, "bd-1-1-data-model")
    found = ralph("forecast", "plan.md", "--json", cwd=repo).data
    assert (found["sprints"], found["closed"], found["critical_path"]) == (2, 1, ["1.2"])
    assert found["seconds"]["p10"] < 60.0 < found["seconds"]["p90"]
    text = ralph("forecast", "plan.md", cwd=repo).out
    assert "1 of 2 sprints closed already; what follows is about the other 1" in text
    close(store, "bd-1-2-search")
    assert ralph("forecast", "plan.md", "--json", cwd=repo).data["seconds"]["p90"] == 0.0
    assert "2 of 2 sprints closed already: nothing is left" in ralph("forecast", "plan.md", cwd=repo).out


@pytest.mark.parametrize(("count", "forgiven", "left"), [(1, 0, 2), (4, 2, 1), (3, 0, 3)])
def test_a_forecast_knows_how_many_attempts_a_bead_has_left(
    repo: Path, count: int, forgiven: int, left: int
) -> None:
    """As `retry` gives as many again, one that has none left is taken to get them."""
    (repo / "plan.md").write_text(PLAN.partition("\n\n")[0], encoding="utf-8")
    ralph("init", cwd=repo)
    for number in range(6):
        put(repo, f"bd-{number}", status="failed", exit_code=1, extra={"kind": "work"})
    ralph("mason", "plan.md", cwd=repo)
    store = EmbeddedStore(repo)
    tried = {"attempt_count": count, "attempts_forgiven": forgiven}
    store.update("bd-1-1-data-model", Changes(metadata=tried))
    found = ralph("forecast", "plan.md", "--json", cwd=repo).data
    assert found["attempts"]["p90"] == left


def close(store: EmbeddedStore, bead: str) -> None:
    assert store.claim(bead, "somebody").won
    store.close(bead, "somebody", "done")


def test_a_forecast_of_a_plan_with_faults_is_refused(repo: Path) -> None:
    (repo / "plan.md").write_text("### Sprint one: Odd\n", encoding="utf-8")
    assert ralph("forecast", "plan.md", "--json", cwd=repo).code == 1

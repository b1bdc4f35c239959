"""Figures over records: final attempts, honest denominators, and everything adds up."""

from __future__ import annotations

import json
import math
import statistics
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beads_ralph.journal.records import Attempt, read_all
from beads_ralph.report import tallied
from beads_ralph.report.advice import advice
from beads_ralph.report.figures import Rate, Spread, quantile, time_text
from beads_ralph.report.page import AnalysisSubject, html
from tests.journal import samples
from tests.report.made import START, attempt, check, failed, several
from tests.selection import examples


def figures(*rows: Attempt, since: datetime | None = None) -> dict[str, Any]:
    return tallied(rows, since).to_json()


# --- numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"), [(0, 10, 0.0, 27.75), (5, 10, 23.66, 76.34), (10, 10, 72.25, 100.0)]
)
def test_a_rate_carries_wilsons_interval(hits: int, of: int, low: float, high: float) -> None:
    """Against the values of published tables."""
    assert Rate(hits, of).interval == (low, high)


def test_a_rate_of_nothing_is_not_known_rather_than_zero() -> None:
    assert (Rate(0, 0).percent, Rate(0, 0).interval, str(Rate(0, 0))) == (None, None, "-")


@given(st.integers(0, 500), st.integers(1, 500))
def test_an_interval_holds_its_rate(hits: int, more: int) -> None:
    rate = Rate(hits, hits + more)
    assert rate.interval is not None
    assert rate.percent is not None
    assert 0 <= rate.interval[0] <= rate.percent <= rate.interval[1] <= 100


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=50))
def test_a_spread_agrees_with_the_standard_library(values: list[float]) -> None:
    spread = Spread.of(values)
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    assert spread.n == len(values)
    assert spread.mean == pytest.approx(statistics.fmean(values))
    assert spread.p50 == pytest.approx(statistics.median(values))
    assert spread.p95 == pytest.approx(cuts[-1])
    assert quantile(sorted(values), 1.0) == max(values)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.42, "0.4 s"),
        (9, "9 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (185, "3 min 05 s"),
        (7800, "2 h 10 min"),
    ],
)
def test_times_read_as_people_say_them(seconds: float | None, text: str) -> None:
    assert time_text(seconds) == text


# --- counts and rates -------------------------------------------------------------------------------


def test_s4_a5_counts_and_rates_are_over_the_last_attempts() -> None:
    found = figures(
        failed("bd-1", latest=False, will_retry=True),
        attempt("bd-1", attempt=2),
        failed("bd-2"),
        attempt("bd-3", status="timeout", failure_reason="agent-timeout"),
        attempt("bd-4"),
    )
    counted = {key: found[key] for key in ("total_runs", "success", "failed", "timeout", "running")}
    assert counted == {"total_runs": 4, "success": 2, "failed": 1, "timeout": 1, "running": 0}
    assert (found["success_rate"], found["attempts"]["total"]) == (50.0, 5)


def test_s4_a5_what_runs_or_will_be_tried_again_is_in_no_rate() -> None:
    found = figures(
        attempt("bd-1"),
        attempt("bd-2", status="running", seconds=None),
        failed("bd-3", will_retry=True),
        failed("bd-4", will_retry=None, failure_reason="interrupted"),
        failed("bd-5", will_retry=False, failure_reason="agent-auth"),
    )
    assert (found["running"], found["waiting"], found["finished"]) == (1, 2, 2)
    assert found["success_rate"] == 50.0
    assert found["by_agent"][0]["count"] == 5


def test_s4_b1_a_failed_run_without_a_result_has_failed() -> None:
    assert figures(failed(will_retry=None))["failed"] == 1


def test_s4_a6_durations_are_told_per_agent_model_and_template() -> None:
    rows = [attempt(f"bd-{number}", seconds=100.0 * number) for number in range(1, 12)]
    rows += [attempt("bd-x", agent="codex", model="gpt-5.3-codex", template=None, seconds=7.0)]
    found = figures(*rows)
    claude, codex = found["by_agent"]
    assert (claude["agent"], claude["avg_duration"], claude["p50_duration"], claude["p95_duration"]) == (
        *("claude", 600.0, 600.0),
        1050.0,
    )
    assert (codex["agent"], codex["avg_duration"]) == ("codex", 7.0)
    assert [row["model"] for row in found["by_model"]] == ["gpt-5.3-codex", "sonnet"]
    assert [row["template"] for row in found["by_template"]] == ["custom", "feature"]
    assert found["avg_duration_seconds"] == pytest.approx((6600 + 7) / 12, abs=1e-3)


def test_a_duration_that_nobody_knows_is_in_no_mean() -> None:
    found = figures(attempt("bd-1", seconds=None), attempt("bd-2", seconds=10.0))
    assert (found["avg_duration_seconds"], found["durations"]["n"]) == (10.0, 1)
    assert figures(attempt(seconds=None))["avg_duration_seconds"] is None


def test_s4_a7_the_retry_rate_is_of_the_runs_that_needed_more_than_one_attempt() -> None:
    found = figures(attempt("bd-1"), attempt("bd-2", attempt=3), failed("bd-3", attempt=2), attempt("bd-4"))
    assert (found["retry_count"], found["retry_rate"]) == (2, 50.0)
    assert found["template_scores"]["feature"]["avg_retries"] == 0.75


def test_s4_a8_failure_reasons_are_ranked() -> None:
    rows = several(failed, 3, failure_reason="qa-failed")
    rows += several(failed, 2, "other", failure_reason=None)
    rows += [failed("repaired", latest=False, failure_reason="agent-crash"), attempt("repaired", attempt=2)]
    found = figures(*rows)
    assert found["failure_reasons"] == [
        {"reason": "qa-failed", "count": 3},
        {"reason": "gave up", "count": 2},
    ]
    assert {"reason": "agent-crash", "count": 1} in found["attempt_failure_reasons"]


@pytest.mark.parametrize(
    ("prompt", "title", "kind"),
    [
        ("Fix the parser", None, "fix"),
        ("fix: the parser", None, "fix"),
        ("Fixing things", None, "other"),
        ("You are a developer", "Review the parser", "review"),
        ("", None, "other"),
        (None, 7, "other"),
    ],
)
def test_task_types_are_told_by_their_first_word(prompt: str | None, title: Any, kind: str) -> None:
    (row,) = figures(attempt(prompt=prompt, extra={"title": title}))["task_types"]
    assert (row["task_type"], row["count"]) == (kind, 1)


@pytest.mark.parametrize(
    ("good", "bad", "confidence"),
    [(5, 0, "high"), (4, 0, "low"), (3, 2, "medium"), (5, 5, "low"), (7, 3, "medium")],
)
def test_s4_a9_a_template_is_scored(good: int, bad: int, confidence: str) -> None:
    found = figures(*several(attempt, good), *several(failed, bad, "bad"))["template_scores"]["feature"]
    assert (found["uses"], found["confidence"]) == (good + bad, confidence)


# --- time, money, verifiers -------------------------------------------------------------------------


def test_s4_a4_since_keeps_what_started_or_finished_then_or_later() -> None:
    day = timedelta(days=1)
    rows = [
        attempt("before", started_at=START - 3 * day),
        attempt("across", started_at=START - day, seconds=2 * day.total_seconds()),
        attempt("after", started_at=START + day),
        attempt("on", started_at=START, status="running"),
        attempt("never", started_at=None, finished_at=None),
    ]
    found = figures(*rows, since=START)
    assert (found["total_runs"], found["left_out"], found["bad_timestamps"]) == (3, 2, 1)


def test_bad_times_are_counted_and_cost_only_what_needs_them() -> None:
    found = figures(attempt("bd-1", started_at=None, finished_at=None, seconds=5.0), attempt("bd-2"))
    assert (found["bad_timestamps"], found["success"], found["trend"]["undated"]) == (1, 2, 1)


def test_the_trend_tells_quiet_days_too_and_turns_to_weeks() -> None:
    days = [START, START + timedelta(days=2)]
    trend = figures(*(attempt(f"bd-{n}", started_at=day) for n, day in enumerate(days)))["trend"]
    assert (trend["by"], [row["runs"] for row in trend["rows"]]) == ("day", [1, 0, 1])
    assert trend["rows"][1]["success_rate"] is None
    days += [START + timedelta(days=60)]
    trend = figures(*(attempt(f"bd-{n}", started_at=day) for n, day in enumerate(days)))["trend"]
    assert (trend["by"], trend["rows"][0]) == (
        "week",
        {
            "start": "2026-02-09",
            "runs": 2,
            "success": 2,
            "failed": 0,
            "timeout": 0,
            "success_rate": 100.0,
            "cost_usd": None,
            "cost_per_closed_usd": None,
        },
    )


def test_cost_and_tokens_count_every_attempt_and_say_how_many_are_silent() -> None:
    usage = {"cost_usd": 0.5, "input_tokens": 100, "output_tokens": 10}
    found = figures(
        failed("bd-1", latest=False, extra={"usage": usage}),
        attempt("bd-1", attempt=2, extra={"usage": usage}),
        attempt("bd-2", extra={"usage": {"cost_usd": None}}),
        attempt("bd-3"),
    )
    assert (found["cost_usd"]["total"], found["cost_usd"]["attempts_without"]) == (1.0, 2)
    assert found["tokens"] == {"input": 200, "output": 20, "cache": None, "attempts_without": 2}


def test_a_verifier_is_flaky_where_it_says_both_of_one_commit() -> None:
    found = figures(
        failed("bd-1", latest=False, extra={"checks": [check("fail"), check("pass", name="lint")]}),
        attempt("bd-1", attempt=2, extra={"checks": [check("pass"), check("pass", name="lint")]}),
        failed("bd-2", latest=False, extra={"checks": [check("fail", "before")]}),
        attempt("bd-2", attempt=2, extra={"checks": [check("pass", "after")]}),
        failed("bd-3", extra={"checks": [check("fail", None), check("pass", None)]}),
    )
    lint, tests = found["verifiers"]
    assert (lint["verifier"], lint["commits_repeated"], lint["commits_flaky"]) == ("lint", 1, 0)
    assert (tests["runs"], tests["red"], tests["commits_repeated"], tests["commits_flaky"]) == (6, 3, 1, 1)
    assert tests["beads"] == ["bd-1"]


def test_where_work_lies_that_nobody_committed_no_verifier_is_called_flaky() -> None:
    """`exec` works in a repository whose HEAD stays: red, then green after real edits."""
    extra = [{"source": "exec", "checks": [check(ruling)]} for ruling in ("fail", "pass")]
    found = figures(failed(latest=False, extra=extra[0]), attempt(attempt=2, extra=extra[1]))
    (seen,) = found["verifiers"]
    assert (seen["runs"], seen["red"], seen["commits_repeated"], seen["commits_flaky"]) == (2, 1, 0, 0)


def test_one_absurd_duration_moves_no_figure_that_is_shown() -> None:
    rows = [attempt(f"bd-{n}", seconds=300.0) for n in range(9)]
    plain, odd = (figures(*rows, attempt("odd", seconds=seconds)) for seconds in (300.0, 3e9))
    for found in (plain, odd):
        assert found["account"]["seconds_per_closed"] == 300.0
        assert [found["account"]["seconds"][key] for key in ("p25", "p50", "p75")] == [300.0] * 3


@pytest.mark.parametrize("name", ["bd-1 (copy).json", "bd-1.attempt-1.json", "old-bd-1.json"])
def test_copies_of_a_record_count_once(tmp_path: Path, name: str) -> None:
    (tmp_path / "runs").mkdir()
    usage = {"usage": {"cost_usd": 1.0}}
    for file in ("bd-1.json", name):
        text = json.dumps(samples.run(bead="bd-1", extra=usage))
        (tmp_path / "runs" / file).write_text(text, encoding="utf-8")
    found = tallied(read_all(tmp_path)).to_json()
    assert (found["total_runs"], found["attempts"]["total"], found["cost_usd"]["total"]) == (1, 1, 1.0)


# --- laws -------------------------------------------------------------------------------------------

ATTEMPTS = st.builds(
    attempt,
    bead=st.sampled_from(["a", "b", "c", "d"]),
    attempt=st.integers(1, 4),
    status=st.sampled_from(["running", "done", "failed", "timeout"]),
    agent=st.sampled_from(["claude", "codex"]),
    model=st.none() | st.sampled_from(["sonnet", "opus"]),
    template=st.none() | st.sampled_from(["docs", "feature"]),
    seconds=st.none() | st.floats(0, 1e6),
    failure_reason=st.none() | st.sampled_from(["qa-failed", "interrupted"]),
    will_retry=st.none() | st.booleans(),
    latest=st.booleans(),
    started_at=st.none() | st.datetimes(timezones=st.just(UTC)).filter(lambda m: 2 < m.year < 9000),
    extra=st.builds(
        dict,
        parallel=st.integers(0, 4),
        role=st.sampled_from(["dev", "merge", None]),
        usage=st.builds(dict, cost_usd=st.integers(0, 100), input_tokens=st.integers(0, 9)),
        checks=st.lists(st.builds(check, st.sampled_from(["pass", "fail"]))),
    ),
)


@given(st.lists(ATTEMPTS, max_size=30))
def test_the_figures_add_up(rows: list[Attempt]) -> None:
    found = figures(*rows)
    assert found["finished"] == found["success"] + found["failed"] + found["timeout"]
    assert found["total_runs"] == found["finished"] + found["running"] + found["waiting"]
    assert found["total_runs"] == sum(row.latest for row in rows)
    assert found["attempts"]["total"] == len(rows)
    for name in ("by_agent", "by_model", "by_template", "by_kind", "task_types"):
        for key in ("count", "success", "failed", "timeout", "running", "waiting", "retry_count"):
            whole = {"count": "total_runs"}.get(key, key)
            assert sum(row[key] for row in found[name]) == found[whole], (name, key)
    assert sum(row["count"] for row in found["failure_reasons"]) == found["failed"] + found["timeout"]
    trend = found["trend"]
    assert sum(row["runs"] for row in trend["rows"]) + trend["undated"] == found["finished"]
    assert found["cost_usd"]["n"] + found["cost_usd"]["attempts_without"] == len(rows)


def test_money_is_told_by_the_day_it_was_spent_on_failures_included() -> None:
    later = START + timedelta(days=2)
    usage = {"usage": {"cost_usd": 0.5}}
    rows = [
        attempt("bd-a", extra=usage),
        failed("bd-b", extra=usage, started_at=START),
        attempt("bd-c", extra=usage, started_at=later, finished_at=later),
        attempt("bd-d", extra={}, started_at=later, finished_at=later),
    ]
    told = [(row["cost_usd"], row["cost_per_closed_usd"]) for row in figures(*rows)["trend"]["rows"]]
    assert told == [(1.0, 1.0), (None, None), (0.5, 0.25)]


SUMS = ("attempts", "ended", "first_attempts", "first_passed", "closed")


@given(st.lists(ATTEMPTS, max_size=30))
def test_every_attempt_is_charged_to_exactly_one_of_each_group(rows: list[Attempt]) -> None:
    found = figures(*rows)
    whole = found["account"]
    assert whole["attempts"] == len(rows)
    assert whole["closed"] == sum(row.status == "done" for row in rows)
    assert whole["beads"] == len({row.bead for row in rows})
    assert (whole["cost_usd"]["total"] or 0.0) == pytest.approx(
        sum(row.extra["usage"]["cost_usd"] for row in rows)
    )
    for name in ("by_agent", "by_model", "by_template", "by_kind", "by_role", "task_types"):
        groups = [row["account"] for row in found[name]]
        for key in SUMS:
            assert sum(group[key] for group in groups) == whole[key], (name, key)
        for key in ("cost_usd", "seconds"):
            total = sum(group[key]["total"] or 0.0 for group in groups)
            assert total == pytest.approx(whole[key]["total"] or 0.0, abs=0.01), (name, key)
        assert sum(group["tokens"]["input"] or 0 for group in groups) == (whole["tokens"]["input"] or 0)
        assert max([group["beads"] for group in groups], default=0) <= whole["beads"]
        assert sum(group["beads"] for group in groups) >= whole["beads"]


@given(st.lists(ATTEMPTS, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_the_records_changes_no_figure(rows: list[Attempt], chance: Any) -> None:
    other = list(rows)
    chance.shuffle(other)
    one, two = (figures(*given_) for given_ in (rows, other))
    for found in (one, two):
        for seen in found["verifiers"]:
            seen["beads"] = []  # whoever came second is named
    assert one == two


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(samples.RUNS, st.none() | samples.RESULTS), max_size=5))
def test_any_valid_record_survives_the_analysis(tmp_path_factory: Any, rows: Any) -> None:
    state: Path = tmp_path_factory.mktemp("state")
    for number, (run, result) in enumerate(rows):
        for folder, raw in (("runs", run), ("results", result)):
            (state / folder).mkdir(exist_ok=True)
            if raw is not None:
                path = state / folder / f"bd-{number}.json"
                path.write_text(json.dumps(raw | {"bead": f"bd-{number}"}), encoding="utf-8")
    tally = tallied(read_all(state), stretches=True)
    found = tally.to_json()
    assert found["total_runs"] == len(rows)
    assert all(
        not math.isnan(row["avg_duration"]) for row in found["by_agent"] if row["avg_duration"] is not None
    )
    json.dumps(found, allow_nan=False)
    pieces = advice(tally)
    assert pieces
    page = html(AnalysisSubject(tally, pieces, START))
    assert page.count("<figure") == page.count("</figure>")


@settings(max_examples=examples(60))
@given(
    st.dictionaries(
        st.sampled_from(["run_id", "kind", "parallel", "usage", "checks", "title"]), samples.ANYTHING
    )
)
def test_nothing_in_extra_is_fatal(extra: dict[str, Any]) -> None:
    tally = tallied([attempt(extra=extra)], stretches=True)
    json.dumps(tally.to_json(), allow_nan=False)
    assert html(AnalysisSubject(tally, advice(tally), START))

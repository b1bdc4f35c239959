"""Advice by the rules of the seed and beyond: at their thresholds, each with what it rests on."""

from __future__ import annotations

from typing import Any

import pytest

from beads_ralph.journal.records import Attempt
from beads_ralph.report import tallied
from beads_ralph.report.advice import Advice, advice
from tests.report.made import attempt, check, failed, several


def given(*rows: Attempt) -> dict[str, list[Advice]]:
    found: dict[str, list[Advice]] = {}
    for piece in advice(tallied(rows)):
        found.setdefault(piece.rule, []).append(piece)
    return found


@pytest.mark.parametrize(
    ("good", "bad", "said"), [(1, 1, False), (2, 1, True), (7, 3, False), (69, 31, True), (0, 3, True)]
)
def test_s4_a9_a_success_rate_below_70_percent_is_told_from_three_runs_on(
    good: int, bad: int, said: bool
) -> None:
    found = given(*several(attempt, good, "good"), *several(failed, bad, "bad"))
    assert ("success-rate" in found) is said
    if said:
        (piece,) = found["success-rate"]
        assert (piece.runs, piece.evidence["success"]) == (good + bad, good)
        assert str(good + bad) in piece.text


@pytest.mark.parametrize(
    ("again", "once", "said"), [(1, 1, False), (1, 2, True), (3, 7, False), (31, 69, True)]
)
def test_s4_a9_a_retry_rate_above_30_percent_is_told(again: int, once: int, said: bool) -> None:
    found = given(*several(attempt, again, "again", attempt=2), *several(attempt, once, "once"))
    assert ("retry-rate" in found) is said


def test_s4_a9_every_weak_agent_is_told_by_itself() -> None:
    rows = [
        *several(failed, 2, "a", agent="codex"),
        *several(failed, 2, "b", agent="gemini"),
        *several(attempt, 9, "c"),
        failed("d", agent="goose"),
        *several(attempt, 3, "e", agent="opencode"),
        *several(failed, 2, "f", agent="opencode"),
    ]
    pieces = given(*rows)["agent-success"]
    assert [(piece.evidence["agent"], piece.runs) for piece in pieces] == [("codex", 2), ("gemini", 2)]


def test_s4_a9_without_a_weak_agent_the_other_advice_is_kept() -> None:
    """Upstream lost all of it then."""
    found = given(*several(attempt, 7), *several(failed, 3, "bad", failure_reason="qa-failed"))
    assert "agent-success" not in found
    (piece,) = found["common-failure"]
    assert (piece.evidence["reason"], piece.evidence["count"], piece.runs) == ("qa-failed", 3, 3)


def test_s4_a9_all_within_range_is_said_only_where_nothing_else_is() -> None:
    (piece,) = advice(tallied(several(attempt, 10)))
    assert (piece.rule, piece.runs) == ("all-within-range", 10)
    (piece,) = advice(tallied([]))
    assert (piece.rule, piece.runs) == ("all-within-range", 0)


@pytest.mark.parametrize(("bad", "said"), [(4, False), (5, True)])
def test_s4_a9_a_template_needs_five_runs_before_it_is_judged(bad: int, said: bool) -> None:
    found = given(*several(failed, bad, template="docs"))
    assert ("template-avoid" in found) is said


def runs_of(model: str, good: int, bad: int, cost: float = 1.0) -> list[Attempt]:
    said: dict[str, Any] = {
        "model": model,
        "template": None,
        "extra": {"kind": "work", "usage": {"cost_usd": cost}},
    }
    return [*several(attempt, good, f"{model}-good", **said), *several(failed, bad, f"{model}-bad", **said)]


def test_the_model_that_does_better_is_named_for_its_kind_of_bead() -> None:
    (piece,) = given(*runs_of("opus", 19, 1), *runs_of("haiku", 8, 12))["model-per-kind"]
    assert (piece.evidence["model"], piece.evidence["kind"], piece.runs) == ("opus", "work", 40)
    assert piece.evidence["models"]["haiku"]["success"] == 8


def test_a_difference_that_may_be_chance_is_no_advice() -> None:
    assert "model-per-kind" not in given(*runs_of("opus", 5, 1), *runs_of("haiku", 4, 2))
    assert "model-per-kind" not in given(*runs_of("opus", 3, 0), *runs_of("haiku", 0, 3))


def test_of_two_models_alike_the_cheaper_one_is_named() -> None:
    (piece,) = given(*runs_of("opus", 9, 1, 2.0), *runs_of("haiku", 9, 1, 0.5))["model-per-kind"]
    assert piece.evidence["model"] == "haiku"


def at_once(parallel: int, count: int, seconds: float) -> list[Attempt]:
    return several(attempt, count, f"p{parallel}", seconds=seconds, extra={"parallel": parallel})


def test_the_best_parallelism_is_what_proves_most_beads_an_hour() -> None:
    rows = [*at_once(1, 9, 100.0), *at_once(4, 4, 150.0), *at_once(8, 4, 900.0), *at_once(16, 3, 1.0)]
    (piece,) = given(*rows)["parallelism"]
    assert piece.evidence["max_parallel"] == 4
    assert piece.evidence["beads_per_hour"] == {"1": 36.0, "4": 96.0, "8": 32.0}
    assert piece.runs == 17


def test_where_more_at_once_prove_more_nothing_is_said() -> None:
    """A plan may have had no more ready; that is no reason to allow fewer."""
    assert "parallelism" not in given(*at_once(1, 9, 100.0), *at_once(2, 5, 100.0), *at_once(4, 3, 900.0))


def test_beads_that_were_too_much_are_named() -> None:
    rows = [
        *several(attempt, 20, "small"),
        attempt("endless", status="timeout", failure_reason="agent-timeout"),
        attempt("stubborn", attempt=3),
        attempt("long", seconds=6000.0),
    ]
    (piece,) = given(*rows)["split-beads"]
    assert {row["bead"] for row in piece.evidence["beads"]} == {"endless", "stubborn", "long"}
    assert piece.runs == 23


def test_a_flaky_verifier_is_named_when_it_ran_often_enough() -> None:
    def rows(count: int) -> list[Attempt]:
        checks = [check("fail"), *(check("pass") for _ in range(count - 1))]
        return [attempt(extra={"checks": checks})]

    assert "flaky-verifier" not in given(*rows(3))
    (piece,) = given(*rows(4))["flaky-verifier"]
    assert (piece.evidence["verifier"], piece.runs, piece.evidence["commits_flaky"]) == ("unit tests", 4, 1)

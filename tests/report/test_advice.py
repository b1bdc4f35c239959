"""Advice by the rules of the seed and beyond: at their thresholds, each with what it rests on."""

from __future__ import annotations

import math
from random import Random
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
    assert piece.evidence["models"]["haiku"]["first_passed"] == 8
    assert piece.confidence is not None
    assert piece.confidence >= 95
    assert len(piece.beads) == 40
    assert piece.follow == "agent_defaults.default_model: opus"


def test_a_difference_that_may_be_chance_is_no_advice_but_says_how_many_runs_are_missing() -> None:
    found = given(*runs_of("opus", 5, 1), *runs_of("haiku", 3, 3))
    assert "model-per-kind" not in found
    (piece,) = found["more-data"]
    assert 10 < piece.evidence["more_runs"] < 200
    assert f"about {piece.evidence['more_runs']} more runs with each" in piece.text
    assert "model-per-kind" not in given(*runs_of("opus", 3, 0), *runs_of("haiku", 0, 3))


def test_models_that_are_alike_are_left_alone() -> None:
    found = given(*runs_of("opus", 19, 1), *runs_of("haiku", 19, 1))
    assert set(found) == {"common-failure"}


def test_of_two_models_alike_the_cheaper_one_is_named() -> None:
    (piece,) = given(*runs_of("opus", 9, 1, 2.0), *runs_of("haiku", 9, 1, 0.5))["model-per-kind"]
    assert (piece.evidence["model"], piece.evidence["better_by"]) == ("haiku", ["cost"])


def tried(bead: str, *models: str, prices: dict[str, float]) -> list[Attempt]:
    """Attempts one after the other by these models; the last one passes."""
    rows = []
    for number, model in enumerate(models, 1):
        last = number == len(models)
        said: dict[str, Any] = {"attempt": number, "model": model, "template": None, "latest": last}
        extra = {"kind": "work", "usage": {"cost_usd": prices[model]}}
        rows.append((attempt if last else failed)(bead, extra=extra, will_retry=not last, **said))
    return rows


def test_a_cheap_attempt_that_must_be_made_three_times_is_not_cheap() -> None:
    """$0.60 three times against $1.00 once: all of the $28 are charged."""
    prices = {"A": 0.6, "B": 1.0}
    rows = [row for n in range(10) for row in tried(f"a-{n}", "A", "A", "A", prices=prices)]
    rows += [row for n in range(10) for row in tried(f"b-{n}", "B", prices=prices)]
    (piece,) = given(*rows)["model-per-kind"]
    costs = {name: row["cost_per_closed_usd"] for name, row in piece.evidence["models"].items()}
    assert (piece.evidence["model"], costs) == ("B", {"A": 1.8, "B": 1.0})
    assert "$1.00" in piece.text
    assert "$1.80" in piece.text
    groups = {row["model"]: row["account"] for row in tallied(rows).to_json()["by_model"]}
    assert {name: row["cost_usd"]["total"] for name, row in groups.items()} == {"A": 18.0, "B": 10.0}
    assert [groups["A"][key] for key in ("attempts_per_closed", "cost_per_closed_usd")] == [3.0, 1.8]


def test_what_another_model_makes_good_is_no_success_of_the_first() -> None:
    """A fails ten first attempts, which B repairs, and passes four others: 4 of 14, and no word for A."""
    prices = {"A": 0.5, "B": 0.5}
    rows = [row for n in range(10) for row in tried(f"both-{n}", "A", "B", prices=prices)]
    rows += [row for n in range(4) for row in tried(f"easy-{n}", "A", prices=prices)]
    found = given(*rows)
    assert "model-per-kind" not in found
    a, b = (row["account"] for row in tallied(rows).to_json()["by_model"])
    assert (a["first_passed"], a["first_attempts"], a["attempts_per_closed"]) == (4, 14, 3.5)
    assert (b["first_attempts"], b["closed"], b["beads"]) == (0, 10, 10)


def test_kinds_that_no_record_tells_are_called_that() -> None:
    rows = [
        *several(attempt, 20, "a", model="opus", template=None),
        *several(failed, 20, "b", model="haiku", template=None),
    ]
    (piece,) = given(*rows)["model-per-kind"]
    assert piece.text.startswith("For beads whose kind no record tells use opus")


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


def repeated(bead: str, times: int, **said: Any) -> list[Attempt]:
    """Attempts that all ended like this; there is no further one."""
    return [
        failed(bead, attempt=n, latest=n == times, will_retry=n < times, **said) for n in range(1, times + 1)
    ]


def test_beads_that_were_too_much_are_named() -> None:
    rows = [
        *several(attempt, 90, "small"),
        *repeated("endless", 3, status="timeout", failure_reason="agent-timeout"),
        *repeated("stubborn", 3, failure_reason="qa-failed"),
        attempt("long", seconds=6000.0),
    ]
    (piece,) = given(*rows)["split-beads"]
    assert set(piece.beads) == {"endless", "stubborn", "long"}
    assert piece.runs == 93
    assert piece.confidence is not None
    assert piece.confidence >= 95


def test_of_many_beads_that_are_all_alike_none_is_to_be_cut() -> None:
    """Chance alone makes some need three attempts, and some take long."""
    chance = Random(3)
    named = 0
    for _ in range(20):
        rows = []
        for bead in range(200):
            for number in (1, 2, 3):
                seconds, passed = 300 * math.exp(chance.gauss(0, 0.7)), chance.random() < 0.7
                last = passed or number == 3
                said: dict[str, Any] = {"attempt": number, "seconds": seconds, "latest": last}
                rows.append((attempt if passed else failed)(f"bd-{bead}", will_retry=not last, **said))
                if last:
                    break
        named += "split-beads" in given(*rows)
    assert named <= 1


def test_a_flaky_verifier_is_named_when_it_ran_often_enough() -> None:
    def rows(count: int) -> list[Attempt]:
        checks = [check("fail"), *(check("pass") for _ in range(count - 1))]
        return [attempt(extra={"checks": checks})]

    assert "flaky-verifier" not in given(*rows(3))
    (piece,) = given(*rows(4))["flaky-verifier"]
    assert (piece.evidence["verifier"], piece.runs, piece.evidence["commits_flaky"]) == ("unit tests", 4, 1)

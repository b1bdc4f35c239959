"""The forecast rehearses the loop's own rules with the attempts of the past."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.journal.records import Attempt
from beads_ralph.report.forecast import ForecastSprint, forecast
from beads_ralph.report.past import DEFAULT_MEDIAN, AttemptPool, History, Likeness, RunDraw
from beads_ralph.report.posterior import Amounts
from bench.backtests import coverage
from tests.report.made import attempt, failed, several

LIKE = Likeness("work", "claude", "sonnet")
WORK = {"kind": "work"}


def sprint(
    name: str, branch: str = "", likeness: Likeness = LIKE, most: int = 3, priority: int = 1
) -> ForecastSprint:
    return ForecastSprint(name, branch or name, likeness, most, priority)


class Known(AttemptPool):
    """A pool whose truth is known."""

    def __init__(self, truth: RunDraw) -> None:
        super().__init__()
        self.truth = truth
        self.likeness = LIKE

    @property
    def middle_seconds(self) -> float:
        return math.exp(self.truth.times.middle)

    def draw(self, run: float, chance: Random) -> RunDraw:
        return self.truth


class Steady(History):
    """Every attempt takes exactly as long and costs as much; first and later ones pass at these rates."""

    def __init__(self, cost: float | None = None, first: float = 1.0, later: float = 1.0) -> None:
        super().__init__()
        price = None if cost is None else Amounts(math.log(cost), 0.0, 0.0)
        self.known = Known(RunDraw(Amounts(math.log(100.0), 0.0, 0.0), price, 1.0, first, later))

    def pool(self, likeness: Likeness) -> AttemptPool:
        return self.known


def near(value: float) -> object:
    return pytest.approx(value)


def expected(
    edges: dict[str, Sequence[str]], parallel: int, history: History | None = None, **branches: str
) -> float:
    sprints = [sprint(name, branches.get(name, "")) for name in edges]
    return forecast(sprints, edges, history or Steady(), parallel).seconds.p50


def test_what_always_takes_as_long_is_forecast_exactly() -> None:
    chain: dict[str, Sequence[str]] = {"1": [], "2": ["1"], "3": ["2"]}
    assert expected(chain, 8) == near(300.0)
    assert expected({"a": [], "b": [], "c": [], "d": []}, 4) == near(100.0)
    assert expected({"a": [], "b": [], "c": [], "d": []}, 3) == near(200.0)
    assert expected({"a": [], "b": [], "c": [], "d": []}, 1) == near(400.0)


def test_beads_on_one_branch_follow_one_another() -> None:
    assert expected({"a": [], "b": [], "c": []}, 3, a="same", b="same") == near(200.0)


def test_beads_of_one_team_follow_one_another() -> None:
    sprints = [sprint(name)._replace(team=team) for name, team in zip("abcd", "xyxx", strict=True)]
    edges: dict[str, Sequence[str]] = {name: [] for name in "abcd"}
    assert forecast(sprints, edges, Steady(), 4).seconds.p50 == near(300.0)


def test_the_longest_chain_comes_first_as_in_the_loop() -> None:
    edges: dict[str, Sequence[str]] = {"x": [], "y": [], "1": [], "2": ["1"], "3": ["2"]}
    assert expected(edges, 2) == near(300.0)  # x and y fill the second place meanwhile


def test_priority_comes_before_the_longest_chain() -> None:
    edges: dict[str, Sequence[str]] = {"low": [], "after": ["low"], "high": []}
    sprints = [sprint("low"), sprint("after"), sprint("high", priority=0)]
    assert forecast(sprints, edges, Steady(), 1).seconds.p50 == near(300.0)


def test_what_is_at_work_already_is_as_far_along_as_it_is() -> None:
    edges: dict[str, Sequence[str]] = {"begun": [], "after": ["begun"], "new": []}
    sprints = [sprint("begun")._replace(elapsed=60.0), sprint("after"), sprint("new", priority=0)]
    assert forecast(sprints, edges, Steady(), 2).seconds.p50 == near(140.0)
    assert forecast(sprints, edges, Steady(), 1).seconds.p50 == near(240.0)  # it goes on before others begin
    late = [sprint("begun")._replace(elapsed=1e6)]
    assert forecast(late, {"begun": []}, Steady(), 1).seconds.p50 == 0.0


def test_retries_take_their_time_and_their_money() -> None:
    found = forecast([sprint("1")], {"1": []}, Steady(cost=1.5, first=0.0), 1)
    assert (found.seconds.p10, found.seconds.p90) == (near(200.0), near(200.0))
    assert found.cost is not None
    assert (found.cost.p50, found.attempts.p50, found.all_closed_percent) == (near(3.0), 2.0, 100.0)


def test_attempts_that_are_over_are_not_rehearsed_again() -> None:
    begun = sprint("1")._replace(begun=1)
    found = forecast([begun], {"1": []}, Steady(first=0.0), 1)
    assert (found.seconds.p50, found.attempts.p50) == (near(100.0), 1.0)
    hopeless = Steady(first=0.0, later=0.0)
    assert forecast([begun], {"1": []}, hopeless, 1).attempts.p50 == 2.0, "of three, one is over"


def test_how_many_are_at_work_at_once_is_what_the_plan_allows() -> None:
    chain: dict[str, Sequence[str]] = {"1": [], "2": ["1"], "x": []}
    found = forecast([sprint(name) for name in chain], chain, Steady(), 8)
    assert found.parallelism == near(1.5)


def test_where_nothing_is_left_it_takes_no_time_and_costs_nothing() -> None:
    found = forecast([], {}, History(), 4, closed=3)
    assert (found.seconds, found.cost, found.all_closed_percent) == ((0, 0, 0), (0, 0, 0), 100.0)
    assert (found.to_json()["sprints"], found.to_json()["closed"]) == (3, 3)


def test_used_up_attempts_are_told_and_hold_nobody_up() -> None:
    edges: dict[str, Sequence[str]] = {"1": [], "2": ["1"]}
    found = forecast([sprint("1", most=2), sprint("2")], edges, Steady(first=0.0, later=0.0), 1)
    assert found.all_closed_percent == 0.0
    assert found.seconds.p50 == near(500.0)


def test_six_green_attempts_of_the_same_length_are_no_certainty() -> None:
    edges: dict[str, Sequence[str]] = {str(number): [] for number in range(12)}
    history = History.of(several(attempt, 6, seconds=60.0, extra=WORK))
    found = forecast([sprint(name) for name in edges], edges, history, 1)
    assert found.attempts.p10 < found.attempts.p90
    assert found.attempts.p90 > 12
    assert found.seconds.p10 < 12 * 60 < found.seconds.p90
    assert found.all_closed_percent < 100


def test_more_of_the_past_leaves_less_open() -> None:
    def width(count: int) -> float:
        rows = [
            attempt(
                f"bd-{n}",
                seconds=100 * math.exp(0.3 * ((n * 7) % 5 - 2)),
                extra=WORK | {"run_id": f"r{n // 5}"},
            )
            for n in range(count)
        ]
        found = forecast([sprint("1"), sprint("2")], {"1": [], "2": ["1"]}, History.of(rows), 1).seconds
        return found.p90 / found.p10

    assert width(5) > width(40) > width(400)


def test_one_absurd_duration_is_taken_for_a_wrong_clock() -> None:
    rows = several(attempt, 30, seconds=100.0, extra=WORK)
    odd = [*rows, attempt("odd", seconds=3e9, extra=WORK)]
    plain, other = (
        forecast([sprint("1")], {"1": []}, History.of(given_), 1).seconds for given_ in (rows, odd)
    )
    assert other.p50 < 1.5 * plain.p50


@pytest.mark.parametrize("differs", [False, True])
def test_eight_of_ten_plans_end_within_their_range(differs: bool) -> None:
    """A small part of the backtest of `bench/`, which the docs have the figures of."""
    assert 65 <= coverage(30, 30, Random(4), differs=differs) <= 100


def test_without_history_it_says_so_and_names_its_defaults() -> None:
    found = forecast([sprint("1")], {"1": []}, History(), 1)
    data = found.to_json()
    assert data["defaults_used"] == ["1"]
    assert (data["cost_usd"], data["history"]["attempts"]) == (None, 0)
    assert data["defaults"]["attempt_seconds_median"] == DEFAULT_MEDIAN
    assert data["seconds"]["p10"] < data["seconds"]["p50"] < data["seconds"]["p90"]


def test_too_little_history_is_none() -> None:
    assert forecast([sprint("1")], {"1": []}, History.of(several(attempt, 4)), 1).unknown == ["1"]
    assert forecast([sprint("1")], {"1": []}, History.of(several(attempt, 5)), 1).unknown == []


def pool_of(rows: list[Attempt], likeness: Likeness = LIKE) -> str:
    return str(History.of(rows).pool(likeness).likeness)


def test_the_most_alike_attempts_are_drawn_from() -> None:
    mine = several(attempt, 5, "m", extra=WORK)
    other = several(attempt, 5, "o", model="opus", extra=WORK)
    merges = several(attempt, 5, "g", agent="git", model="none", extra={"kind": "merge"})
    assert pool_of([*mine, *other, *merges]) == "kind work, agent claude, model sonnet"
    assert pool_of([*mine[:2], *other, *merges]) == "kind work, agent claude"
    assert pool_of([*merges, *other], Likeness("merge", "claude", "sonnet")) == "kind merge"
    assert pool_of(several(attempt, 5, "foreign")) == "agent claude, model sonnet"
    assert pool_of(merges) == "all attempts"


def test_what_was_cut_off_or_still_runs_is_no_history() -> None:
    rows = [
        failed("a", failure_reason="interrupted"),
        attempt("b", status="running"),
        attempt("c", seconds=None),
    ]
    assert History.of(rows).attempts == 0


def test_the_same_plan_and_history_give_the_same_answer() -> None:
    edges: dict[str, Sequence[str]] = {"1": [], "2": ["1"]}
    rows = [attempt(f"bd-{n}", seconds=float(n), extra=WORK) for n in range(1, 40)]
    one, two = (forecast([sprint("1"), sprint("2")], edges, History.of(rows), 2).to_json() for _ in range(2))
    assert one == two


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    names = [str(number) for number in range(draw(st.integers(1, 12)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:at]), unique=True, max_size=3)) if at else []
        for at, name in enumerate(names)
    }


@given(graphs(), st.integers(1, 5), st.lists(st.sampled_from("abc"), min_size=12, max_size=12))
def test_no_rehearsal_beats_the_longest_chain_or_the_hands_there_are(
    edges: dict[str, list[str]], parallel: int, branches: list[str]
) -> None:
    sprints = [sprint(name, branch) for name, branch in zip(edges, branches, strict=False)]
    found = forecast(sprints, edges, Steady(), parallel, rehearsals=3)
    busiest = max(branches[: len(edges)].count(branch) for branch in "abc")
    assert found.path_seconds == near(100.0 * len(found.path))
    least = max(found.path_seconds, 100.0 * busiest, 100.0 * len(edges) / parallel)
    assert least - 0.01 <= found.seconds.p50 <= 100.0 * len(edges) + 0.01
    assert found.attempts.p50 == len(edges)


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_plan_takes_no_time(count: int) -> None:
    names = [str(number) for number in range(count)]
    found = forecast([sprint(name) for name in names], {name: [] for name in names}, Steady(), 2)
    assert found.seconds.p50 == near(100.0 * count)

"""Comparisons are right: equals are told apart hardly ever, and what is apart is seen."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.report.better_model import preferences
from beads_ralph.report.comparing import chance_below, correction, fisher, fisher_least, permuted, runs_needed
from bench.simulated import equals, two


@pytest.mark.parametrize(
    ("table", "known"), [((3, 4, 1, 4), 0.485714), ((10, 10, 0, 10), 2 / 184756), ((8, 10, 1, 6), 0.034965)]
)
def test_fishers_test_agrees_with_published_values(table: tuple[int, int, int, int], known: float) -> None:
    assert fisher(*table) == pytest.approx(known, rel=1e-3)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_the_test_never_says_less_than_the_least_that_it_can(
    of: int, other: int, data: st.DataObject
) -> None:
    hits, more = data.draw(st.integers(0, of)), data.draw(st.integers(0, other))
    said = fisher(hits, of, more, other)
    assert fisher_least(of, other, hits + more) <= said * (1 + 1e-6)
    assert said == pytest.approx(fisher(more, other, hits, of))
    assert 0 < said <= 1


def test_only_tests_that_could_have_said_something_are_counted() -> None:
    assert correction([0.001, 0.5, 0.5, 0.04]) == 2
    assert correction([0.0001] * 7) == 7
    assert correction([0.9] * 7) == 1
    assert correction([]) == 1


def test_costs_that_are_the_same_are_not_apart_and_others_are() -> None:
    chance = Random(1)
    same = [(1.0, True)] * 10
    assert permuted(same, same, chance) == 1.0
    assert permuted(same, [(3.0, True)] * 10, chance) < 0.001
    assert permuted(same, [(1.0, False)] * 10, chance) < 0.001, "what was never closed was dear"
    assert permuted([(1.0, False)] * 5, [(2.0, False)] * 5, chance) == 1.0


@pytest.mark.parametrize(
    ("hits", "of", "known"), [(0, 0, 0.7), (0, 1, 0.91), (1, 1, 0.49), (3000, 6000, 1.0)]
)
def test_how_probable_a_rate_below_is(hits: int, of: int, known: float) -> None:
    assert chance_below(hits, of, 0.7) == pytest.approx(known, abs=1e-6)


def test_equal_models_are_called_better_in_at_most_one_analysis_of_twenty() -> None:
    """Over all kinds, with two to five models and four to fifty beads each."""
    chance, trials = Random(11), 150
    wrong = sum(any(found.won for found in preferences(equals(chance))) for _ in range(trials))
    assert wrong <= 0.05 * trials


def test_ninety_per_cent_are_told_from_sixty_with_as_many_runs_as_the_docs_say() -> None:
    """And about as many as it asks for itself."""
    chance, trials = Random(12), 80
    seen = [preferences(two(0.9, 0.6, 45, chance))[0].best for _ in range(trials)]
    assert seen.count("good") >= 0.75 * trials
    assert seen.count("bad") == 0
    assert 35 <= runs_needed(0.9, 0.6, 0.025) <= 50

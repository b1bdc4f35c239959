"""The one policy for trouble that may pass."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.errors import Code, RalphError
from beads_ralph.process.calls import Growth, Retry

SECONDS = st.floats(min_value=0, max_value=1e6, allow_nan=False)


class Flaky:
    """Fails so often, then answers; and counts."""

    def __init__(self, failures: int, code: Code = Code.DATABASE_TIMEOUT) -> None:
        self.failures, self.code, self.calls = failures, code, 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise RalphError(self.code, f"failure {self.calls}")
        return self.calls


def timed_out(error: RalphError) -> bool:
    return error.code == Code.DATABASE_TIMEOUT


@pytest.mark.parametrize(
    ("growth", "grown"),
    [("exponential", [1, 2, 4, 8, 16]), ("linear", [1, 2, 3, 4, 5]), ("constant", [1, 1, 1, 1, 1])],
)
def test_pauses_grow_as_they_are_told_to(growth: Growth, grown: list[float]) -> None:
    assert list(Retry(tries=6, first=1.0, growth=growth, jitter=0).pauses()) == grown


@given(SECONDS, st.integers(1, 10**9), st.floats(0, 1), SECONDS)
def test_a_pause_varies_within_its_jitter_and_no_pause_is_longer_than_the_longest(
    first: float, failures: int, jitter: float, longest: float
) -> None:
    plain = Retry(first=first, jitter=0, longest=longest).pause(failures)
    assert 0 <= plain <= longest
    varied = Retry(first=first, jitter=jitter, longest=longest).pause(failures)
    assert plain * (1 - jitter) * 0.999 <= varied <= plain * (1 + jitter) * 1.001


@given(SECONDS, st.sampled_from(["exponential", "linear", "constant"]))
def test_pauses_never_shrink_but_for_their_jitter(first: float, growth: Growth) -> None:
    pauses = Retry(tries=50, first=first, growth=growth, jitter=0, longest=300).pauses()
    assert all(one <= other for one, other in pairwise(pauses))


def test_two_who_met_do_not_pause_alike() -> None:
    assert len({Retry().pause(1) for _ in range(10)}) > 1


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_what_passes_is_tried_again_with_a_pause_before_each_further_try(failures: int) -> None:
    flaky, slept = Flaky(failures), list[float]()
    assert Retry(tries=4, first=1, jitter=0).call(flaky, timed_out, slept.append) == failures + 1
    assert slept == [1, 2, 4][:failures]


def test_the_last_error_is_raised_where_all_tries_fail() -> None:
    flaky, slept = Flaky(9), list[float]()
    with pytest.raises(RalphError, match="failure 3"):
        Retry(tries=3).call(flaky, timed_out, slept.append)
    assert (flaky.calls, len(slept)) == (3, 2)


def test_what_does_not_pass_is_not_tried_again() -> None:
    flaky, slept = Flaky(1, Code.CONFLICT), list[float]()
    with pytest.raises(RalphError, match="failure 1"):
        Retry().call(flaky, timed_out, slept.append)
    assert slept == []

"""What a call cost, told from what its session had cost before."""

from __future__ import annotations

from beads_ralph.bead.usage import Usage


def test_unknown_is_not_nothing() -> None:
    assert Usage() + Usage() == Usage()
    assert Usage(1, None, 3, None) + Usage(2, 5, None, None) == Usage(3, 5, 3, None)


def test_what_a_session_counted_before_is_taken_off() -> None:
    assert Usage(2100, 41, 600, 0.5) - Usage(1000, 20, None, None) == Usage(1100, 21, 600, 0.5)
    assert Usage() - Usage(1, 1, 1, 1.0) == Usage()


def test_a_count_that_went_down_was_begun_anew() -> None:
    assert Usage(input_tokens=10) - Usage(input_tokens=400) == Usage(input_tokens=10)

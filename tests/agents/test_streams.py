"""What the adapters of real CLIs share."""

from __future__ import annotations

import tracemalloc

import pytest

from beads_ralph.agents import streams
from beads_ralph.agents.protocol import Reply
from beads_ralph.process.jobs import Exit
from beads_ralph.session.agent_calls import problem_of


@pytest.mark.parametrize(
    ("ended", "trouble", "detail"),
    [
        (Exit(0), "unfinished", "it ended without saying that it had finished"),
        (Exit(0, stderr="warning\nEOF \n\n"), "unfinished", "EOF"),
        (Exit(1, stderr="a\nout of memory\n"), "", "out of memory"),
        (Exit(-9), "", ""),
    ],
)
def test_a_cli_that_ends_without_its_last_word_has_not_done_its_work(
    ended: Exit, trouble: str, detail: str
) -> None:
    found = streams.unfinished(ended)
    assert found == (trouble, detail)
    problem = problem_of(ended, Reply(trouble=found[0], detail=found[1]))
    assert problem
    assert detail in problem


def test_an_answer_that_cannot_be_read_is_no_problem_of_a_call_that_went_well() -> None:
    assert problem_of(Exit(0), Reply(trouble="unreadable", detail="bad JSON")) == ""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [7, 5000, streams.MAX_WORDS, 3 * streams.MAX_WORDS])
def test_the_last_words_are_kept_whole_however_small_their_pieces(size: int) -> None:
    said = "".join(map(str, range(800_000)))[: 2 * streams.MAX_WORDS] + "the end"
    assert len(said) > 2 * streams.MAX_WORDS
    words = streams.Words()
    tracemalloc.start()
    try:
        for start in range(0, len(said), size):
            words.add(said[start : start + size])
            words.add("")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert said.endswith(str(words))
    assert streams.MAX_WORDS <= len(str(words)) <= 2 * streams.MAX_WORDS + streams.BLOCK
    assert peak < 5 * streams.MAX_WORDS

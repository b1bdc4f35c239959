"""Which host may take a bead, and why one does not."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from beads_ralph import __version__
from beads_ralph.engine import refusal
from beads_ralph.engine.temporal.queues import own_queue, queue_of, queues_of
from tests.beads import make_bead

LABELS = ("fast", "gpu", "linux")


def test_a_host_polls_the_queue_of_every_bead_whose_labels_it_has() -> None:
    for size in range(len(LABELS) + 1):
        for asked in combinations(LABELS, size):
            queue = queue_of(
                "q", make_bead("bd-1", labels=["sprint-1", *(f"runs-on:{label}" for label in asked)])
            )
            for more in range(len(LABELS) + 1):
                for has in combinations(LABELS, more):
                    assert (queue in queues_of("q", has)) == set(asked).issubset(has)


def test_no_bead_is_in_the_queue_of_one_host() -> None:
    assert own_queue("q", "gpu") not in queues_of("q", LABELS)


def ticket(**said: object) -> dict[str, object]:
    return {"version": __version__, "programs": [["scripted"]], "variables": [], **said}


def test_a_host_with_everything_takes_it() -> None:
    assert refusal.why_not(ticket()) == ""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"version": "0.0.1"}, f"it has beads-ralph {__version__}, the run has 0.0.1"),
        ({"programs": [["scripted"], ["no-such-agent"]]}, "it lacks no-such-agent"),
        ({"variables": ["NO_SUCH_VARIABLE"]}, "it lacks the variables NO_SUCH_VARIABLE"),
    ],
)
def test_what_is_missing_is_named(said: dict[str, object], why: str) -> None:
    assert refusal.why_not(ticket(**said)) == why


def test_one_of_the_programs_that_may_play_an_agent_is_enough() -> None:
    assert refusal.why_not(ticket(programs=[["no-such-agent", "scripted"]])) == ""


def test_a_host_takes_nothing_where_its_disk_is_full(tmp_path: Path) -> None:
    assert refusal.shortage(tmp_path / "not" / "there" / "yet") == ""
    assert refusal.shortage(tmp_path, least=1 << 60) == "disk"

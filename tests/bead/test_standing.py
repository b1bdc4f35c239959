"""What a closed bead rests on: a verifier that passed on its commit, or a review alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.standing import standing, standing_text

COMMIT = "c0ffee" * 6
QA = {"name": "qa", "kind": "qa", "commit": COMMIT, "ruling": "pass", "command": "", "message": "fine"}
CHECK = {**QA, "name": "make test", "kind": "verifier"}


def state(*evidence: dict[str, Any], commit: str | None = COMMIT) -> dict[str, Any]:
    verdict = {"ruling": "pass", "message": "", "flags": [], "evidence": list(evidence)}
    return {"proven": {"commit": commit, "of": "x"}, "last_verdict": verdict}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, None),
        ({"proven": None, "last_verdict": None}, None),
        (state(CHECK, commit=None), None),
        (state(), "reviewed"),
        (state(QA), "reviewed"),
        (state({**QA, "kind": "merge"}, {**QA, "kind": "git"}), "reviewed"),
        (state({**CHECK, "ruling": "fail"}, QA), "reviewed"),
        (state({**CHECK, "commit": "deadbeef"}, QA), "reviewed"),
        ({"proven": {"commit": COMMIT}, "last_verdict": None}, "reviewed"),
        (state(QA, CHECK), "proven"),
    ],
)
def test_only_a_verifier_that_passed_on_the_commit_makes_a_proof(
    metadata: dict[str, Any], expected: str | None
) -> None:
    assert standing(metadata) == expected
    assert RunState.model_validate(metadata).standing == expected


ROWS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["verifier", "qa", "merge", "git", "of a later version"]),
        "ruling": st.sampled_from(["pass", "fail", "stop"]),
        "commit": st.sampled_from([COMMIT, "deadbeef"]),
    }
)


@given(rows=st.lists(ROWS, max_size=4))
def test_reviews_never_add_up_to_a_proof(rows: list[dict[str, Any]]) -> None:
    reviews = [row for row in rows if row["kind"] != "verifier"]
    assert standing(state(*reviews)) == "reviewed"
    assert standing(state(*rows, {**CHECK})) == "proven"


def test_people_are_told_what_a_close_rests_on() -> None:
    assert standing_text("proven", COMMIT) == f"proven on {COMMIT[:12]}"
    assert standing_text("reviewed", COMMIT) == f"reviewed on {COMMIT[:12]}, no verifier ran"

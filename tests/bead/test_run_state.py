"""The run state: lenient about what is missing, strict about what is wrong, spelled in one place."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from beads_ralph.bead.healing import healed
from beads_ralph.bead.run_state import KEYS, UNTOUCHED, ParkedUntil, RunState
from tests.bead.samples import PROJECT

ROW = {"attempt": 2, "agent_path": "claude", "started_at": "2026-11-01T10:00:00Z", "status": "completed"}
WHOLE: dict[str, Any] = {
    "attempt_count": 2,
    "attempts_forgiven": 1,
    "dev_agent_executions": [ROW],
    "qa_agent_executions": [{**ROW, "status": "pass", "message": "fine", "details": {"a": [1]}, "mine": 1}],
    "last_verdict": {"ruling": "fail", "message": "no", "flags": [], "evidence": [{"name": "t", "new": 1}]},
    "proven": {"commit": "c", "of": "h"},
    "red_before": {"make test": True},
    "tests_before": {"make test": {"pytest": {"ran": 57, "failed": 2, "skipped": 0, "reported": True}}},
    "read_by_checks": ["limits.csv"],
    "spent": {"input_tokens": 3, "cost_usd": 1, "seconds": 4},
    "parked": {"until": "2026-11-01T10:00:00Z", "reason": "limit", "programs": {"claude": "2026-11-01"}},
    "interruptions": [{"run_id": "r", "attempt": 1}],
    "gate_override": {"by": "me", "at": "now", "reason": "hurry"},
}


def test_reading_and_writing_changes_nothing() -> None:
    state = RunState.model_validate(WHOLE)
    assert state.to_metadata() == WHOLE
    assert RunState.model_validate(json.loads(json.dumps(state.to_metadata()))) == state


def test_only_what_is_set_is_written() -> None:
    assert RunState().to_metadata() == {}
    assert RunState(parked=None).to_metadata() == {"parked": None}
    later = RunState(attempt_count=1).changed(RunState(parked=ParkedUntil(reason="r")))
    assert later.to_metadata() == {"attempt_count": 1, "parked": {"reason": "r"}}
    assert UNTOUCHED.to_metadata()["dev_agent_executions"] == []


@pytest.mark.parametrize("key", sorted(KEYS - {"attempt_count"}))
def test_null_means_that_nothing_was_said(key: str) -> None:
    assert getattr(RunState.model_validate({key: None}), key) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parked", "x"),
        ("parked", {"until": "0001-01-01T00:00:00+14:00"}),
        ("spent", {"seconds": 10**400}),
        ("spent", {"cost_usd": True}),
        ("attempt_count", "2"),
        ("attempt_count", True),
        ("proven", {"commit": "a\0b"}),
        ("dev_agent_executions", [{**ROW, "session_id": "\ud800"}]),
        ("dev_agent_executions", [{**ROW, "usage": {"input_tokens": "3"}}]),
        ("qa_agent_executions", [{**ROW, "status": "pass", "message": "m", "details": {"a": float("nan")}}]),
    ],
)
def test_a_wrong_value_is_named_and_healed(key: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        RunState.model_validate({**WHOLE, key: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {key}
    found = healed({**WHOLE, key: value})
    assert all(field.startswith(f"metadata.{key}") for field in found.dropped)
    assert found.dropped
    kept = {name: said for name, said in found.state.to_metadata().items() if name != key}
    assert kept == {name: said for name, said in WHOLE.items() if name != key}


def test_of_a_list_only_the_spoiled_entries_are_dropped() -> None:
    found = healed({"dev_agent_executions": [ROW, 7, {**ROW, "attempt": 3}], "attempt_count": "x"})
    assert found.dropped == ("metadata.attempt_count", "metadata.dev_agent_executions.1")
    assert found.change.to_metadata()["dev_agent_executions"] == [ROW, {**ROW, "attempt": 3}]
    assert found.state.attempt_count == 3, "the next attempt gets a number of its own"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), JSON))
def test_whatever_is_there_can_be_healed(metadata: dict[str, Any]) -> None:
    found = healed(metadata)
    assert RunState.model_validate({**metadata, **found.change.to_metadata()}) == found.state
    assert healed(found.state.to_metadata()).dropped == ()


# --- one place spells the keys ----------------------------------------------------------------------

SOURCE = PROJECT / "src" / "beads_ralph"
OTHERS = {
    "bead/run_state.py": KEYS,
    # Other formats have keys of the same name.
    "bead/legacy.py": {"scrum_result"},  # beads of the first schema, before they are read
    "agents/script_player.py": {"pr_url", "pr_number"},  # what a scrum-master answers
    "bead/evidence.py": {"red_before"},  # a field of one check
    "journal/records/keeper.py": {"red_before"},
    "cli/status.py": {"parked"},  # what the command prints
    "report/page.py": {"spent"},  # the head of a column
    "bead/standing.py": {"proven", "accepted", "last_verdict"},  # beads as JSON, without the models
    "bead/healing.py": {"attempt_count"},  # a part of this one
    "dod/execute.py": {"attempt_count"},  # `ralph_meta` of a bead file
    "dod/file_session.py": {"attempt_count", "dev_agent_executions", "interruptions", "spent"},
    "dod/imports.py": {"attempt_count"},
    "dod/gates.py": {"gate_override"},
    "session/order.py": {"parked"},  # an ending
    "session/session.py": {"parked", "pr_url"},  # … and the answer of a scrum-master agent
    "loop/settling.py": {"parked"},
    # The JSON of a sound bead, looked at without the models.
    "store/views.py": {
        *("attempt_count", "pr_url", "parked", "scrum_result", "last_verdict", "dev_agent_executions"),
        "open_findings",
    },
    "compile/item_diff.py": {"planned"},  # what `plan diff` prints
    "journal/proofs.py": {"proven", "accepted"},  # kinds of rows of the ledger
    "loop/closed_beads.py": {"proven", "accepted"},
    # Words for how a bead stands, as people are shown it.
    "board/folding_beads.py": {"parked"},
    "cli/runs.py": {"parked"},
    "journal/accounts.py": {"parked"},
    "session/before_and_after.py": {"proven"},
    # The JSON of a bead, as boards get it.
    "board/terminal/views.py": {"last_verdict", "open_findings"},
    "board/composing.py": {"parked", "spent", "last_verdict"},
    "board/web/bead_page.py": {"pr_number", "proven", "last_verdict"},
}


def spelled(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in KEYS:
            yield node.value


def test_no_other_module_spells_a_key_of_the_run_state() -> None:
    found = {
        name: strange
        for path in SOURCE.rglob("*.py")
        if (strange := {*spelled(path)} - OTHERS.get(name := path.relative_to(SOURCE).as_posix(), set()))
    }
    assert found == {}

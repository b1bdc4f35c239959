"""One model of an agent call: what a bead keeps of it, read and written."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.agent_call import BEGUN, UNKEPT, UNTOLD, AgentCall, DevCall, QACall
from beads_ralph.bead.json_fields import FieldError
from beads_ralph.bead.run_state import DevExecution, QAExecution
from beads_ralph.bead.usage import COUNTS, Usage
from tests.bead.dataclass_samples import values_of

OF_THE_SEED = {"attempt": 1, "agent_path": "a.md", "started_at": "2026-01-01T00:00:00Z", "status": "failed"}
SHARED = [
    "attempt",
    "session_id",
    "agent_path",
    "model",
    "started_at",
    "completed_at",
    "role",
    "seat",
    "program",
    "cwd",
    "session_of",
    "session_usage",
    "usage",
    "cost_usd",
    "trouble",
    "denied",
    "status",
]


@given(values_of(DevCall) | values_of(QACall))
def test_what_a_bead_keeps_of_a_call_reads_back(call: DevCall | QACall) -> None:
    row = json.loads(json.dumps(call.to_row()))
    again = type(call).from_row(row)
    lost = {name: getattr(AgentCall(attempt=1, role="", agent=""), name) for name in UNKEPT}
    assert vars(again) == vars(call) | lost
    assert again.to_row() == row


def test_the_keys_of_a_row_are_those_that_stores_hold() -> None:
    call = AgentCall(attempt=1, role="dev", agent="a.md", started_at="2026-01-01T00:00:00Z")
    dev, qa = DevCall.of(call, "mend it", "done"), QACall.of(call, "fail", "no", {"line": 3}, "abc")
    assert set(dev.to_row()) == {*SHARED, "feedback_from_qa", "last_words"}
    assert set(qa.to_row()) == {*SHARED, "message", "details", "commit"}
    DevExecution.model_validate(dev.to_row())
    QAExecution.model_validate(qa.to_row())


def test_a_row_of_somebody_else_reads_and_keeps_its_keys() -> None:
    call = DevCall.from_row({**OF_THE_SEED, "reviewer": {"name": "x"}, "usage": None, "denied": None})
    assert (call.agent, call.role, call.seat, call.usage, call.denied) == ("a.md", "", 1, Usage(), ())
    assert call.to_row()["reviewer"] == {"name": "x"}


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("attempt", "one", "attempt"),
        ("attempt", True, "attempt"),
        ("status", "perhaps", "status"),
        ("usage", {"input_tokens": "many"}, "usage.input_tokens"),
        ("denied", ["Bash", 3], "denied.1"),
        ("session_usage", [1], "session_usage"),
    ],
)
def test_a_spoiled_value_is_named(key: str, value: Any, named: str) -> None:
    with pytest.raises(FieldError) as error:
        DevCall.from_row({**OF_THE_SEED, key: value})
    assert error.value.key == named


@pytest.mark.parametrize(
    ("problem", "cut_short", "status"),
    [
        ("", "", "completed"),
        ("timed out after 3 s", "timeout", "timeout"),
        ("timed out after 3 s", "", "timeout"),
        ("ended with exit code 1", "", "failed"),
        ("printed more than is allowed and was ended", "output", "failed"),
    ],
)
def test_how_a_call_ended_in_a_word(problem: str, cut_short: str, status: str) -> None:
    call = AgentCall(attempt=1, role="dev", agent="a", problem=problem, cut_short=cut_short)
    assert DevCall.of(call).status == status


def test_the_parts_that_are_kept_are_parts_of_the_model() -> None:
    names = {one.name for one in fields(AgentCall)}
    assert names >= BEGUN | UNTOLD | UNKEPT
    assert {one.name for one in fields(Usage)} == set(COUNTS)


@given(st.text(), values_of(Usage))
def test_a_session_to_go_on_with_has_an_id(session_id: str, counted: Usage) -> None:
    session = AgentCall(
        attempt=1, role="dev", agent="a", session_id=session_id, session_usage=counted
    ).session
    assert (session is not None) == bool(session_id)
    assert session is None or (session.id, session.counted) == (session_id, counted)

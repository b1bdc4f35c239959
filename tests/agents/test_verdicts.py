"""A QA reply → pass, fail or stop, each failure by its name."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.agents.protocol import Reply
from beads_ralph.agents.verdicts import Judgement, NoVerdict, Question, flaws_in, judge
from beads_ralph.bead.model import OUTPUT_SCHEMA
from beads_ralph.process.jobs import Exit

WANTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["pass", "fail", "stop"]},
        "message": {"type": "string"},
        "coverage_percent": {"type": "number"},
        "test_count": {"type": "integer", "minimum": 1},
        "flaky": {"type": ["boolean", "null"]},
        "findings": {"type": "array"},
        "tool": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
    "required": ["status", "message", "test_count"],
}
GOOD: dict[str, Any] = {"status": "pass", "message": "ok", "test_count": 3}


def said(ended: Exit | None = None, schema: dict[str, Any] | None = None, **result: Any) -> Judgement:
    return judge(Reply(result=result), ended or Exit(0), schema or OUTPUT_SCHEMA)


def test_a_verdict_is_taken_as_it_is() -> None:
    assert said(status="pass", message="ok") == ("pass", "ok", {})
    assert said(status="fail", message="no") == ("fail", "no", {})
    assert said(status="stop", message="a secret") == ("stop", "a secret", {})


def test_details_are_all_that_was_said_beyond_status_and_message() -> None:
    found = said(schema=WANTED, **GOOD, details={"slowest": "test_a"})
    assert found.details == {"test_count": 3, "slowest": "test_a"}
    assert said(status="pass", message="ok", details=["odd"]).details == {"details": ["odd"]}


# --- the call that is answered ------------------------------------------------------------------------

COMMIT = "c0ffee" * 6 + "c0ff"
ASKED = Question("bd-1-1-one", COMMIT)


def answered(*, must_repeat: bool = True, **more: Any) -> Judgement:
    result = {"status": "pass", "message": "ok", **more}
    return judge(Reply(result=result), Exit(0), OUTPUT_SCHEMA, ASKED, must_repeat=must_repeat)


def test_a_verdict_with_the_nonce_of_its_call_is_taken_and_the_nonce_is_no_detail() -> None:
    assert answered(nonce=ASKED.nonce) == ("pass", "ok", {})
    assert answered(must_repeat=False) == ("pass", "ok", {})
    mine = {"bead": "bd-1-1-one", "commit": COMMIT[:7]}
    assert answered(nonce=ASKED.nonce, details=mine).ruling == "pass"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "'nonce' is missing"),
        ({"nonce": ""}, "another call"),
        ({"nonce": Question("bd-1-1-one", COMMIT).nonce}, "another call"),
        ({"nonce": None}, "another call"),
        ({"nonce": ASKED.nonce, "bead": "bd-1-2-two"}, "on bead 'bd-1-2-two'"),
        ({"nonce": ASKED.nonce, "details": {"bead_id": "bd-1"}}, "on bead 'bd-1'"),
        ({"nonce": ASKED.nonce, "commit": "deadbeef"}, "on commit 'deadbeef'"),
        ({"nonce": ASKED.nonce, "details": {"commit": COMMIT[:4]}}, "on commit"),
    ],
)
def test_an_answer_to_another_call_is_no_verdict(more: dict[str, Any], words: str) -> None:
    found = answered(**more)
    assert (found.ruling, type(found)) == ("fail", NoVerdict)
    assert words in found.message


def test_a_program_that_need_not_read_its_prompt_may_leave_the_nonce_out_but_not_give_another() -> None:
    assert isinstance(answered(must_repeat=False, nonce="0123"), NoVerdict)
    assert isinstance(answered(must_repeat=False, commit="deadbeef"), NoVerdict)


def test_the_schema_that_an_agent_is_given_asks_for_the_nonce() -> None:
    schema = ASKED.schema(WANTED)
    good = {**GOOD, "nonce": ASKED.nonce}
    assert jsonschema.Draft202012Validator(schema).is_valid(good)
    assert not jsonschema.Draft202012Validator(schema).is_valid(GOOD)
    assert not jsonschema.Draft202012Validator(schema).is_valid({**good, "nonce": "another"})
    assert "nonce" not in WANTED["properties"]


@pytest.mark.parametrize(
    ("reply", "ended", "outcome", "words"),
    [
        (Reply(), Exit(0), "no JSON", "no fenced json block"),
        (Reply(trouble="unreadable", detail="bad JSON: line 1"), Exit(0), "bad JSON", "bad JSON: line 1"),
        (Reply(), Exit(3), "crash", "exited with code 3"),
        (Reply(), Exit(-9), "crash", "signal 9"),
        (Reply(trouble="unreadable", detail="x"), Exit(1), "crash", "exited with code 1"),
        (Reply(detail="out of memory"), Exit(1), "crash", "exited with code 1: out of memory"),
        (Reply(trouble="unfinished", detail="gone"), Exit(0), "crash", "gone"),
        (Reply(result=GOOD, trouble="unfinished", detail="gone"), Exit(0), "crash", "gone"),
        (Reply(result=GOOD), Exit(1), "crash", "said pass, but exited with code 1"),
        (Reply(result=GOOD), Exit(-15, timed_out=True, seconds=600.2), "time-out", "after 600 s"),
        (Reply(result=GOOD), Exit(-9, flooded=True), "flooded", "more than is allowed"),
        (Reply(result=GOOD), Exit(-9, over_memory=70), "memory", "used more than 70 MB"),
        (Reply(trouble="limit", result=GOOD), Exit(0), "limit", "is at a limit"),
        (Reply(trouble="credit", detail="402"), Exit(1), "credit", "402. Add credit"),
        (Reply(trouble="server", detail="gone"), Exit(1, timed_out=True), "server", "address"),
        (Reply(trouble="auth", detail="log in again"), Exit(1), "auth", "log in again"),
    ],
)
def test_whatever_is_no_verdict_fails_by_its_name(
    reply: Reply, ended: Exit, outcome: str, words: str
) -> None:
    found = judge(reply, ended)
    assert (found.ruling, found.details) == ("fail", {"outcome": outcome, "exit_code": ended.code})
    assert found.message.startswith(f"{outcome}: ")
    assert words in found.message


@pytest.mark.parametrize("status", ["fail", "stop"])
def test_a_checker_that_objects_and_exits_with_1_is_understood(status: str) -> None:
    assert said(Exit(1), status=status, message="2 red") == (status, "2 red", {"exit_code": 1})


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({"status": None}, "missing field", "'status' is missing"),
        ({"message": None}, "missing field", "'message' is missing"),
        ({"test_count": None}, "missing field", "'test_count' is missing"),
        ({"status": "PASS"}, "wrong value", "'status' must be one of pass, fail, stop, not 'PASS'"),
        ({"status": True}, "wrong value", "not True"),
        ({"message": 3}, "wrong value", "'message' must be of type string, not 3"),
        ({"message": "x", "coverage_percent": "81"}, "wrong value", "type number"),
        ({"test_count": 1.5}, "wrong value", "type integer"),
        ({"test_count": True}, "wrong value", "type integer"),
        ({"flaky": "no"}, "wrong value", "type boolean or null"),
        ({"findings": {}}, "wrong value", "type array"),
        ({"tool": []}, "wrong value", "type object"),
        ({"tool": {}}, "missing field", "'tool.name' is missing"),
        ({"tool": {"name": 1}}, "wrong value", "'tool.name' must be of type string"),
        ({"tool": {"name": ["x" * 500]}}, "wrong value", "…"),
    ],
)
def test_an_answer_that_breaks_its_schema_says_where(
    change: dict[str, Any], outcome: str, words: str
) -> None:
    answer = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    found = judge(Reply(result=answer), Exit(0), WANTED)
    assert (found.ruling, found.details["outcome"]) == ("fail", outcome)
    assert words in found.message
    assert len(found.message) < 400


def test_all_flaws_are_named_at_once() -> None:
    assert said(test_count=1, schema=WANTED).message == (
        "missing field: 'status' is missing; 'message' is missing"
    )


def test_a_schema_cannot_excuse_a_verdict_from_having_a_status() -> None:
    assert judge(Reply(result={"message": "ok"}), Exit(0), {}).message == "missing field: 'status' is missing"


def test_a_message_is_cut_before_it_fills_the_records() -> None:
    assert len(said(status="fail", message="x" * 1_000_000).message) == 16_000


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
KINDS = st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {}, optional={"type": KINDS, "enum": st.lists(VALUES, max_size=2), "title": st.just("t")}
    ),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2)},
        optional={"required": st.lists(st.sampled_from("ab"), unique=True), "type": KINDS},
    ),
    max_leaves=4,
)


@given(VALUES, SCHEMAS)
def test_the_checker_agrees_with_a_full_validator(value: Any, schema: dict[str, Any]) -> None:
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (list(flaws_in(value, schema)) == []) == valid

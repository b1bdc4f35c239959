"""Every class of trouble with every real CLI: named alike, known while it runs, and nothing is left of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from beads_ralph.agents.following import Patience
from beads_ralph.process import process_tree
from beads_ralph.process.supervise import MARK
from tests.agents.classes import CASES
from tests.real.calling import Caller
from tests.real.clis import NIGHTLY
from tests.real.record import COMMON

pytestmark = pytest.mark.real_agents
QUICK = {
    "claude": {"402", "credit", "toolong", "404", "unknown-option"},
    "codex": {"402", "toolong", "404", "quota"},
    "gemini": {"402", "404"},
    "goose": {"402", "toolong", "unreachable"},
}
"""What `make test` tries; the rest of the classes it tries by their recorded runs."""
IMPATIENT = Patience(announced=20.0, tries=3, settling=1.0, silence=2.0)


def _case(cli: str, scenario: str, trouble: str) -> Any:
    marks = [pytest.mark.nightly] if cli in NIGHTLY else []
    marks += [] if scenario in QUICK.get(cli, set()) else [pytest.mark.full]
    return pytest.param(cli, scenario, trouble, marks=marks, id=f"{cli}-{scenario}-{trouble}")


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "scenario", "trouble"), [_case(*case) for case in CASES])
def test_a_class_of_trouble_has_one_name(
    caller: Callable[[str], Caller], name: str, scenario: str, trouble: str
) -> None:
    call, take = caller(name), COMMON[scenario]
    ended, reply = call(take.prompt, take.model, session_id=take.session, options=list(take.options))
    assert not ended.timed_out
    assert reply.trouble == trouble, reply
    assert reply.detail
    assert reply.result is None


# --- while it runs ------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "scenario", "trouble", "reset"),
    [
        ("codex", "unreachable", "server", None),
        ("codex", "429r300", "limit", None),
        ("gemini", "429r300", "limit", 300),
    ],
)
def test_one_that_would_wait_for_long_is_ended_and_says_for_what(
    caller: Callable[[str], Caller], name: str, scenario: str, trouble: str, reset: int | None
) -> None:
    """Left alone, each of them takes all the time that it is given."""
    call = caller(name)
    call.patience = IMPATIENT
    before = datetime.now(UTC)
    ended, reply = call("Add hello.py.", scenario, timeout=600.0)
    assert (ended.gave_up, ended.timed_out) == (True, False)
    assert reply.trouble == trouble, reply
    assert reply.detail
    if reset is not None:
        assert reply.limit_reset_at is not None
        assert datetime.fromisoformat(reply.limit_reset_at) >= before + timedelta(seconds=reset)
    assert call.job is not None
    assert process_tree.sweep(MARK, call.job.mark) == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("claude", marks=pytest.mark.full),
        "codex",
        pytest.param("gemini", marks=pytest.mark.full),
        pytest.param("goose", marks=pytest.mark.full),
        *(pytest.param(each, marks=[pytest.mark.full, pytest.mark.nightly]) for each in NIGHTLY),
    ],
)
def test_a_server_that_stumbles_is_left_to_the_cli(caller: Callable[[str], Caller], name: str) -> None:
    ended, reply = caller(name)("Add hello.py.", "500x1", timeout=240.0)
    assert (ended.ok, reply.trouble) == (True, ""), (ended.stderr, reply)


@pytest.mark.parametrize(
    "name", ["goose", *(pytest.param(each, marks=pytest.mark.full) for each in ("claude", "codex", "gemini"))]
)
def test_a_model_that_never_answers_is_a_stall(caller: Callable[[str], Caller], name: str) -> None:
    call = caller(name)
    ended, reply = call("Add hello.py.", "hang", timeout=600.0, stall_limit=6.0)
    assert (ended.limit, reply.trouble) == ("stalled", "stalled"), ended
    assert call.job is not None
    assert process_tree.sweep(MARK, call.job.mark) == []


@pytest.mark.parametrize(
    "name", ["gemini", *(pytest.param(each, marks=pytest.mark.full) for each in ("claude", "codex", "goose"))]
)
def test_what_a_failed_first_call_leaves_is_gone_on_with_or_begun_anew(
    caller: Callable[[str], Caller], name: str
) -> None:
    """But never taken for a session that was forgotten."""
    call = caller(name)
    _, failed = call("Add hello.py. MARK-one", "500", timeout=240.0)
    assert failed.trouble == "server", failed
    session = failed.session_id
    if session is None and not failed.no_session and call.job is not None:
        session = (call.job.env or {}).get("BEADS_RALPH_SESSION")
    ended, reply = call("Add hello.py. MARK-two", session_id=session, timeout=240.0)
    assert (ended.ok, reply.trouble) == (True, ""), (ended.stderr, reply)

"""What beads wait for that is no bead: how it stands, and whether waiting helps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from beads_ralph.bead.items import Item, Standing
from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import seconds_of
from beads_ralph.loop.blockers import OpenWork, Survey, survey
from tests.beads import make_bead

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MADE = "2026-03-01T11:00:00Z"


def bead(name: str, *needs: str, status: str = "open") -> Bead:
    return make_bead(name, dependencies=needs, status=status)


def gate(name: str, kind: str, *needs: str, **rule: Any) -> Item:
    said = {"type": kind, **rule}
    return Item(
        id=name,
        title=f"Gate {name}",
        issue_type="gate",
        metadata={"gate": said},
        dependencies=list(needs),
        created_at=MADE,
    )


def task(name: str, *needs: str, kind: str = "task", status: Any = "open") -> Item:
    return Item(id=name, title=name, issue_type=kind, dependencies=list(needs), status=status)


def judged(
    beads: Sequence[Bead],
    *items: Item,
    others: Sequence[Bead] = (),
    outside: str = "waits",
    gone: Sequence[str] = (),
) -> Survey:
    scene = OpenWork(
        {one.id: one for one in (*beads, *others)}, {item.id: item for item in items}, frozenset(gone)
    )

    def look(_gate: Item) -> Standing:
        return Standing(outside, "as the world has it")  # type: ignore[arg-type]

    return survey(scene, beads, look, NOW)


def states(found: Survey) -> dict[str, str]:
    return {wait.item.id: wait.standing.state for wait in found.waits}


# --- each kind --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "state"),
    [
        ("59m", "passed"),
        ("3600s", "passed"),
        ("1h", "passed"),
        ("1h30m", "waits"),
        ("24h", "waits"),
        ("soon", "failed"),
        ("", "failed"),
        (None, "failed"),
    ],
)
def test_a_timer_runs_from_the_moment_the_gate_was_made(timeout: str | None, state: str) -> None:
    found = judged([bead("a", "g")], gate("g", "timer", timeout=timeout))
    assert states(found) == {"g": state}
    assert found.hopeful is (state != "failed")


def test_the_first_timer_says_when_to_look_again() -> None:
    found = judged(
        [bead("a", "g", "h", "i")],
        gate("g", "timer", timeout="90m"),
        gate("h", "timer", timeout="61m"),
        gate("i", "timer", timeout="1m"),
    )
    assert found.until == NOW + timedelta(minutes=1)
    assert [wait.item.id for wait in found.passed] == ["i"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("12", 12),
        ("1 day", None),
    ],
)
def test_a_duration_is_read_as_bd_reads_it(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("status", "state", "hopeful"),
    [("open", "waits", True), ("in_progress", "waits", True), ("blocked", "failed", False)],
)
def test_a_gate_that_waits_for_somebody_elses_bead(status: str, state: str, hopeful: bool) -> None:
    found = judged([bead("a", "g")], gate("g", "bead", await_id="x"), others=[bead("x", status=status)])
    assert (states(found), found.hopeful) == ({"g": state}, hopeful)


def test_a_gate_passes_when_its_bead_is_closed_and_fails_when_there_is_none() -> None:
    assert states(judged([bead("a", "g")], gate("g", "bead", await_id="x"))) == {"g": "passed"}
    assert states(judged([bead("a", "g")], gate("g", "bead", await_id="x"), gone=["x"])) == {"g": "failed"}
    assert states(judged([bead("a", "g")], gate("g", "bead"))) == {"g": "failed"}


@pytest.mark.parametrize("kind", ["gh:pr", "gh:run"])
@pytest.mark.parametrize("outside", ["waits", "failed", "passed"])
def test_a_gate_on_github_stands_as_github_says(kind: str, outside: str) -> None:
    found = judged([bead("a", "g")], gate("g", kind, await_id="7"), outside=outside)
    assert states(found) == {"g": outside}
    assert found.hopeful is (outside != "failed")


def test_people_are_told_what_to_do_and_for_whom() -> None:
    found = judged([bead("a", "g"), bead("b", "t"), bead("c", "a")], gate("g", "human"), task("t"))
    assert [wait.to_json() for wait in found.waits] == [
        {
            "id": "g",
            "type": "gate",
            "gate": "human",
            "title": "Gate g",
            "state": "person",
            "reason": "waits for a person",
            "beads": ["a"],
            "command": "beads-ralph close g",
        },
        {
            "id": "t",
            "type": "task",
            "gate": None,
            "title": "t",
            "state": "person",
            "reason": "a person's task",
            "beads": ["b"],
            "command": "beads-ralph close t",
        },
    ]
    assert not found.hopeful


def test_what_a_person_is_asked_for_is_said() -> None:
    (wait,) = judged([bead("a", "g")], gate("g", "human", await_id="go for 2.0")).waits
    assert wait.standing.text == "waits for a person: go for 2.0"


def test_what_a_person_cannot_do_yet_has_no_command() -> None:
    found = judged([bead("a", "t")], task("t", "g"), gate("g", "human"))
    assert {wait.item.id: wait.command for wait in found.waits} == {"t": None, "g": "beads-ralph close g"}
    assert [wait.beads for wait in found.waits] == [("a",), ("a",)]


def test_what_is_closed_holds_nobody_up() -> None:
    assert judged([bead("a", "t")], task("t", status="closed")) == Survey()


# --- whether waiting helps --------------------------------------------------------------------------


def test_waiting_helps_only_where_some_bead_needs_nobody() -> None:
    timer, person = gate("g", "timer", timeout="24h"), gate("h", "human")
    assert judged([bead("a", "g")], timer).hopeful
    assert not judged([bead("a", "g", "h")], timer, person).hopeful
    assert judged([bead("a", "g", "h"), bead("b", "g")], timer, person).hopeful
    assert not judged([bead("a", "g", "x")], timer, others=[bead("x")]).hopeful, "x is not ours to start"
    assert not judged([bead("a", "g", "b"), bead("b", status="blocked")], timer).hopeful
    assert not judged([bead("a", "g", status="blocked")], timer).hopeful
    assert judged([bead("a", "b"), bead("b", "g")], timer).hopeful


def test_a_gate_for_a_bead_of_the_run_is_worth_waiting_for_only_where_that_bead_can_come() -> None:
    behind = gate("g", "bead", await_id="b")
    assert not judged([bead("a", "g"), bead("b", "h")], behind, gate("h", "human")).hopeful
    assert judged([bead("a", "g"), bead("b", "h")], behind, gate("h", "timer", timeout="9h")).hopeful


def test_two_that_wait_for_one_another_are_not_waited_for() -> None:
    assert not judged([bead("a", "g")], gate("g", "bead", await_id="a")).hopeful


def test_a_gate_behind_a_gate_is_waited_for_as_both_are() -> None:
    timer = gate("h", "timer", timeout="24h")
    assert judged([bead("a", "g")], gate("g", "timer", "h", timeout="1m"), timer).hopeful
    assert not judged([bead("a", "g")], gate("g", "human", "h"), timer).hopeful


def test_an_epic_is_not_for_people_to_close() -> None:
    found = judged([bead("a", "e")], task("e", kind="epic"))
    assert [wait.command for wait in found.waits] == [None]
    assert not found.hopeful


def test_what_holds_up_an_epic_holds_up_beads_and_gates_below_it() -> None:
    epic = task("e", "h", kind="epic")
    below = make_bead("a", dependencies=["g"], parent="e")
    timer = Item.model_validate({**gate("g", "timer", timeout="1m").to_json(), "parent": "e"})
    found = judged([below], timer, epic, gate("h", "human"))
    assert states(found) == {"g": "waits", "h": "person"}
    assert not found.hopeful, "only a person can help, though the timer has run out"

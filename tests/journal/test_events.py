"""Events as lines of the journal: each kind round-trips, and other versions can be read."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beads_ralph.bead.agent_call import UNTOLD, AgentCall
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.journal import journal
from beads_ralph.journal.events import (
    KINDS,
    AgentEnded,
    AgentStarted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadReleased,
    Event,
    RunEnded,
    UnknownEvent,
    VerdictGiven,
    event_of,
)
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.records.model import Called, Checked
from tests.bead.dataclass_samples import SCALARS, values_of

OLD = Path(__file__).parent.parent / "fixtures" / "v0.1"
JSON = SCALARS[Any]


def known(name: str) -> list[Event]:
    return list(journal.read(OLD / name))


def as_told(event: Event) -> Event:
    """What is left of an event on its way through the journal, which keeps no long texts."""
    match event:
        case AgentStarted(call=call):
            begun = {key: value for key, value in vars(call).items() if key in AgentStarted.told}
            return replace(event, call=AgentCall(attempt=event.attempt or 0, **begun))
        case AgentEnded(call=call):
            lost = {name: getattr(AgentCall(attempt=0, role="", agent=""), name) for name in UNTOLD}
            return replace(event, call=replace(call, attempt=event.attempt or 0, **lost))
        case VerdictGiven(checks=checks):
            return replace(event, checks=tuple(map(_short, checks)))
        case _:
            return event


def _short(row: Evidence) -> Evidence:
    details = {"reason": row.reason} if row.reason else {}
    seconds, message = round(row.seconds, 3), row.message[:500]
    return replace(row, seconds=seconds, message=message, details=details, output_sha256="", output_tail="")


# --- one kind of event --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_every_event_reads_back_from_its_line(kind: str, data: st.DataObject) -> None:
    event: Event = data.draw(values_of(KINDS[kind]))
    row = json.loads(json.dumps(event.to_json()))
    assert list(row)[:3] == ["kind", "at", "run_id"]
    assert event_of(row) == as_told(event)
    assert event_of(row).to_json() == row


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_a_line_without_its_fields_is_still_an_event(kind: str, data: st.DataObject) -> None:
    row = data.draw(values_of(KINDS[kind])).to_json()
    kept = data.draw(st.sets(st.sampled_from(sorted(row))))
    rest = {key: value for key, value in row.items() if key in kept or key in ("kind", "at", "run_id")}
    found = event_of(rest)
    assert (found.kind, found.at, found.run_id) == (kind, row["at"], row["run_id"])
    assert isinstance(found, KINDS[kind]) or "ruling" not in rest


@pytest.mark.parametrize("kind", [*KINDS, "of_a_later_version"])
@given(st.dictionaries(st.text(min_size=1), JSON, max_size=4), st.text())
def test_what_is_not_known_is_kept(kind: str, more: dict[str, Any], at: str) -> None:
    row = {**more, "kind": kind, "at": at, "run_id": "r", "of_a_later_version": [1, None]}
    said = event_of(row).to_json()
    assert said["of_a_later_version"] == [1, None]
    assert {key: said[key] for key in row if key not in ("bead", "team", "attempt")} == {
        key: value for key, value in row.items() if key not in ("bead", "team", "attempt")
    }


def test_a_spoiled_field_leaves_the_event_readable_and_unknown() -> None:
    row = {"kind": "bead_closed", "at": "t", "run_id": "r", "bead": "bd-a", "attempt": "x", "reason": 3}
    event = event_of(row)
    assert isinstance(event, UnknownEvent)
    assert (event.bead, event.attempt, event.to_json()) == ("bd-a", None, row)


@given(st.lists(st.text() | JSON.map(json.dumps) | st.just("[" * 100_000), max_size=5))
def test_garbage_between_lines_is_left_out(garbage: list[str]) -> None:
    event = BeadClosed(at="t", run_id="r", bead="bd-a", reason="proven")
    good = json.dumps(event.to_json()) + "\n"
    lines = [line for part in garbage for line in (*part.splitlines(), good.strip())]
    found = [journal.parsed(f"{line}\n") for line in lines]
    assert [one for one in found if one is not None and one.at == "t"].count(event) == len(garbage)
    assert journal.parsed(good.rstrip()) is None


def test_what_a_listener_hears_beside_the_line(tmp_path: Path) -> None:
    written, heard = Journal(tmp_path / journal.NAME, "r"), list[Event]()
    written.listeners.append(heard.append)
    call = AgentCall(attempt=1, role="dev", agent="a.md")
    written.emit(AgentStarted(bead="bd-a", attempt=1, call=call, prompt="Do it."))
    written.close()
    (told,) = journal.read(written.path)
    (event,) = heard
    assert isinstance(event, AgentStarted)
    assert isinstance(told, AgentStarted)
    assert (event.prompt, told.prompt, event.run_id) == ("Do it.", "", "r")
    assert replace(event, prompt="") == told
    assert told.at


# --- older versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo.jsonl", "blocked.jsonl", "exec.jsonl"])
def test_a_journal_of_the_version_before_says_the_same(name: str) -> None:
    """Every line is read as an event of its kind, and written again it says what it said."""
    rows = [json.loads(line) for line in (OLD / name).read_text("utf-8").splitlines()]
    told = known(name)
    assert [event.kind for event in told] == [row["kind"] for row in rows]
    assert [event for event in told if isinstance(event, UnknownEvent) or event.extra] == []
    for row, event in zip(rows, told, strict=True):
        said = event.to_json()
        assert {key: said[key] for key in row} == row
        assert [key for key in said if key not in row and said[key] is not None] == []


def test_the_facts_of_the_version_before() -> None:
    told = known("demo.jsonl")
    assert sum(isinstance(event, BeadClosed) for event in told) == 8
    (ended,) = [event for event in told if isinstance(event, RunEnded)]
    assert (ended.ended, len(ended.pull_requests), ended.attempts) == ("done", 8, 10)
    sent_back = [one.bead for one in told if isinstance(one, VerdictGiven) and one.ruling == "fail"]
    assert sent_back == ["bd-1-2b-command-line", "bd-2a-1-reminders"]
    calls = [event.call for event in told if isinstance(event, AgentEnded)]
    assert [call.role for call in calls].count("qa") == 9
    assert all(call.session_id and call.transcript and call.started_at for call in calls)


def test_the_facts_of_an_execution_and_of_a_blocked_bead() -> None:
    (blocked,) = [event for event in known("blocked.jsonl") if isinstance(event, BeadBlocked)]
    assert "3 attempts" in blocked.reason
    told = known("exec.jsonl")
    (claimed,) = [event for event in told if isinstance(event, BeadClaimed)]
    assert (claimed.bead, claimed.bead_kind, claimed.sprint, claimed.max_attempts) == (
        "gt-one",
        "dod",
        None,
        3,
    )
    first, last = (event for event in told if isinstance(event, VerdictGiven))
    assert (first.ruling, first.will_retry, first.program, last.ruling) == (
        "fail",
        True,
        "./agent.sh",
        "pass",
    )
    assert [row.name for row in first.checks] == ["agent", "there"]


# --- one model from the check to the record -----------------------------------------------------------


@given(values_of(Verdict))
def test_a_verdict_reads_back(verdict: Verdict) -> None:
    said = json.loads(json.dumps(verdict.to_json()))
    again = Verdict.from_json(said)
    assert again.to_json() == said
    assert (again.feedback, again.ruling) == (verdict.feedback, verdict.ruling)


def test_a_record_shows_fields_of_the_models_under_their_names() -> None:
    assert set(Called.model_fields) <= {one.name for one in fields(AgentCall)}
    told = {name for name, one in vars(Evidence).items() if isinstance(one, property)}
    assert set(Checked.model_fields) <= {one.name for one in fields(Evidence)} | told


def test_what_was_given_back_says_so_only_where_it_was_cancelled() -> None:
    said = BeadReleased(reason="x").facts(), BeadReleased(reason="x", cancelled=True).facts()
    assert said == ({"reason": "x"}, {"reason": "x", "cancelled": True})

"""What a killed run had in hand: its journal knows of calls that the store has never heard of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import DevExecution, RunState, Spending
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.journal import events
from beads_ralph.journal.events import Event
from beads_ralph.session.history import usage_of


def unrecorded(bead: Bead, journal: Path) -> RunState:
    """What the bead's run state lacks: who had worked on it when the run was killed, in which session, and
    what that had cost. So the next run goes on with the same sessions, and no money is forgotten."""
    told = list(_calls(bead, events.read(journal)))
    if not told:
        return RunState()
    state = bead.metadata
    rows = [row for event in told if event.data.get("role") != "qa" for row in _rows(event)]
    usage = sum((_usage(event) for event in told), usage_of(state.spent))
    return RunState(
        dev_agent_executions=[*(state.dev_agent_executions or ()), *rows],
        spent=(state.spent or Spending()).model_copy(update=asdict(usage)),
    )


def _calls(bead: Bead, told: Iterable[Event]) -> Sequence[Event]:
    """Those since the bead was last claimed that belong to no attempt which was judged: of all others
    the store has been told. One that was cut off is known by its start alone."""
    ended: list[Event] = []
    begun: dict[tuple[Any, ...], Event] = {}
    for event in (one for one in told if one.bead == bead.id):
        whose = (event.data.get("role"), event.data.get("seat"))
        if event.kind == "bead_claimed":
            ended.clear()
            begun.clear()
        elif event.kind == "agent_started":
            begun[whose] = event
        elif event.kind == "agent_ended":
            begun.pop(whose, None)
            ended.append(event)
    return [one for one in (*ended, *begun.values()) if (one.attempt or 0) > bead.metadata.attempt_count]


def _usage(event: Event) -> Usage:
    said: Mapping[str, Any] = event.data.get("usage") or {}
    return Usage(**{name: said.get(name) for name in COUNTS})


def _rows(event: Event) -> Iterator[DevExecution]:
    """Nothing for an event that does not say who was called when: anybody may have written there."""
    with suppress(ValidationError):
        yield _row(event)


def _row(event: Event) -> DevExecution:
    """As a session keeps it, but for the words: they are in the transcript."""
    data, cut_off = event.data, event.kind == "agent_started"
    problem = "interrupted" if cut_off else str(data.get("problem") or "")
    return DevExecution.made(
        attempt=event.attempt,
        session_id=data.get("session_id"),
        agent_path=data.get("agent"),
        model=data.get("model"),
        started_at=data.get("started_at") or event.at,
        completed_at=None if cut_off else event.at,
        role=data.get("role"),
        seat=data.get("seat"),
        program=data.get("program"),
        session_usage=data.get("session_usage"),
        usage=data.get("usage"),
        cost_usd=_usage(event).cost_usd,
        trouble="interrupted" if cut_off else data.get("trouble"),
        denied=data.get("denied"),
        status="timeout" if problem.startswith("timed out") else "failed" if problem else "completed",
        feedback_from_qa=None,
        last_words="",
    )

"""What a killed run had in hand: its journal knows of calls that the store has never heard of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import INTERRUPTED, AgentCall, DevCall
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import RunState, Spending
from beads_ralph.journal import events
from beads_ralph.journal.events import Event
from beads_ralph.session.history import dev_row, usage_of


def unrecorded(bead: Bead, journal: Path) -> RunState:
    """What the bead's run state lacks: who had worked on it when the run was killed, in which session, and
    what that had cost. So the next run goes on with the same sessions, and no money is forgotten."""
    calls = [call for event in _unjudged(bead, events.read(journal)) for call in _calls(event)]
    if not calls:
        return RunState()
    state = bead.metadata
    rows = [dev_row(DevCall.of(call)) for call in calls if call.role != "qa"]
    usage = sum((call.usage for call in calls), usage_of(state.spent))
    return RunState(
        dev_agent_executions=[*(state.dev_agent_executions or ()), *rows],
        spent=(state.spent or Spending()).model_copy(update=asdict(usage)),
    )


def _unjudged(bead: Bead, told: Iterable[Event]) -> Sequence[Event]:
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


def _calls(event: Event) -> Iterator[AgentCall]:
    """Nothing for an event that does not say who was called when: anybody may have written there."""
    with suppress(ValueError):
        call = _call(event)
        dev_row(DevCall.of(call))
        yield call


def _call(event: Event) -> AgentCall:
    """As a bead keeps it, but for the words: they are in the transcript."""
    call = json_fields.from_json(AgentCall, {**event.data, "attempt": event.attempt})
    if event.kind == "agent_ended":
        return replace(call, started_at=call.started_at or event.at, completed_at=event.at)
    return replace(call, started_at=event.at, problem=INTERRUPTED, trouble=INTERRUPTED)

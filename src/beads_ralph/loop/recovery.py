"""What a killed run had in hand: its journal knows of calls that the store has never heard of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import INTERRUPTED, AgentCall, DevCall
from beads_ralph.bead.model import Bead
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.journal import events
from beads_ralph.journal.events import Event


def unrecorded(bead: Bead, journal: Path) -> dict[str, Any]:
    """Metadata that the bead lacks: who had worked on it when the run was killed, in which session, and
    what that had cost. So the next run goes on with the same sessions, and no money is forgotten."""
    calls = [_call(event) for event in _unjudged(bead, events.read(journal))]
    if not calls:
        return {}
    said = bead.metadata.to_json()
    rows = [DevCall.of(call).to_row() for call in calls if call.role != "qa"]
    spent = said.get("spent") or {}
    usage = sum((call.usage for call in calls), Usage(**{name: spent.get(name) for name in COUNTS}))
    return {
        "dev_agent_executions": [*(said.get("dev_agent_executions") or []), *rows],
        "spent": {**spent, **{name: getattr(usage, name) for name in COUNTS}},
    }


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


def _call(event: Event) -> AgentCall:
    """As a bead keeps it, but for the words: they are in the transcript."""
    call = json_fields.from_json(AgentCall, {**event.data, "attempt": event.attempt})
    if event.kind == "agent_ended":
        return replace(call, started_at=call.started_at or event.at, completed_at=event.at)
    return replace(call, started_at=event.at, problem=INTERRUPTED, trouble=INTERRUPTED)

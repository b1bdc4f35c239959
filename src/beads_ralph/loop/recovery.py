"""What a killed run had in hand: its journal knows of calls that the store has never heard of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from beads_ralph.bead.agent_call import INTERRUPTED, AgentCall, DevCall
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import DevExecution, RunState, Spending
from beads_ralph.journal.events import AgentEnded, AgentStarted, BeadClaimed, Event
from beads_ralph.journal.journal import read


def unrecorded(bead: Bead, journal: Path) -> RunState:
    """What the bead's run state lacks: who had worked on it when the run was killed, in which session, and
    what that had cost. So the next run goes on with the same sessions, and no money is forgotten."""
    calls = [call for call in _unjudged(bead, read(journal)) if _is_sound(call)]
    if not calls:
        return RunState()
    state = bead.metadata
    rows = [_row(call) for call in calls if call.role != "qa"]
    usage = sum((call.usage for call in calls), state.usage)
    return RunState(
        dev_agent_executions=[*(state.dev_agent_executions or ()), *rows],
        spent=(state.spent or Spending()).model_copy(update=asdict(usage)),
    )


def _unjudged(bead: Bead, told: Iterable[Event]) -> Sequence[AgentCall]:
    """Those since the bead was last claimed that belong to no attempt which was judged: of all others
    the store has been told. One that was cut off is known by its start alone."""
    ended: list[AgentCall] = []
    begun: dict[tuple[str, int], AgentCall] = {}
    for event in (one for one in told if one.bead == bead.id):
        match event:
            case BeadClaimed():
                ended.clear()
                begun.clear()
            case AgentStarted(call=call):
                cut = replace(call, started_at=event.at, problem=INTERRUPTED, trouble=INTERRUPTED)
                begun[call.role, call.seat] = cut
            case AgentEnded(call=call):
                begun.pop((call.role, call.seat), None)
                ended.append(replace(call, started_at=call.started_at or event.at, completed_at=event.at))
    return [one for one in (*ended, *begun.values()) if one.attempt > bead.metadata.attempt_count]


def _row(call: AgentCall) -> DevExecution:
    return DevExecution.made(**DevCall.of(call).to_row())


def _is_sound(call: AgentCall) -> bool:
    """Whether it says who was called when: anybody may have written there."""
    try:
        _row(call)
    except ValueError:
        return False
    return True

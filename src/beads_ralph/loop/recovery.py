"""What a killed run left: its journal knows of calls that the store has never heard of, and the store of ends
that its journal has never heard of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import INTERRUPTED, AgentCall, DevCall, QACall
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import (
    DevExecution,
    Interruption,
    QAExecution,
    RunState,
    ScrumResult,
    Spending,
    StageReached,
)
from beads_ralph.bead.stages import Reached, Review
from beads_ralph.bead.words import plural, utc_text
from beads_ralph.journal import runs
from beads_ralph.journal.events import (
    AgentEnded,
    AgentStarted,
    AttemptInterrupted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadParked,
    BeadReleased,
    Event,
    ReviewGiven,
    VerdictGiven,
)
from beads_ralph.journal.journal import read
from beads_ralph.session.state import verdict_event

DEVELOPERS: Final = ("dev", "scrum-master")


def unrecorded(bead: Bead, journal: Path) -> RunState:
    """What the bead's run state lacks: who had worked on it when the run was killed, in which session, and
    what that had cost. So the next run goes on with the same sessions, and no money is forgotten."""
    cut = CutOff(bead)
    for event in (one for one in read(journal) if one.bead == bead.id):
        cut.hear(event)
    calls = [call for call in cut.calls if _is_sound(call)]
    if not calls:
        return RunState()
    state = bead.metadata
    rows = [_row(call) for call in calls if call.role != "qa"]
    judged = [QAExecution.made(**one.to_row()) for one in cut.judged]
    usage = sum((call.usage for call in calls), state.usage)
    return RunState(
        dev_agent_executions=[*(state.dev_agent_executions or ()), *rows],
        qa_agent_executions=[*(state.qa_agent_executions or ()), *judged],
        spent=(state.spent or Spending()).model_copy(update=asdict(usage)),
        reached=StageReached.made(**json_fields.to_json(cut.reached)) if cut.reached else None,
    )


@dataclass
class CutOff:
    """An attempt that belongs to a run which ended before its verdict: of all others the store has been told.
    A call that was cut off is known by its start alone."""

    bead: Bead
    ended: list[AgentCall] = field(default_factory=list)
    begun: dict[tuple[str, int], AgentCall] = field(default_factory=dict)
    judged: list[QACall] = field(default_factory=list)
    reached: Reached | None = None
    """The stages that ended well, those before the bead was last claimed included."""

    @property
    def attempt(self) -> int:
        return self.bead.metadata.attempt_count + 1

    @property
    def calls(self) -> list[AgentCall]:
        return [*self.ended, *self.begun.values()]

    def hear(self, event: Event) -> None:
        match event:
            case BeadClaimed(asks=asks):
                self.ended, self.begun, self.judged = [], {}, []
                before = self.bead.metadata.stages
                goes_on = before is not None and (before.attempt, before.of) == (self.attempt, asks)
                self.reached = before if goes_on else Reached(self.attempt, asks) if asks else None
            case AgentStarted(call=call) if call.attempt >= self.attempt:
                self._begin(replace(call, started_at=event.at, problem=INTERRUPTED, trouble=INTERRUPTED))
            case AgentEnded(call=call) if call.attempt >= self.attempt:
                self._end(replace(call, started_at=call.started_at or event.at, completed_at=event.at))
            case ReviewGiven(attempt=self.attempt):
                self._judge(Review(event.seat, event.told, event.check, event.flags))

    def _begin(self, call: AgentCall) -> None:
        self.begun[call.role, call.seat] = call
        if self.reached is not None and call.role in DEVELOPERS:
            self.reached = self.reached.begun(call.seat)
        elif self.reached is not None and call.role == "qa":
            self.reached = self.reached.asked(call.seat)

    def _end(self, call: AgentCall) -> None:
        self.begun.pop((call.role, call.seat), None)
        self.ended.append(call)
        if self.reached is not None and call.role in DEVELOPERS and not call.problem:
            self.reached = self.reached.developed(call.seat, call.commit)

    def _judge(self, review: Review) -> None:
        check = review.check
        asked = [call for call in self.ended if (call.role, call.seat) == ("qa", review.seat)]
        self.judged += [
            QACall.of(call, check.ruling, check.message, check.details, check.commit)
            for call in asked[-1:]
            if _is_sound(call)
        ]
        self.reached = self.reached.reviewed(review) if self.reached else None


def _row(call: AgentCall) -> DevExecution:
    return DevExecution.made(**DevCall.of(call).to_row())


def _is_sound(call: AgentCall) -> bool:
    """Whether it says who was called when: anybody may have written there."""
    try:
        _row(call)
    except ValueError:
        return False
    return True


# --- ends that the store knows of, and no journal ----------------------------------------------------

WORDLESS = "run {run_id} ended without a word"


@dataclass
class Untold:
    """What unfinished runs have told of a bead since it was last claimed."""

    run_id: str
    judged: int
    """The attempts that had been judged when it was claimed."""
    at: str
    """When it was last heard of."""
    verdicts: set[int] = field(default_factory=set)
    at_work: set[tuple[str, int]] = field(default_factory=set)
    """The agents that had been called and had not answered."""
    ended: bool = False

    def hear(self, event: Event) -> None:
        self.at = event.at
        match event:
            case VerdictGiven(attempt=int(attempt)):
                self.verdicts.add(attempt)
            case AgentStarted(call=call):
                self.at_work.add((call.role, call.seat))
            case AgentEnded(call=call):
                self.at_work.discard((call.role, call.seat))
            case BeadClosed() | BeadBlocked() | BeadParked() | BeadReleased() | AttemptInterrupted():
                self.ended = True


def untold(journals: Iterable[Path]) -> dict[str, Untold]:
    """By bead: what the journals of unfinished runs, the oldest first, say of its last claim."""
    found: dict[str, Untold] = {}
    for event in (event for path in journals for event in read(path)):
        if isinstance(event, BeadClaimed) and event.bead:
            found[event.bead] = Untold(event.run_id, (event.attempt or 1) - 1, event.at)
        elif event.bead in found:
            found[event.bead].hear(event)
    return found


def derived(bead: Bead, left: Untold, root: Path) -> Iterator[Event]:
    """The events that were not told although the store has what they tell of."""
    team = bead.metadata.team_name
    verdict = _verdict(bead, left)
    if verdict is not None:
        yield replace(verdict, at=left.at, bead=bead.id, team=team, derived=left.run_id)
    if not left.ended and bead.status != "in_progress":
        yield replace(_end(bead, left, root), bead=bead.id, team=team, derived=left.run_id)


def _verdict(bead: Bead, left: Untold) -> VerdictGiven | None:
    state = bead.metadata
    number, verdict = state.attempt_count, state.verdict
    if verdict is None or number <= left.judged or number in left.verdicts:
        return None
    most = (state.attempts_forgiven or 0) + state.max_retry_attempts
    return verdict_event(number, verdict, will_retry=verdict.ruling == "fail" and number < most)


def _end(bead: Bead, left: Untold, root: Path) -> Event:
    """How the store says that the work of the run on the bead ended."""
    state, said = bead.metadata, bead.model_extra or {}
    holder = runs.actor_name(root, left.run_id)
    cut = [row for row in state.interruptions or () if row.run_id == left.run_id]
    if bead.status == "closed" and state.proven is not None:
        reason = str(said.get("close_reason") or "closed")
        return BeadClosed(at=bead.closed_at or "", reason=reason, standing=state.standing)
    if bead.status == "blocked":
        result = state.scrum_result
        return BeadBlocked(reason=(result.error if result else None) or "blocked")
    if cut:
        return AttemptInterrupted(attempt=cut[-1].attempt, holder=holder)
    if state.parked is not None and state.parked.until is not None:
        return BeadParked(reason=state.parked.reason or "", until=state.parked.until)
    return BeadReleased(reason=WORDLESS.format(run_id=left.run_id), cancelled=True)


# --- agents that kill the loop -----------------------------------------------------------------------

INTERRUPTIONS_KEPT: Final = 20


def interrupted(bead: Bead, run_id: str, *, at_work: bool, most: int) -> RunState:
    """The bead's run state with one more interruption; with `most` of them in a row, and an agent of the bead
    at work each time, it says why the bead is blocked."""
    state = bead.metadata
    told = list(state.interruptions or ())
    attempt = state.attempt_count + (0 if state.proven else 1)
    now = utc_text(datetime.now(UTC))
    row = Interruption(run_id=run_id, attempt=attempt, noticed_at=now, at_work=at_work)
    count = deaths([*told, row], attempt)
    if not (at_work and 0 < most <= count):
        return RunState(interruptions=[*told, row][-INTERRUPTIONS_KEPT:])
    row = row.model_copy(update={"blocked": True})
    reason = (
        f"the run was killed {plural(count, 'time')} in a row while an agent of this bead was at work; "
        f"look at what it does, then: beads-ralph retry {bead.id}"
    )
    result = ScrumResult.made(
        bead_id=bead.id, success=False, attempt_count=state.attempt_count, error=reason, fatal=False
    )
    return RunState(interruptions=[*told, row][-INTERRUPTIONS_KEPT:], scrum_result=result)


def deaths(rows: Sequence[Interruption], attempt: int) -> int:
    """How many runs were killed while an agent was at work on this attempt, since the bead was last blocked
    for it. A verdict in between begins another attempt."""
    since = max((at + 1 for at, row in enumerate(rows) if row.blocked), default=0)
    return sum(bool(row.at_work) and row.attempt == attempt for row in rows[since:])


def may_join(bead: Bead, beside: Collection[Bead], most: int) -> bool:
    """Whether a bead may start beside those at work: on one branch they follow one another, and some must be
    alone."""
    branches = {other.metadata.branch for other in beside}
    apart = bool(beside) and any(_works_alone(one, most) for one in (bead, *beside))
    return not apart and bead.metadata.branch not in branches


def _works_alone(bead: Bead, most: int) -> bool:
    """Whether one more death would block the bead: then no other is at work beside it, so that none is blamed
    for what another one's agent does."""
    state = bead.metadata
    return most > 1 and deaths(state.interruptions or (), state.attempt_count + 1) >= most - 1

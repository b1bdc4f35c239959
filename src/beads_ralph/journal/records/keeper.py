"""Records as a projection of the journal: whatever tells it what happened has its attempts recorded."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from beads_ralph import __version__
from beads_ralph.journal.events import (
    AgentEnded,
    AgentStarted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadParked,
    BeadReleased,
    Event,
    VerdictGiven,
)
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.records.folder import StateFolder, is_result_of
from beads_ralph.journal.records.model import (
    EXHAUSTED,
    PROMPT_LENGTH,
    SUMMARY_LENGTH,
    Extra,
    Reason,
    RunRecord,
    changed,
)
from beads_ralph.journal.records.projection import (
    NO_MODEL,
    as_begun,
    broken_reason,
    called,
    checked,
    exit_code,
    more,
    over,
    plain,
    program,
    reason_of,
    result_of,
    total,
    verification,
)


@dataclass
class Keeper:
    """Hears events and keeps the records of one run."""

    folder: StateFolder
    repo: Path
    run_id: str
    source: str = "run"

    def __post_init__(self) -> None:
        self.beads: dict[str, BeadClaimed] = {}
        """How each bead that is at work was claimed."""
        self.open: dict[str, RunRecord] = {}
        """The attempts that have begun and not ended."""
        self.began: dict[str, float] = {}
        """When those began, by a clock that nobody sets."""

    @contextmanager
    def listening(self, journal: Journal, killed: Iterable[Sequence[Event]] = ()) -> Iterator[None]:
        """Records from here on; what dead runs have left is put right first. `killed`: the events of those
        that ended without a word."""
        self.folder.prepare()
        with self.folder.live(self.run_id):
            for told in killed:
                self._catch_up(told)
            self.folder.interrupt_stale()
            journal.listeners.append(self.hear)
            try:
                yield
            finally:
                journal.listeners.remove(self.hear)

    def hear(self, event: Event) -> None:
        """What is told is on disk when this returns."""
        if event.derived is None:
            self._note(event)
        else:
            self._note_late(event, event.derived)

    def _note(self, event: Event) -> None:
        match event:
            case BeadClaimed(bead=str(bead)):
                self.beads[bead] = event
            case AgentStarted(bead=str(bead)):
                self._called(bead, event)
            case AgentEnded(bead=str(bead)):
                self._answered(bead, event)
            case VerdictGiven(bead=str(bead)):
                self._judged(bead, event)
            case BeadClosed(bead=str(bead)):
                self._closed(bead, event)
            case BeadBlocked(bead=str(bead)):
                self._blocked(bead, event)
            case BeadParked(bead=str(bead)) | BeadReleased(bead=str(bead)):
                self._given_back(bead, event)

    # --- what a killed run could not note down any more ---

    def _catch_up(self, told: Sequence[Event]) -> None:
        """A record follows its event, so the last event of a killed run is the only one that may lack its
        record, or the second of two."""
        last = told[-1] if told else None
        if last is None or last.bead is None or isinstance(last, AgentStarted | BeadClaimed):
            return
        run = self.folder.last_run(last.bead)
        if not (isinstance(last, AgentEnded) and run and len(run.ours.calls) == _answers(told, last)):
            self._note_late(last, last.derived or last.run_id)

    def _note_late(self, event: Event, run_id: str) -> None:
        """Go on with the record of a killed run, where that one had not got so far; what is not over by then
        was interrupted."""
        bead = event.bead or ""
        run = self.folder.last_run(bead)
        unfinished = run is not None and self._is_unfinished(run, event, run_id)
        if run is not None and unfinished:
            self.open[bead] = as_begun(run)
        elif isinstance(event, VerdictGiven) and run is not None and run.attempt >= (event.attempt or 0):
            return  # that is in the records
        self._note(event)
        if (run := self.open.pop(bead, None)) is not None:
            self.folder.interrupt(run)

    def _is_unfinished(self, run: RunRecord, event: Event, run_id: str) -> bool:
        """A run that resumed behind its agents judges an attempt whose record an earlier run has begun."""
        own = run.ours.run_id == run_id and event.attempt in (None, run.attempt)
        unjudged = (
            isinstance(event, VerdictGiven) and event.attempt == run.attempt and run.ours.ruling is None
        )
        return (own or unjudged) and not self._has_result(run)

    def _has_result(self, run: RunRecord) -> bool:
        result = self.folder.last_result(run.bead)
        return result is not None and is_result_of(result, run)

    # --- while it lasts ---

    def _called(self, bead: str, event: AgentStarted) -> None:
        run, call = self.open.get(bead), event.call
        if run is None or run.attempt != event.attempt:
            self._begin(bead, event)
        elif call.role == run.ours.role and call.seat == 1:
            # Another program plays the same agent: what comes of it is its work.
            self.open[bead] = changed(run, agent=program(call.program), model=call.model or NO_MODEL)

    def _begin(self, bead: str, event: AgentStarted | VerdictGiven) -> RunRecord:
        run = self.folder.begin(self._record(bead, event))
        self.open[bead] = run
        self.began[bead] = time.monotonic()
        return run

    def _record(self, bead: str, event: AgentStarted | VerdictGiven) -> RunRecord:
        claimed = self.beads.get(bead)
        call = event.call if isinstance(event, AgentStarted) else None
        prompt = plain(event.prompt) if isinstance(event, AgentStarted) else ""
        attempt = event.attempt or 1
        return RunRecord(
            bead=bead,
            status="running",
            agent=program(event.call.program if isinstance(event, AgentStarted) else event.program),
            model=(call.model if call else None) or NO_MODEL,
            repo=str(self.repo),
            prompt=prompt[:PROMPT_LENGTH],
            prompt_full=prompt,
            prompt_hash=hashlib.sha256(prompt.encode()).hexdigest(),
            started_at=event.at,
            finished_at=None,
            duration_seconds=None,
            attempt=attempt,
            max_retries=max(claimed.max_attempts if claimed else 1, attempt),
            exit_code=None,
            output_summary=None,
            failure_reason=None,
            template_name=(claimed.template if claimed else None) or None,
            session_name=f"agent-{bead}",
            result_file=str(self.folder.result_file(bead)),
            extra=self._extra(event, claimed),
        )

    def _extra(self, event: AgentStarted | VerdictGiven, claimed: BeadClaimed | None) -> Extra:
        call = event.call if isinstance(event, AgentStarted) else None
        return Extra(
            run_id=self.run_id,
            program_version=__version__,
            source=self.source,
            team=event.team,
            role=event.call.role if isinstance(event, AgentStarted) else event.role,
            persona=call.agent if call else None,
            kind=claimed.bead_kind if claimed else None,
            title=claimed.title if claimed else None,
            sprint=claimed.sprint if claimed else None,
            plan_file=claimed.plan_file if claimed else None,
            branch=claimed.branch if claimed else None,
            parallel=max(len(self.beads), 1),
        )

    def _answered(self, bead: str, event: AgentEnded) -> None:
        run = self.open.get(bead)
        if run is None:
            return
        call, worked, before = called(event.call), event.call.role != "qa", run.ours
        extra = before.model_copy(
            update={
                "calls": (*before.calls, call),
                "usage": total(before.usage, call.usage),
                "agent_seconds": more(before.agent_seconds, call.seconds if worked else None),
            }
        )
        summary = plain(event.call.output_summary)[-SUMMARY_LENGTH:]
        ended = {"exit_code": exit_code(event.call), "output_summary": summary} if worked else {}
        self._write(changed(run, extra=extra, **ended))

    def _judged(self, bead: str, event: VerdictGiven) -> None:
        """What passed is not over yet: it is to be proposed, and then closed."""
        if not event.attempt:  # a look before any work
            return
        run = self.open.get(bead)
        if run is None or run.attempt != event.attempt:  # no agent was asked: git could merge it alone
            run = self._begin(bead, event)
        checks = tuple(checked(row) for row in event.checks)
        extra = run.ours.model_copy(
            update={
                "checks": checks,
                "ruling": event.ruling,
                "commit": next((row.commit for row in checks if row.commit), None),
            }
        )
        run = changed(run, extra=extra, verification=verification(checks))
        if event.ruling == "pass":
            self._write(run)
        else:
            reason = reason_of(run, event.checks)
            self._end(run, event, reason, event.message or reason, will_retry=event.will_retry)

    # --- how it ends ---

    def _closed(self, bead: str, event: BeadClosed) -> None:
        """Also where a run was killed between the proof and the closing, and this one only closed."""
        run = self.open.get(bead) or self._left_proven(bead)
        self._forget(bead)
        if run is not None:
            self._end(run, event, None, event.reason or "closed", will_retry=False)

    def _left_proven(self, bead: str) -> RunRecord | None:
        """The record of a proven attempt whose closing is not noted down, or only the first half of it."""
        run = self.folder.last_run(bead)
        if run is None or run.ours.ruling != "pass":
            return None
        return run if run.status != "done" or not self._has_result(run) else None

    def _blocked(self, bead: str, event: BeadBlocked) -> None:
        run, text = self.open.get(bead), event.reason or "blocked"
        self._forget(bead)
        used_up = next((one for one in EXHAUSTED if one == event.failure_reason), None)
        if run is not None:
            self._end(run, event, used_up or broken_reason(run, event), text, will_retry=False)
        elif used_up is not None:
            self._end_of_last(bead, used_up, text)
        elif (result := self.folder.last_result(bead)) and result.will_retry:
            self.folder.write(changed(result, will_retry=False))  # there was to be another attempt

    def _end_of_last(self, bead: str, reason: Reason, text: str) -> None:
        """After an attempt that had its verdict, the bead has nothing left for another one: that is why
        it comes to nothing. What was wrong with the attempt itself stays beside it."""
        run, result = self.folder.last_run(bead), self.folder.last_result(bead)
        if run is None or result is None or not is_result_of(result, run):
            return
        if run.failure_reason is None or run.failure_reason in EXHAUSTED:  # nothing was tried since
            return
        extra = run.ours.model_copy(update={"failure_detail": run.failure_reason})
        self.folder.write(changed(run, failure_reason=reason, extra=extra))
        self.folder.write(changed(result, will_retry=False, reason=f"{text}; last failure: {result.reason}"))

    def _given_back(self, bead: str, event: BeadParked | BeadReleased) -> None:
        """The attempt begins again some time, so there is no result of it."""
        run = self.open.get(bead)
        self._forget(bead)
        if run is not None:
            self.folder.write(over(run, event, broken_reason(run, event), self._seconds(bead)))

    def _end(
        self, run: RunRecord, event: Event, reason: Reason | None, text: str, *, will_retry: bool
    ) -> None:
        run = over(run, event, reason, self._seconds(run.bead))
        self.folder.write(run)
        self.folder.write(result_of(run, text, will_retry=will_retry))
        self.open.pop(run.bead, None)

    def _seconds(self, bead: str) -> float | None:
        """How long the attempt took; None where another process began it. Not by the times in the record: a
        clock that was set meanwhile would make hours of it, or less than nothing."""
        began = self.began.pop(bead, None)
        return None if began is None else time.monotonic() - began

    def _write(self, run: RunRecord) -> None:
        self.open[run.bead] = run
        self.folder.write(run)

    def _forget(self, bead: str) -> None:
        self.open.pop(bead, None)
        self.beads.pop(bead, None)


def _answers(told: Sequence[Event], last: AgentEnded) -> int:
    """How many agents have answered in the attempt of the last one, since it began."""
    count = 0
    for event in told:
        if isinstance(event, BeadClaimed) and event.bead == last.bead:
            count = 0
        elif isinstance(event, AgentEnded):
            count += (event.bead, event.attempt) == (last.bead, last.attempt)
    return count

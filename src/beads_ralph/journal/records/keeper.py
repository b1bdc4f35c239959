"""Records as a projection of the journal: whatever tells it what happened has its attempts recorded."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from beads_ralph import __version__
from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.usage import COUNTS, Usage
from beads_ralph.bead.words import moment_of
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
from beads_ralph.journal.records.folder import INTERRUPTED_CODE, StateFolder, is_result_of
from beads_ralph.journal.records.model import (
    EXHAUSTED,
    PROMPT_LENGTH,
    REASONS,
    SUMMARY_LENGTH,
    Called,
    Checked,
    Extra,
    Reason,
    ResultRecord,
    RunRecord,
    Spent,
    Verification,
    changed,
)

NO_MODEL: Final = "none"
NOBODY: Final = "git"
"""Who worked where branches were merged without any agent."""
TIMEOUT_CODE: Final = 124
LINT: Final = re.compile(
    r"\b(lint|ruff|flake8|eslint|mypy|pyright|clippy|fmt|format|style|vet)", re.IGNORECASE
)
TESTS: Final = re.compile(r"test|spec|check", re.IGNORECASE)
FULL: Final = os.strerror(errno.ENOSPC)

TROUBLES: Final[Mapping[str, Reason]] = {
    "limit": "agent-limit",
    "auth": "agent-auth",
    "server": "agent-server",
    "refused": "agent-refused",
    "unfinished": "agent-unfinished",
}
CUT_SHORT: Final[Mapping[str, Reason]] = {
    "timeout": "agent-timeout",
    "output": "agent-output-limit",
    "memory": "agent-memory",
}
CHECKS: Final[Mapping[tuple[str, str], Reason]] = {
    ("verifier", "fail"): "verifier-failed",
    ("verifier", "stop"): "verifier-failed",
    ("qa", "fail"): "qa-failed",
    ("qa", "stop"): "qa-stop",
    ("merge", "fail"): "lost-changes",
    ("git", "fail"): "branch-changed",
}


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

    @contextmanager
    def listening(self, journal: Journal) -> Iterator[None]:
        """Records from here on; what dead runs have left is put right first."""
        self.folder.prepare()
        with self.folder.live(self.run_id):
            self.folder.interrupt_stale()
            journal.listeners.append(self.hear)
            try:
                yield
            finally:
                journal.listeners.remove(self.hear)

    def hear(self, event: Event) -> None:
        """What is told is on disk when this returns."""
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
        run = self.folder.last_run(bead)
        return run if run and run.ours.ruling == "pass" and run.status != "done" else None

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
        self.folder.write(changed(result, will_retry=False, reason=f"{text}; the last: {result.reason}"))

    def _given_back(self, bead: str, event: BeadParked | BeadReleased) -> None:
        """The attempt begins again some time, so there is no result of it."""
        run = self.open.get(bead)
        self._forget(bead)
        if run is not None:
            self.folder.write(over(run, event, broken_reason(run, event)))

    def _end(
        self, run: RunRecord, event: Event, reason: Reason | None, text: str, *, will_retry: bool
    ) -> None:
        run = over(run, event, reason)
        self.folder.write(run)
        self.folder.write(result_of(run, text, will_retry=will_retry))
        self.open.pop(run.bead, None)

    def _write(self, run: RunRecord) -> None:
        self.open[run.bead] = run
        self.folder.write(run)

    def _forget(self, bead: str) -> None:
        self.open.pop(bead, None)
        self.beads.pop(bead, None)


# --- from what the journal says to what a record says -----------------------------------------------


def plain(text: str) -> str:
    """Text that JSON can hold: what is half a character is no character."""
    return text.encode("utf-8", "replace").decode("utf-8")


def program(said: str | None) -> str:
    return PurePath(said or NOBODY).name or NOBODY


def exit_code(call: AgentCall) -> int | None:
    return TIMEOUT_CODE if call.cut_short == "timeout" else call.exit_code


def called(call: AgentCall) -> Called:
    """What the record of an attempt keeps of a call: those of its fields that have a key there."""
    kept = {name: said for name, said in json_fields.to_json(call).items() if name in Called.model_fields}
    changes = {"started_at": call.started_at or None, "problem": plain(call.problem)}
    return Called.model_validate({**kept, **changes})


def checked(row: Evidence) -> Checked:
    """The same of a check."""
    said = row.summary()
    kept = {name: said[name] for name in Checked.model_fields if said[name] is not None}
    texts = {name: plain(value) for name, value in kept.items() if isinstance(value, str)}
    return Checked.model_validate({**kept, **texts})


def total(one: Spent, other: Spent) -> Spent:
    both = Usage(*(getattr(one, name) for name in COUNTS)) + Usage(*(getattr(other, name) for name in COUNTS))
    return Spent(**{name: getattr(both, name) for name in COUNTS})


def more(one: float | None, other: float | None) -> float | None:
    return one if other is None else round((one or 0.0) + other, 3)


def verification(checks: Sequence[Checked]) -> Verification:
    verifiers = [row for row in checks if row.kind == "verifier"]
    lint = [row for row in verifiers if LINT.search(row.name)]
    tests = [row for row in verifiers if row not in lint and TESTS.search(row.name)]
    passed = sum(row.ruling == "pass" for row in checks)
    overall = "partial" if 0 < passed < len(checks) else _ruling(checks)
    return Verification.model_validate({"lint": _ruling(lint), "tests": _ruling(tests), "overall": overall})


def _ruling(rows: Sequence[Checked]) -> str:
    if not rows:
        return "skipped"
    return "pass" if all(row.ruling == "pass" for row in rows) else "fail"


# --- why it came to nothing -------------------------------------------------------------------------


def reason_of(run: RunRecord, rows: Sequence[Evidence]) -> Reason:
    """A stop goes before every failure; else what failed first, an agent before what it left undone."""
    bad = sorted((row for row in rows if row.ruling != "pass"), key=lambda row: row.ruling != "stop")
    if not bad:
        return "other"
    workers = [one for one in run.ours.calls if one.role != "qa"]
    of_call = _call_reason(workers) if bad[0].kind == "git" else None
    said = next((one for one in REASONS if one == bad[0].reason), None)
    return of_call or said or CHECKS.get((bad[0].kind, bad[0].ruling), "other")


def _call_reason(calls: Sequence[Called]) -> Reason | None:
    """What went wrong with the last of them; None where it went well."""
    if not calls or not calls[-1].problem:
        return None
    last = calls[-1]
    return CUT_SHORT.get(last.cut_short) or TROUBLES.get(last.trouble) or "agent-crash"


def broken_reason(run: RunRecord, event: BeadBlocked | BeadReleased | BeadParked) -> Reason:
    """Without a verdict of its own."""
    if isinstance(event, BeadReleased) and event.cancelled:
        return "interrupted"
    if FULL in event.reason:
        return "disk-full"
    if run.ours.ruling == "pass":
        return "proposal-failed"
    if isinstance(event, BeadBlocked) and run.ours.role == "scrum-master":
        return "scrum-master-failed"
    return _call_reason(run.ours.calls) or "infrastructure"


def over(run: RunRecord, event: Event, reason: Reason | None) -> RunRecord:
    status = "done" if reason is None else "timeout" if reason == "agent-timeout" else "failed"
    lasted = (moment_of(event.at) - moment_of(run.started_at)).total_seconds()
    code = INTERRUPTED_CODE if reason == "interrupted" else run.exit_code
    return changed(
        run,
        status=status,
        finished_at=event.at,
        duration_seconds=round(max(lasted, 0.0), 3),
        failure_reason=reason,
        exit_code=code,
    )


def result_of(run: RunRecord, text: str, *, will_retry: bool) -> ResultRecord:
    names = set(ResultRecord.model_fields) & set(RunRecord.model_fields) - {"extra"}
    shared = {name: getattr(run, name) for name in names}
    extra = Extra(run_id=run.ours.run_id, commit=run.ours.commit, program_version=__version__)
    return ResultRecord(**shared, will_retry=will_retry, reason=plain(text).strip() or "ended", extra=extra)

"""Verifiers, agent, verifiers, until all of them hold or there is no more time; one bead after the other.

Every step is in the bead's file before the next one begins: `status`, and in `ralph_meta` the stage. An agent
that was killed with us at attempt n is asked again as attempt n; one that had ended is not.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from beads_ralph import __version__
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.words import utc_text
from beads_ralph.dod.calling import Caller, branch_of
from beads_ralph.dod.exec_context import Desk, Done, Examiner, ExecBench, held, show
from beads_ralph.dod.files import BeadFile, sha256_of
from beads_ralph.errors import RalphError
from beads_ralph.journal.events import (
    AttemptInterrupted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadReleased,
    WarningGiven,
)
from beads_ralph.journal.evidence_folder import Shelf
from beads_ralph.journal.records import Keeper, StateFolder
from beads_ralph.journal.records.reasons import Reason
from beads_ralph.session import verify
from beads_ralph.session.agent_calls import Answered
from beads_ralph.session.attempts import Exhausted, TimeLeft, until_proven, verdict_event
from beads_ralph.session.host import moment_of

MOST_LIMITS: Final = 20
"""So often an agent's limit is waited out for one attempt; then it is a failure like any other."""
INTERRUPTIONS_KEPT: Final = 20


async def one_by_one(beads: Sequence[BeadFile], desk: Desk, *, verify_only: bool) -> list[Done]:
    """Work on bead files in the order given."""
    done = []
    for one in beads:
        desk.say(f"▶ {one.key}  {one.bead.name}")
        done.append(await (verify_once(one, desk) if verify_only else execute(one, desk)))
    return done


async def execute(found: BeadFile, desk: Desk) -> Done:
    """Work on one bead until it is done or cannot be."""
    with held(found, desk) as (shelf, bench):
        keeper = Keeper(StateFolder(desk.state), desk.place, bench.folder.run_id, source="exec")
        with keeper.listening(bench.journal), _released(shelf, bench):
            return await BeadExecution(found, shelf, desk, bench, desk.caller(found, shelf, bench)).run()


@contextmanager
def _released(shelf: Shelf, bench: ExecBench) -> Iterator[None]:
    """Whatever breaks off the work, the journal says so: the attempt is made again some time."""
    try:
        yield
    except asyncio.CancelledError:
        bench.journal.emit(BeadReleased(bead=shelf.key, reason="interrupted", cancelled=True))
        raise
    except RalphError as error:
        bench.journal.emit(BeadReleased(bead=shelf.key, reason=error.message))
        raise


async def verify_once(found: BeadFile, desk: Desk) -> Done:
    """Only what the verifiers say; no agent is called, and the bead's file stays as it is."""
    with held(found, desk) as (shelf, bench):
        began = time.monotonic()
        rows = await Examiner(found, shelf, bench).examine(0)
        show(rows, desk.say)
        verdict = verify.verdict(rows)
        return Done(
            file=found.path,
            key=shelf.key,
            title=found.bead.name,
            status=found.bead.status,
            passed=verdict.ruling == "pass",
            reason=verdict.message,
            attempts=0,
            rows=rows,
            evidence=[shelf.shown(path) for path in shelf.attached()],
            seconds=time.monotonic() - began,
        )


class BeadExecution:
    """One bead, from what its file says to its end."""

    def __init__(self, found: BeadFile, shelf: Shelf, desk: Desk, bench: ExecBench, caller: Caller) -> None:
        self.found, self.shelf, self.desk, self.bench, self.caller = found, shelf, desk, bench, caller
        self.examiner = Examiner(found, shelf, bench)
        self.run_id = caller.run_id
        self.attempts = 0
        """Those that are over."""
        self.cut = 0
        """The attempt that a killed run was at; it is made again."""
        self.cut_by: Exhausted | None = None
        """What ended the agent of the last attempt: the bead's own time, and not that of a call."""
        self.spent = 0.0
        self.began = time.monotonic()
        self.rows: list[Evidence] = []
        given = "max_iterations" in found.bead.constraints.model_fields_set
        self.most = found.bead.constraints.max_iterations if given else desk.config.exec_max_iterations
        self.warned = 0

    async def run(self) -> Done:
        self._tell_claimed()
        again = self.found.bead.status == "completed"
        self._begin()
        verdict = await self._examine()
        # What a killed agent had finished is the work of its attempt; what it had not, is not judged.
        if not self.cut or verdict.ruling == "pass":
            await self.judged(self.cut or self.attempts, verdict)
        if verdict.ruling == "pass":
            return self._end("completed", verdict.message)
        if again:
            self.shelf.begin()  # it is new work, so the evidence of the old one does not count
        ended = await until_proven(self, verdict.feedback)
        if isinstance(ended, Exhausted):
            return self._end("failed", ended.text, ended.failure)
        return self._end("completed", ended.message)

    # --- the steps ----------------------------------------------------------------------------------

    def _tell_claimed(self) -> None:
        bead = self.found.bead
        event = BeadClaimed(
            bead=self.shelf.key,
            title=bead.name,
            bead_kind="gate" if bead.type == "gate" else "dod",
            plan_file=str(self.found.path),
            branch=branch_of(self.shelf.place),
            max_attempts=self.most,
        )
        self.bench.journal.emit(event)

    def _begin(self) -> None:
        meta, now = self.found.meta, utc_text(datetime.now(UTC))
        if self.found.bead.status == "in_progress":
            self._resume(meta, now)
            return
        if self.found.bead.status != "completed":
            self.shelf.begin()
        earlier = _count(meta.get("earlier_attempts")) + _count(meta.get("attempt_count"))
        self._save(
            status="in_progress",
            stage="verifying",
            attempt_count=0,
            earlier_attempts=earlier,
            started_at=now,
            finished_at=None,
            session=None,
            interruptions=[],
            last_failure_summary=None,
            failure_reason=None,
        )

    def _resume(self, meta: Mapping[str, Any], now: str) -> None:
        """What a run that is no more has done counts; the attempt that it was at is made again."""
        self.attempts = _count(meta.get("attempt_count"))
        spent = meta.get("elapsed_seconds")
        self.spent = float(spent) if isinstance(spent, int | float) and spent > 0 else 0.0
        self.caller.remember(meta.get("session"))
        told = list(said) if isinstance(said := meta.get("interruptions"), list) else []
        if meta.get("stage") == "agent":
            self.cut, self.attempts = self.attempts, max(self.attempts - 1, 0)
            told.append({"run_id": meta.get("run_id"), "attempt": self.cut, "noticed_at": now})
            holder = str(meta.get("run_id"))
            self.bench.journal.emit(AttemptInterrupted(bead=self.shelf.key, attempt=self.cut, holder=holder))
        # The stage stays: were we killed now, the same attempt would have been cut short.
        stage = "agent" if self.cut else "verifying"
        self._save(status="in_progress", stage=stage, interruptions=told[-INTERRUPTIONS_KEPT:])

    async def _examine(self) -> Verdict:
        self.rows = await self.examiner.examine(self.attempts)
        verdict = verify.verdict(self.rows)
        show(self.rows, self.desk.say)
        results = [row.to_json() for row in self.rows]
        self._save(verifier_results=results, last_failure_summary=_summary(verdict))
        return verdict

    # --- attempts, as the engine asks for them --------------------------------------------------------

    async def before_next(self) -> Exhausted | None:
        return self._exhausted() or await self._pause()

    async def attempt(self, number: int, feedback: str | None) -> Verdict:
        self.desk.say(f"→ attempt {number} of {self.most}")
        now = utc_text(datetime.now(UTC))
        self._save(stage="agent", attempt_count=number, last_attempt=now)
        done = await self._call(number, feedback or "")
        self.attempts, self.cut = number, 0
        session = self.caller.remembered()
        self.cut_by = self._out_of_time() if done.ended.timed_out else None
        if done.call.problem:
            text = f"{done.name}: {done.call.problem}"
            self.desk.say(f"  ✗ {text}")
            self._save(stage="failed", session=session, last_failure_summary=text)
            row = Evidence("agent", "git", "", "", "fail", done.call.problem)
            return Verdict("fail", text, [row, *(one for one in self.rows if one.ruling != "pass")])
        self._save(stage="verifying", session=session)
        return await self._examine()

    async def judged(self, number: int, verdict: Verdict) -> None:
        """Tell of it; the file has it. That it was red before the first attempt is no verdict on anybody."""
        if number:
            retry = verdict.ruling != "pass" and number < self.most
            event = verdict_event(number, verdict, will_retry=retry)
            whose = replace(event, bead=self.shelf.key, program=self.caller.program, role="dev")
            self.bench.journal.emit(whose)

    async def _call(self, number: int, feedback: str) -> Answered:
        """The agent's turn. A limit is nobody's failure: it is waited out, as long as there is time."""
        for turn in range(1, MOST_LIMITS + 1):
            done = await self.caller.call(number, self.most, feedback, self._left.seconds)
            if done.reply.trouble != "limit":
                break
            wait = self._until(done.reply.limit_reset_at) or max(self.desk.pace.pause(turn), 1.0)
            left = self._left.seconds
            if left is not None and wait >= left:
                break
            self.desk.say(f"  … {done.call.program} is at a limit; it is asked again in {wait:.0f} s")
            await asyncio.sleep(wait)
        return done

    async def _pause(self) -> Exhausted | None:
        """Wait before the next attempt; why that would be in vain."""
        if not self.attempts or self.cut:
            return None
        seconds = self.desk.pace.pause(self.attempts)
        if over := self._out_of_time(seconds):
            return over
        self._save(stage="waiting", retry_backoff_seconds=math.ceil(seconds))
        if seconds >= 1:
            self.desk.say(f"  … next attempt in {seconds:.0f} s")
        await asyncio.sleep(seconds)
        return self._exhausted()

    def _end(self, status: str, reason: str, failure: Reason | None = None) -> Done:
        attempts = max(self.attempts, self.cut)
        kind = "success" if status == "completed" else "failure"
        attached = self.shelf.attached()
        evidence = [self.shelf.shown(path) for path in attached]
        digests = {self.shelf.shown(path): sha256_of(path) for path in attached}
        done = self._done(status, reason, attempts, evidence)
        self.shelf.record(kind, {**done.to_json(), "run_id": self.run_id, "sha256": digests})
        self._save(
            status=status,
            stage="done",
            attempt_count=attempts,
            finished_at=utc_text(datetime.now(UTC)),
            failure_reason=None if status == "completed" else reason,
            evidence=evidence,
        )
        if status == "completed":
            self.found.move_completed()
        key = self.shelf.key
        self.bench.journal.emit(
            BeadClosed(bead=key, reason=reason)
            if status == "completed"
            else BeadBlocked(bead=key, reason=reason, failure_reason=failure)
        )
        return replace(done, file=self.found.path, warnings=tuple(self.found.warnings))

    def _done(self, status: str, reason: str, attempts: int, evidence: Sequence[str]) -> Done:
        return Done(
            file=self.found.path,
            key=self.shelf.key,
            title=self.found.bead.name,
            status=status,
            passed=status == "completed",
            reason=reason,
            attempts=attempts,
            rows=tuple(self.rows),
            evidence=evidence,
            seconds=self._elapsed(),
        )

    # --- limits -------------------------------------------------------------------------------------

    def _exhausted(self) -> Exhausted | None:
        """Why no further attempt may begin."""
        if self.attempts >= self.most and self.cut_by is None:
            text = f"max_iterations reached: {self.attempts} of {self.most} attempts, and it still fails"
            return Exhausted(text)
        return self.cut_by or self._out_of_time()

    def _out_of_time(self, wanted: float = 0.0) -> Exhausted | None:
        """Of the two limits of time, the one that is reached first, within the seconds that are wanted."""
        left = self._left
        if left.seconds is None or left.seconds > wanted:
            return None
        if left.deadline_is_first:
            text = f"the deadline {self.found.bead.constraints.deadline} has passed or is too near"
            return Exhausted(text, "deadline-passed")
        minutes = self.found.bead.constraints.time_budget_minutes
        return Exhausted(f"the time budget of {minutes} minutes is used up", "budget-used-up")

    @property
    def _left(self) -> TimeLeft:
        bead = self.found.bead
        return TimeLeft.of(bead.deadline(), bead.budget_seconds(), self._elapsed())

    def _until(self, moment: str | None) -> float | None:
        found = moment_of(moment)
        return max((found - datetime.now(UTC)).total_seconds(), 0.0) + 1.0 if found else None

    def _elapsed(self) -> float:
        """Time at work, that of killed runs as far as they could note it down."""
        return self.spent + time.monotonic() - self.began

    # --- the file -----------------------------------------------------------------------------------

    def _save(self, **said: Any) -> None:
        self.found.save(
            self.shelf.home,
            executor_version=__version__,
            run_id=self.run_id,
            elapsed_seconds=round(self._elapsed(), 3),
            **said,
        )
        for text in self.found.warnings[self.warned :]:
            self.bench.journal.emit(WarningGiven(bead=self.shelf.key, message=text))
            self.desk.say(f"! {text}")
        self.warned = len(self.found.warnings)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and value > 0 else 0


def _summary(verdict: Verdict) -> str | None:
    failed = [f"{row.name}: {row.message}" for row in verdict.evidence if row.ruling != "pass"]
    return "; ".join(failed) or None

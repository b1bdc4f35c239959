"""Verifiers, agent, verifiers, until all of them hold or there is no more time; one bead after the other.

Every step is in the bead's file before the next one begins: `status`, and in `ralph_meta` the stage. An agent
that was killed with us at attempt n is asked again as attempt n; one that had ended is not.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from beads_ralph.bead import json_fields
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.words import utc_text
from beads_ralph.dod.file_session import Desk, Done, FileSession, at_work, count_of
from beads_ralph.dod.files import BeadFile, sha256_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal.events import (
    AttemptInterrupted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadReleased,
)
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.keeper import Keeper
from beads_ralph.journal.records.model import Reason
from beads_ralph.session import verify
from beads_ralph.session.agent_calls import Asked
from beads_ralph.session.asking import ask
from beads_ralph.session.order import Halted, Parked
from beads_ralph.session.state import Exhausted, until_proven, verdict_event


async def one_by_one(beads: Sequence[BeadFile], desk: Desk, *, verify_only: bool) -> list[Done]:
    """Work on bead files in the order given."""
    done = []
    for one in beads:
        desk.say(f"▶ {one.key}  {one.bead.name}")
        done.append(await (verify_once(one, desk) if verify_only else execute(one, desk)))
    return done


async def execute(found: BeadFile, desk: Desk) -> Done:
    """Work on one bead until it is done or cannot be."""
    with at_work(found, desk) as (case, journal):
        keeper = Keeper(StateFolder(desk.state), desk.place, case.order.run_id, source="exec")
        with keeper.listening(journal), _released(case):
            return await BeadExecution(case).run()


@contextmanager
def _released(case: FileSession) -> Iterator[None]:
    """Whatever breaks off the work, the journal says so: the attempt is made again some time."""
    try:
        yield
    except asyncio.CancelledError:
        case.tell(BeadReleased(reason="interrupted", cancelled=True))
        raise
    except RalphError as error:
        case.tell(BeadReleased(reason=error.message))
        raise


async def verify_once(found: BeadFile, desk: Desk) -> Done:
    """Only what the verifiers say; no agent is called, and the bead's file stays as it is."""
    with at_work(found, desk) as (case, _):
        case.record.attempts = case.cut = 0
        case.record.seconds_before = 0.0
        rows = await case.examine()
        verdict = verify.verdict(rows)
        return case.done(found.bead.status, verdict.message, rows, passed=verdict.ruling == "pass")


class BeadExecution:
    """One bead, from what its file says to its end."""

    def __init__(self, case: FileSession) -> None:
        self.case, self.desk, self.found, self.shelf = case, case.desk, case.found, case.shelf
        self.rows: list[Evidence] = []

    async def run(self) -> Done:
        case = self.case
        self._tell_claimed()
        again = self.found.bead.status == "completed"
        self._begin()
        await case.host.keep(case.record.state())
        verdict = await self._examine()
        # What a killed agent had finished is the work of its attempt; what it had not, is not judged.
        if not case.cut or verdict.ruling == "pass":
            await self.judged(case.cut or self.attempts, verdict)
        if verdict.ruling == "pass":
            return self._end("completed", verdict.message)
        if again:
            self.shelf.begin()  # it is new work, so the evidence of the old one does not count
        try:
            ended = await until_proven(self, verdict.feedback)
        except Halted as halted:
            return self._end("failed", halted.reason, halted.failure)
        if isinstance(ended, Exhausted):
            return self._end("failed", ended.text, ended.failure)
        return self._end("completed", ended.message)

    # --- the steps ----------------------------------------------------------------------------------

    def _tell_claimed(self) -> None:
        bead = self.found.bead
        event = BeadClaimed(
            title=bead.name,
            bead_kind="gate" if bead.type == "gate" else "dod",
            plan_file=str(self.found.path),
            branch=self.case.metadata.branch,
            max_attempts=self.case.most,
        )
        self.case.tell(event)

    def _begin(self) -> None:
        meta, case = self.found.meta, self.case
        told = json_fields.to_json([row.to_json() for row in case.metadata.interruptions or ()])
        if self.found.bead.status == "in_progress":
            if case.cut:
                case.tell(AttemptInterrupted(attempt=case.cut, holder=str(meta.get("run_id"))))
            # The stage stays: were we killed now, the same attempt would have been cut short.
            case.save(status="in_progress", stage="agent" if case.cut else "verifying", interruptions=told)
            return
        if self.found.bead.status != "completed":
            self.shelf.begin()
        case.save(
            status="in_progress",
            stage="verifying",
            attempt_count=0,
            earlier_attempts=sum(
                int(count_of(meta.get(key))) for key in ("earlier_attempts", "attempt_count")
            ),
            started_at=utc_text(datetime.now(UTC)),
            finished_at=None,
            session=None,
            interruptions=told,
            last_failure_summary=None,
            failure_reason=None,
        )

    async def _examine(self) -> Verdict:
        self.rows = await self.case.examine()
        verdict = verify.verdict(self.rows)
        failed = [f"{row.name}: {row.message}" for row in self.rows if row.ruling != "pass"]
        results = [row.to_json() for row in self.rows]
        self.case.save(verifier_results=results, last_failure_summary="; ".join(failed) or None)
        return verdict

    # --- attempts, as the engine asks for them --------------------------------------------------------

    @property
    def attempts(self) -> int:
        return self.case.record.attempts

    async def before_next(self) -> Exhausted | None:
        return self._exhausted() or await self._pause()

    async def attempt(self, number: int, feedback: str | None) -> Verdict:
        case, record = self.case, self.case.record
        self.desk.say(f"→ attempt {number} of {case.most}")
        case.cut_by = None
        case.denied.clear()
        case.save(stage="agent", attempt_count=number, last_attempt=utc_text(datetime.now(UTC)))
        problem = await self._asked(number, feedback or "")
        record.attempts, case.cut = number, 0
        await case.host.keep(record.state())
        session = json_fields.to_json(record.dev[-1].session) if record.dev else None
        if problem:
            self.desk.say(f"  ✗ {problem}")
            case.save(stage="failed", session=session, last_failure_summary=problem)
            row = Evidence("agent", "git", "", "", "fail", problem)
            rows = [row, *(one for one in self.rows if one.ruling != "pass")]
            return case.with_denials(Verdict("fail", problem, rows))
        case.save(stage="verifying", session=session)
        return case.with_denials(await self._examine())

    async def judged(self, number: int, verdict: Verdict) -> str:
        """Tell of it; the file has it. That it was red before the first attempt is no verdict on anybody."""
        self.case.record.verdict = verdict
        if number:
            retry = verdict.ruling != "pass" and number < self.case.most
            event = verdict_event(number, verdict, will_retry=retry)
            self.case.tell(replace(event, program=self.case.program, role="dev"))
        return verdict.feedback

    async def _asked(self, number: int, feedback: str) -> str:
        """The agent's turn; why it came to nothing, empty where it did not. That nobody can play it now is no
        failure: it is waited for, as long as there is time."""
        case, why = self.case, ""
        prompt = case.prompt(number, feedback)
        asked = Asked(
            self.desk.agent, "dev", prompt, case.worktree, number, f"a{number}-agent", feedback=feedback
        )
        while True:
            try:
                done = await ask(case, asked)
            except Parked as parked:
                why, wait = parked.reason, max((parked.until - datetime.now(UTC)).total_seconds(), 0.0) + 1.0
            except Halted as halted:
                if halted.ending == "blocked":  # this bead's alone; the others may well be done
                    raise
                action = "Do what the message says, then run the same command again"
                raise RalphError(Code.UNAVAILABLE, halted.reason, suggested_action=action) from None
            else:
                return f"{done.doer}: {done.call.problem}" if done.call.problem else ""
            if over := case.exhausted(wait):
                case.cut_by = over
                return why
            self.desk.say(f"  … {why}; asked again in {wait:.0f} s")
            await asyncio.sleep(wait)

    async def _pause(self) -> Exhausted | None:
        """Wait before the next attempt; why that would be in vain."""
        if not self.attempts or self.case.cut:
            return None
        seconds = self.desk.pace.pause(self.attempts)
        if over := self.case.exhausted(seconds):
            return over
        self.case.save(stage="waiting", retry_backoff_seconds=math.ceil(seconds))
        if seconds >= 1:
            self.desk.say(f"  … next attempt in {seconds:.0f} s")
        await asyncio.sleep(seconds)
        return self._exhausted()

    def _exhausted(self) -> Exhausted | None:
        """Why no further attempt may begin."""
        most, cut_by = self.case.most, self.case.cut_by
        if self.attempts >= most and cut_by is None:
            return Exhausted(
                f"max_iterations reached: {self.attempts} of {most} attempts, and it still fails"
            )
        return cut_by or self.case.exhausted()

    # --- the end ------------------------------------------------------------------------------------

    def _end(self, status: str, reason: str, failure: Reason | None = None) -> Done:
        passed = status == "completed"
        done = self.case.done(status, reason, self.rows, passed=passed)
        digests = {self.shelf.shown(path): sha256_of(path) for path in self.shelf.attached()}
        facts = {**done.to_json(), "run_id": self.case.order.run_id, "sha256": digests}
        self.shelf.record("success" if passed else "failure", facts)
        self.case.save(
            status=status,
            stage="done",
            attempt_count=done.attempts,
            finished_at=utc_text(datetime.now(UTC)),
            failure_reason=None if passed else reason,
            evidence=done.evidence,
        )
        if passed:
            self.found.move_completed()
        self.case.tell(
            BeadClosed(reason=reason, standing=done.standing)
            if passed
            else BeadBlocked(reason=reason, failure_reason=failure)
        )
        return replace(done, file=self.found.path, warnings=list(self.found.warnings))

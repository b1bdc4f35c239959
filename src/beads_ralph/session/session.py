"""The built-in scrum-master: takes one bead from its worktree to a pull request, or says why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from beads_ralph.bead.evidence import Verdict
from beads_ralph.bead.run_state import ParkedUntil, RunState
from beads_ralph.bead.words import plural, utc_text
from beads_ralph.errors import Code, RalphError
from beads_ralph.process.calls import in_thread
from beads_ralph.session import judging, worktree, worktree_setup
from beads_ralph.session.attempts import Exhausted, until_proven, verdict_event
from beads_ralph.session.develop import develop
from beads_ralph.session.history import BeadHistory, last_feedback
from beads_ralph.session.host import SessionHost
from beads_ralph.session.order import NOTHING, Ending, Halted, Order, Outcome, Parked, RunSession, Tools
from beads_ralph.session.proposal import propose
from beads_ralph.session.state import BeadSession

WORDS: Final = 3
ITS_OWN: Final = ("VALIDATION.", Code.FORGE_DIVERGED)
"""Errors of one bead, which the others need not wait for."""


def in_process(tools: Tools) -> RunSession:
    """Sessions that work in this process, all with the same tools."""

    async def run_session(order: Order, host: SessionHost) -> Outcome:
        return await work(order, tools, host)

    return run_session


async def work(order: Order, tools: Tools, host: SessionHost) -> Outcome:
    """Work on a bead until there is nothing more to do for now. The host has every attempt on disk.

    Cancelled, it leaves no process and no checkout; what the agents did so far stays in the worktree.
    """
    case = BeadSession(order, tools, host, BeadHistory.of(order.bead, order.session_id))
    try:
        with worktree_setup.taken(case):
            return await _work(case)
    except Parked as parked:
        return _parked(case, parked)
    except Halted as halted:
        return _failed(case, halted.ending, halted.reason)
    except RalphError as error:
        # A bead that is wrong in itself stays so; anything else is the world's, and others would meet it.
        ending: Ending = "blocked" if error.code.startswith(ITS_OWN) else "broken"
        return _failed(case, ending, _words(error))


async def _work(case: BeadSession) -> Outcome:
    record = case.record
    await worktree.clear_locks(case)
    await worktree.bring_back(case)
    unfinished = await worktree.prepare(case)
    if record.proven is not None:
        if case.begun_before and record.proven == await case.head():
            return await propose(case, record.proven)  # an earlier run was killed before the bead was closed
        record.begin_anew()
    finished = await _taken_up(case)
    await in_thread(_open_shelf, case)
    await judging.take_baseline(case)
    feedback = unfinished or last_feedback(case.metadata)
    ended = await until_proven(BeadWork(case, finished=finished), feedback)
    if isinstance(ended, Exhausted):
        return _exhausted(case, ended)
    if ended.ruling == "stop":
        raise Halted("stopped", ended.message)
    return await propose(case, ended.evidence[0].commit)


@dataclass
class BeadWork:
    """A bead of a store, tried in its worktree."""

    case: BeadSession
    finished: bool
    """Whether the developers had done their part when the bead was parked."""

    @property
    def attempts(self) -> int:
        return self.case.record.attempts

    @property
    def _may_retry(self) -> bool:
        return self.case.record.counted < self.case.metadata.max_retry_attempts

    async def before_next(self) -> Exhausted | None:
        case, record = self.case, self.case.record
        if not self._may_retry:
            last = record.verdict.message if record.verdict else "all of them were used up before"
            text = f"{plural(record.counted, 'attempt')} did not suffice; the last: {last}"
            return case.cut_by or Exhausted(text)
        if why := await case.host.why_pause():
            return Exhausted(why, paused=True)
        return case.exhausted()

    async def attempt(self, number: int, feedback: str | None) -> Verdict:
        self.case.denied.clear()
        self.case.cut_by = None
        try:
            verdict = await _tried(self.case, number, feedback, finished=self.finished)
        except RalphError as error:
            verdict = await judging.after_damage(self.case, error)
        self.finished = False
        return _with_denials(verdict, list(dict.fromkeys(self.case.denied)))

    async def judged(self, number: int, verdict: Verdict) -> None:
        case, record = self.case, self.case.record
        case.examined = None
        record.attempts, record.verdict = number, verdict
        record.proven = verdict.evidence[0].commit if verdict.ruling == "pass" else None
        await case.host.keep(record.state())
        will_retry = verdict.ruling == "fail" and self._may_retry
        case.tell(verdict_event(number, verdict, will_retry=will_retry))


def _with_denials(verdict: Verdict, denied: list[str]) -> Verdict:
    """Whoever reads why nothing came of it should not have to look for it in a transcript."""
    if not denied:
        return verdict
    hints = [f"{text}: allow it in the options of the agent" for text in denied]
    message = verdict.message if verdict.ruling == "pass" else "; ".join([verdict.message, *hints])
    return replace(verdict, message=message, flags=[*verdict.flags, *hints])


async def _tried(case: BeadSession, attempt: int, feedback: str | None, *, finished: bool) -> Verdict:
    if not case.worktree.is_dir():  # the last agent removed it; what it had committed is on the branch
        await worktree.prepare(case)
    await worktree.clear_locks(case)
    await worktree.bring_back(case)
    outside = await judging.look_around(case)
    problem, reason = await worktree.bring_together(case, attempt, feedback), "merge-conflict"
    # What git merged by itself needs no developer, unless something was found wrong with it.
    if not problem and not finished and not (case.merges and feedback is None):
        await worktree_setup.set_up(case)
        await judging.take_baseline(case)
        problem = await develop(case, attempt, feedback)
        reason = "scrum-master-failed"  # of a dev agent, its call itself says what was wrong
    if problem:
        return await judging.failed(case, problem, await judging.put_back(case, attempt), reason=reason)
    return await judging.check(case, attempt, outside)


def _open_shelf(case: BeadSession) -> None:
    """Evidence counts from the first attempt on, in whichever run that was."""
    if case.shelf is not None and not case.shelf.begun:
        case.shelf.make()
        case.shelf.begin()


async def _taken_up(case: BeadSession) -> bool:
    """A bead that was parked goes on where it stopped; whether nothing but the checks is left to do."""
    parked = case.metadata.parked
    return parked is not None and bool(parked.commit) and parked.commit == await case.head()


# --- ends ---------------------------------------------------------------------------------------------


def _failed(case: BeadSession, ending: Ending, reason: str) -> Outcome:
    result = case.record.result(success=False, error=reason, fatal=ending == "stopped", pull=None)
    return _ended(case, ending, reason, RunState(scrum_result=result))


def _exhausted(case: BeadSession, used_up: Exhausted) -> Outcome:
    if used_up.paused:
        return _ended(case, "paused", used_up.text)
    return replace(_failed(case, "blocked", used_up.text), failure=used_up.failure)


def _words(error: RalphError) -> str:
    """What went wrong, in the words of whoever refused, and what to do."""
    details = error.details if isinstance(error.details, str) else ""
    said = "; ".join(line.strip() for line in details.splitlines()[:WORDS] if line.strip())
    return f"{error.message}{': ' if said else ''}{said} ({error.suggested_action})"


def _ended(case: BeadSession, ending: Ending, reason: str, more: RunState = NOTHING) -> Outcome:
    record = case.record
    state = record.state().changed(more)
    return Outcome(ending, reason, state, None, record.attempts - record.before, record.usage)


def _parked(case: BeadSession, parked: Parked) -> Outcome:
    record = case.record
    waits = ParkedUntil(
        until=utc_text(parked.until),
        reason=parked.reason,
        programs={name: utc_text(until) for name, until in parked.programs.items()},
        commit=case.examined,
    )
    return Outcome(
        "parked",
        parked.reason,
        record.state().changed(RunState(parked=waits)),
        attempts=record.attempts - record.before,
        usage=record.usage,
        retry_at=parked.until.isoformat(),
    )

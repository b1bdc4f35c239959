"""The built-in scrum-master: takes one bead from its worktree to a pull request, or says why not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph.agents.players import names_scrum_master
from beads_ralph.bead.evidence import Verdict
from beads_ralph.bead.findings import CALLER, still_asked
from beads_ralph.bead.names import persona_name
from beads_ralph.bead.run_state import HISTORY, ParkedUntil, RunState, ScrumResult
from beads_ralph.bead.words import plural, utc_text
from beads_ralph.errors import BeadRefused, Code, RalphError
from beads_ralph.files import disk
from beads_ralph.git import commands
from beads_ralph.process.calls import in_thread
from beads_ralph.session import checks, judging, prompting, worktree, worktree_rest, worktree_setup
from beads_ralph.session.agent_calls import Answered, Asked
from beads_ralph.session.asking import ask
from beads_ralph.session.history import BeadHistory
from beads_ralph.session.order import (
    NOTHING,
    Ending,
    Halted,
    Order,
    Outcome,
    Parked,
    RunSession,
    SessionHost,
    Tools,
)
from beads_ralph.session.proposal import propose
from beads_ralph.session.state import BeadSession, Exhausted, until_proven, verdict_event

WORDS: Final = 3
LAST_WORDS: Final = 4000
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
        with disk.named(*case.disks), worktree_setup.taken(case):
            return await _work(case)
    except Parked as parked:
        return _parked(case, parked)
    except Halted as halted:
        return replace(_failed(case, halted.ending, halted.reason), failure=halted.failure)
    except RalphError as error:
        # A bead that is wrong in itself stays so; anything else is the world's, and others would meet it.
        its_own = error.code.startswith(ITS_OWN) or isinstance(error, BeadRefused)
        return _failed(case, "blocked" if its_own else "broken", _words(error))


async def _work(case: BeadSession) -> Outcome:
    record = case.record
    await worktree.settle(case)
    await worktree.clear_locks(case)
    await worktree.bring_back(case)
    unfinished = await worktree.prepare(case)
    if record.proven is not None:
        if case.begun_before and case.was_given and record.proven == await case.head():
            return await propose(case, record.proven)  # an earlier run was killed before the bead was closed
        record.begin_anew()
    finished = await _taken_up(case)
    await in_thread(_open_shelf, case)
    await checks.take_baseline(case)
    case.half_done = unfinished or ""
    commands = [*(one.command for one in case.verifiers), case.tools.config.worktree_setup or ""]
    reviewers = [persona_name(spec.agent) for spec in case.metadata.qa_agents]
    record.findings = still_asked(record.findings, commands, reviewers)
    feedback = "\n\n".join(text for text in (unfinished, record.feedback) if text)
    ended = await until_proven(BeadWork(case, finished=finished), feedback or None)
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
            last = record.verdict.message if record.verdict else "none in this run, they were used up before"
            text = f"blocked after {plural(record.counted, 'attempt')}; last failure: {last}"
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
        if verdict.ruling == "fail" and (place := await in_thread(disk.full_place, *self.case.disks)):
            raise disk.full([place], verdict.message)  # nobody can tell what else is wrong
        return self.case.with_denials(verdict)

    async def judged(self, number: int, verdict: Verdict) -> str | None:
        case, record = self.case, self.case.record
        case.examined, case.half_done = None, ""
        record.judge(number, verdict)
        await case.host.keep(record.state())
        will_retry = verdict.ruling == "fail" and self._may_retry
        case.tell(verdict_event(number, verdict, will_retry=will_retry))
        return record.feedback


async def _tried(case: BeadSession, attempt: int, feedback: str | None, *, finished: bool) -> Verdict:
    if not case.worktree.is_dir():  # the last agent removed it; what it had committed is on the branch
        await worktree.prepare(case)
    await worktree.clear_locks(case)
    await worktree.bring_back(case)
    outside = await judging.look_around(case)
    if case.unmerged or case.tools.config.worktree_setup:  # both write there
        await worktree_rest.settle(case)
        case.rest = None
    problem, reason = await worktree.bring_together(case, attempt, feedback), "merge-conflict"
    # What git merged by itself needs no developer, unless there is more to do, or something wrong with it.
    if not problem and not finished and (case.metadata.dev_prompts or feedback is not None):
        await worktree_setup.set_up(case)
        if case.rest is None:
            await worktree_rest.note(case)
        await checks.take_baseline(case)
        await worktree_rest.settle(case)
        case.rest = None
        problem = await develop(case, attempt, feedback)
        reason = "scrum-master-failed"  # of a dev agent, its call itself says what was wrong
    if problem:
        await worktree_rest.note(case)
        flags = await judging.put_back(case, attempt)
        return await judging.failed(case, problem, flags, reason, by=CALLER)
    return await judging.check(case, attempt, outside)


def _open_shelf(case: BeadSession) -> None:
    """Evidence counts from the first attempt on, in whichever run that was."""
    if case.shelf is not None and not case.shelf.begun:
        case.shelf.make()
        case.shelf.begin()


async def _taken_up(case: BeadSession) -> bool:
    """A bead goes on after the last stage that ended well; whether nothing but the checks is left to do."""
    parked, record, head = case.metadata.parked, case.record, await case.head()
    seen = (parked.commit if parked is not None else None) or case.metadata.unreviewed
    if seen not in (None, "", head) or not await _is_still_there(case, head):
        record.reached = None
    if seen:
        return seen == head and case.was_given
    needed = 1 if names_scrum_master(case.bead) else len(case.metadata.dev_agents)
    return record.stages.developers >= needed and case.was_given


async def _is_still_there(case: BeadSession, head: str) -> bool:
    """Whether the branch holds what the developers left there, in whichever run."""
    left = case.record.stages.commit
    if not case.begun_before:
        return False
    return left in ("", head) or await in_thread(commands.contains, case.tools.root, head, left)


# --- ends ---------------------------------------------------------------------------------------------


def _failed(case: BeadSession, ending: Ending, reason: str) -> Outcome:
    result = case.record.result(success=False, error=reason, fatal=ending == "stopped", pull=None)
    return _ended(case, ending, reason, RunState(scrum_result=result, unreviewed=case.examined))


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
    waits = ParkedUntil(
        until=utc_text(parked.until),
        reason=parked.reason,
        programs={name: utc_text(until) for name, until in parked.programs.items()},
        commit=case.examined,
    )
    ended = _ended(case, "parked", parked.reason, RunState(parked=waits))
    return replace(ended, retry_at=parked.until.isoformat())


# --- the work itself: by the dev agents in order, or by a scrum-master agent of the user's own --------


async def develop(case: BeadSession, attempt: int, feedback: str | None) -> str:
    """Have the tasks done; why that came to nothing, empty where it did not."""
    if names_scrum_master(case.bead):
        return await _lead(case, attempt, feedback)
    done_before = case.record.stages.developers
    for number, spec in enumerate(case.metadata.dev_agents[done_before:], done_before + 1):
        asked = Asked(
            spec,
            "dev",
            await in_thread(prompting.developer, case, spec, attempt),
            case.worktree,
            attempt,
            f"a{attempt}-dev-{number}",
            seat=number,
            feedback=feedback,
        )
        done = await ask(case, asked)
        if done.call.problem:
            return f"dev agent {done.doer} {done.call.problem}"
        case.record.note_developed(number, done.call.commit)
    return ""


# --- a scrum-master of the user's own -----------------------------------------------------------------


async def _lead(case: BeadSession, attempt: int, feedback: str | None) -> str:
    """It leads the dev and QA agents in its own way. What it reports decides only what is worth checking:
    the branch, the checks and the pull request are looked at afterwards, as for any other developer."""
    prompt = scrum_prompt(case) if feedback is None else _recovery_prompt(case, attempt, feedback, "")
    done = await _call(case, attempt, prompt, f"a{attempt}-scrum", feedback)
    said, flaw = _result(done)
    if said is None and not done.call.problem:
        prompt = _recovery_prompt(case, attempt, f"The answer cannot be used: {flaw}", done.reply.text)
        done = await _call(case, attempt, prompt, f"a{attempt}-scrum-answer", flaw)
        said, flaw = _result(done)
    if done.call.problem:
        return f"scrum-master {done.doer} {done.call.problem}"
    if said is None:
        return f"scrum-master {done.doer} gave no result that can be read, twice: {flaw}"
    if said.fatal:
        raise Halted("stopped", f"scrum-master {done.doer} says fatal: {said.error or 'no reason'}")
    if not said.success:
        return f"scrum-master {done.doer} did not succeed: {said.error or 'no reason given'}"
    case.claimed_pull = said.pr_url
    case.record.note_developed(1, done.call.commit)
    return ""


async def _call(case: BeadSession, attempt: int, prompt: str, name: str, feedback: str | None) -> Answered:
    spec = case.metadata.scrum_master_agent
    asked = Asked(spec, "scrum-master", prompt, case.worktree, attempt, name, feedback=feedback)
    done = await ask(case, asked)
    case.record.session_id = done.reply.session_id or case.record.session_id
    return done


def _result(done: Answered) -> tuple[ScrumResult | None, str]:
    """The seed's ScrumResult, or what is wrong with the answer; its id and counts are not ours to trust."""
    if done.reply.result is None:
        return None, done.reply.detail or "it has no fenced json block"
    said: Mapping[str, Any] = {"bead_id": "", **done.reply.result}
    known = {key: said[key] for key in ("bead_id", "success", "pr_url", "error", "fatal") if key in said}
    try:
        return ScrumResult.model_validate(known), ""
    except ValidationError as problem:
        first = problem.errors()[0]
        return None, f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def scrum_prompt(case: BeadSession) -> str:
    place = case.metadata
    return case.tools.prompts.render(
        "scrum-master",
        bead_id=case.bead.id,
        worktree=str(case.worktree),
        branch=place.branch,
        source_branch=place.source_branch,
        team=place.team_name,
        plan_file=place.plan_file,
        plan_section=place.plan_section,
        bead=_told_bead(case),
    )


def _told_bead(case: BeadSession) -> str:
    told = case.bead.to_json()
    told["metadata"] = {key: value for key, value in told["metadata"].items() if key not in HISTORY}
    return json.dumps(told, indent=2, ensure_ascii=False)


def _recovery_prompt(case: BeadSession, attempt: int, problem: str, answer: str) -> str:
    return case.tools.prompts.render(
        "scrum-recovery",
        bead_id=case.bead.id,
        worktree=str(case.worktree),
        branch=case.metadata.branch,
        source_branch=case.metadata.source_branch,
        recovery=max(attempt - case.record.forgiven - 1, 1),
        max_recoveries=max(case.metadata.max_retry_attempts - 1, 1),
        bead=_told_bead(case),
        problem=problem,
        last_answer=answer[-LAST_WORDS:],
    )

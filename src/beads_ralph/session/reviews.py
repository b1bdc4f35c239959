"""QA agents look at what passed its verifiers: each is asked for one verdict, on a clean checkout."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from beads_ralph.agents.players import players
from beads_ralph.agents.verdicts import Judgement, NoVerdict, Question, judge
from beads_ralph.bead.agent_call import Session
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.model import OUTPUT_SCHEMA, AgentSpec
from beads_ralph.journal.events import WarningGiven
from beads_ralph.process.calls import in_thread
from beads_ralph.session import gate_files, prompting, qa_guard, verify, worktree_setup
from beads_ralph.session.agent_calls import Answered, Asked
from beads_ralph.session.asking import ask
from beads_ralph.session.order import Halted
from beads_ralph.session.prompting import ReviewedChange
from beads_ralph.session.state import BeadSession
from beads_ralph.session.worktree import ref_word


async def examine(
    case: BeadSession, attempt: int, commit: str, change: ReviewedChange
) -> tuple[list[Evidence], list[str]]:
    """What every QA agent says of a commit that passed its verifiers, and what a person should know of it. If
    one of them changed what it was to judge, all are asked once more: that is no fault of the work. Nor is it
    where one gives no verdict; that ends the work here, unless another one has found something to mend."""
    case.examined = commit
    rows, flags, meddled = await _examined(case, attempt, commit, change)
    if meddled:
        text = f"{meddled}. They are asked again"
        case.tell(WarningGiven(attempt=attempt, message=text))
        rows, more, meddled = await _examined(case, attempt, commit, change, meddled)
        flags += [flag for flag in more if flag not in flags]
    if meddled:
        raise _undecided(case, meddled)
    return rows, flags


def _undecided(case: BeadSession, why: str) -> Halted:
    """Nobody has judged the work, and its developer can do nothing about it. The commit is kept: the reviewer
    is asked about the same one when somebody has seen to that."""
    again = f"see to that, then: beads-ralph retry {case.bead.id} (it goes on with the review)"
    return Halted("blocked", f"{why}; {again}", "qa-no-verdict")


async def _examined(
    case: BeadSession, attempt: int, commit: str, change: ReviewedChange, flaw: str = ""
) -> tuple[list[Evidence], list[str], str]:
    """Every QA agent at the same time, on one clean checkout; what they change there is thrown away. Files
    that would steer them are as the base has them. The last of the answer is what they did that makes their
    word worth nothing."""
    place = (case.tools.root, case.worktree, case.metadata.branch, commit)
    in_reach = not case.tools.is_out_of_reach(case.worktree)
    before = await in_thread(partial(qa_guard.scene, *place, in_reach=in_reach))
    async with case.clean_checkout(commit) as clean:
        steers = gate_files.steering(change.changed)
        new = [file for file in steers if file in change.added]
        await in_thread(clean.lay_over, case.base, [file for file in steers if file not in new], new)
        setup = f"a{attempt}-qa-setup{_anew(flaw)}"
        if unready := await worktree_setup.furnish_checkout(case, clean.path, commit, setup):
            return unready, [], ""
        world = case.tools.world
        if misled := await in_thread(world.misleading, clean.path) if world else "":
            raise Halted("broken", misled)  # the world's trouble: this work is as good as it was
        config = case.tools.config
        furnished = await in_thread(clean.changed) if config.worktree_setup or config.worktree_files else []
        asked = [
            _Review(case, number, attempt, commit, change, clean.path, flaw)
            for number in range(1, len(case.metadata.qa_agents) + 1)
        ]
        answers = await _all([review.answer() for review in asked])
        flags, mended = await in_thread(qa_guard.in_checkout, clean, furnished)
    neighbours = await case.host.branches_beside()
    aside = f"{ref_word(case.bead.id)}-{attempt}{_anew(flaw)}"
    more, meddling = await in_thread(qa_guard.elsewhere, before, aside, neighbours)
    meddled = "; ".join(text for text in (mended, meddling) if text)
    found = [one for one in answers if isinstance(one, Evidence)]
    silent = [one.reason for one in answers if isinstance(one, Silence)]
    if silent and not meddled and all(row.ruling == "pass" for row in found):
        raise _undecided(case, "; ".join(silent))
    return found, [*flags, *more], meddled


def _anew(flaw: str) -> str:
    """The end of every name in the second round, so that nothing of the first is overwritten."""
    return "-anew" if flaw else ""


async def _all(reviews: Sequence[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Where one of them ends the work, the others are not left running without anybody to hear them."""
    tasks = [asyncio.ensure_future(review) for review in reviews]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class Silence:
    """A reviewer who gave no verdict, however often it was asked."""

    reason: str


Answer = Evidence | Silence
FIRST: Final = ""
AGAIN: Final = "-again"
OTHER: Final = "-other"


@dataclass(frozen=True)
class _Asking:
    """One turn of a reviewer."""

    spec: AgentSpec
    flaw: str = ""
    """What was wrong with the answer before."""
    turn: str = FIRST
    """The end of its transcript's name."""
    session: Session | None = None
    """The one to go on in."""


@dataclass(frozen=True)
class _Review:
    """One QA agent's look at the commit. Where its answer is no verdict, it is asked once more in the same
    session, and then each other program that may play it; nobody is asked without end."""

    case: BeadSession
    number: int
    attempt: int
    commit: str
    change: ReviewedChange
    checkout: Path
    flaw: str = ""
    """Why the answers before this one could not be used."""

    async def answer(self) -> Answer:
        question, last = Question(self.case.bead.id, self.commit), _Asking(self.spec, self.flaw)
        waiting = [last]
        while waiting:
            last = waiting.pop(0)
            done, judged = await self._asked(question, last)
            if not isinstance(judged, NoVerdict):
                return self._evidence(done, judged)
            if last.turn == FIRST:
                waiting = self._further(done, judged)
            if over := self.case.exhausted():
                raise Halted("blocked", over.text, over.failure)
            if why := await self.case.host.why_pause():
                raise Halted("paused", why)
            if waiting:
                self.case.record.add_usage(done.call.usage)
                self._tell_again(done, judged)
        self.case.record.add_qa(done.call, self.commit, judged)
        return Silence(f"reviewer {done.name} gave no verdict that can be read: {judged.message}")

    def _further(self, done: Answered, judged: Judgement) -> list[_Asking]:
        """Whom to ask after the first answer: the same once more, then who else may play it."""
        known = players(self.spec, self.case.tools)
        at = next((n for n, one in enumerate(known) if one.program == done.call.program), len(known))
        same = _Asking(done.spec, judged.message, AGAIN, done.call.session)
        others = [
            _Asking(player.spec, "", f"{OTHER}-{number}") for number, player in enumerate(known[at + 1 :], 1)
        ]
        return [same, *others]

    def _tell_again(self, done: Answered, judged: Judgement) -> None:
        text = f"{done.name} gave no verdict that can be used and is asked again: {judged.message}"
        self.case.tell(WarningGiven(attempt=self.attempt, message=text))

    def _evidence(self, done: Answered, judged: Judgement) -> Evidence:
        self.case.record.add_qa(done.call, self.commit, judged)
        return Evidence(
            name=done.name,
            kind="qa",
            command=done.call.program,
            commit=self.commit,
            ruling=judged.ruling,
            message=judged.message,
            exit_code=done.ended.code,
            seconds=done.ended.seconds,
            output_sha256=verify.hash_of(done.ended.transcript),
            details=judged.details,
        )

    @property
    def spec(self) -> AgentSpec:
        return self.case.metadata.qa_agents[self.number - 1]

    async def _asked(self, question: Question, asking: _Asking) -> tuple[Answered, Judgement]:
        own = self.spec.output_schema or OUTPUT_SCHEMA
        schema = question.schema(own)
        told = (self.case, self.number, self.change, question, self.checkout, schema, asking.flaw)
        asked = Asked(
            asking.spec.model_copy(update={"output_schema": schema}),
            "qa",
            await in_thread(prompting.reviewer, *told),
            self.checkout,
            self.attempt,
            f"a{self.attempt}-qa-{self.number}{_anew(self.flaw)}{asking.turn}",
            seat=self.number,
            session=asking.session,
        )
        done = await ask(self.case, asked)
        must = self.case.tools.select(done.call.program).profile.reads_prompts
        if not must and done.reply.result:
            change = (self.case.worktree, self.case.base, self.commit)
            must = await in_thread(qa_guard.is_quoted, done.reply.result, *change)
        return done, judge(done.reply, done.ended, own, question, must_repeat=must)

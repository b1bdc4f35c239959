"""QA agents look at what passed its verifiers: each is asked for one verdict, on a clean checkout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from beads_ralph.agents.players import players
from beads_ralph.agents.verdicts import Judgement, NoVerdict, Question, judge
from beads_ralph.bead.agent_call import Session
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.model import OUTPUT_SCHEMA, AgentSpec
from beads_ralph.bead.stages import Review
from beads_ralph.journal.events import ReviewGiven, WarningGiven
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
    panel = _Panel.of(case, attempt, commit, change) if not flaw else _Panel(case, attempt, commit, change)
    if not panel.seats:
        return panel.rows, panel.flags, ""
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
        untouched = partial(qa_guard.is_untouched, clean, furnished, before)
        asked = [_Review(case, number, attempt, commit, change, clean.path, flaw) for number in panel.seats]
        answers = await _all([panel.hear(review, untouched) for review in asked])
        flags, mended = await in_thread(qa_guard.in_checkout, clean, furnished)
    neighbours = await case.host.branches_beside()
    aside = f"{ref_word(case.bead.id)}-{attempt}{_anew(flaw)}"
    more, meddling = await in_thread(qa_guard.elsewhere, before, aside, neighbours)
    meddled = "; ".join(text for text in (mended, meddling) if text)
    silent = [one.reason for one in answers if isinstance(one, Silence)]
    if meddled:
        case.record.forget_reviews()
    else:
        panel.keep_all()
    if silent and not meddled and all(row.ruling == "pass" for row in panel.rows):
        raise _undecided(case, "; ".join(silent))
    return panel.rows, [*flags, *more, *panel.flags], meddled


@dataclass
class _Panel:
    """Those who judge one commit at the same time. A verdict is kept as soon as it is sure that nobody had
    changed what it is about: whatever ends the others, its reviewer is not asked again."""

    case: BeadSession
    attempt: int
    commit: str
    change: ReviewedChange
    kept: dict[int, Review] = field(default_factory=dict)
    """By seat: those that are in the journal, of this run or of an earlier one."""
    given: dict[int, Evidence] = field(default_factory=dict)

    @classmethod
    def of(cls, case: BeadSession, attempt: int, commit: str, change: ReviewedChange) -> _Panel:
        """With the verdicts of an earlier run that was cut off, as far as they are on this very question."""
        panel, stages = cls(case, attempt, commit, change), case.record.stages
        before = [one for one in stages.reviews if one.is_on(commit, panel.told(one.seat), change.flags)]
        panel.kept = {one.seat: one for one in before}
        panel.given = {one.seat: one.check for one in before}
        return panel

    @property
    def seats(self) -> list[int]:
        """Who is to be asked."""
        every = range(1, len(self.case.metadata.qa_agents) + 1)
        return [seat for seat in every if seat not in self.kept]

    @property
    def rows(self) -> list[Evidence]:
        return [self.given[seat] for seat in sorted(self.given)]

    @property
    def flags(self) -> list[str]:
        """What earlier verdicts were told and nobody has raised again."""
        raised = dict.fromkeys(flag for one in self.kept.values() for flag in one.flags)
        return [flag for flag in raised if flag not in self.change.flags]

    def told(self, seat: int) -> str:
        return prompting.fingerprint(self.case, seat, self.change) if self._has(seat) else ""

    def _has(self, seat: int) -> bool:
        return 0 < seat <= len(self.case.metadata.qa_agents)

    async def hear(self, review: _Review, untouched: Callable[[], bool]) -> Answer:
        answer = await review.answer()
        if isinstance(answer, Evidence):
            self.given[review.number] = answer
            if len(self.given) < len(self.case.metadata.qa_agents) and await in_thread(untouched):
                self._keep(review.number)
        return answer

    def keep_all(self) -> None:
        for seat in sorted(self.given.keys() - self.kept.keys()):
            self._keep(seat)

    def _keep(self, seat: int) -> None:
        review = Review(seat, self.told(seat), self.given[seat], tuple(self.change.flags))
        self.kept[seat] = review
        self.case.record.note_reviewed(review)
        self.case.tell(
            ReviewGiven(
                attempt=self.attempt, seat=seat, told=review.told, check=review.check, flags=review.flags
            )
        )


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

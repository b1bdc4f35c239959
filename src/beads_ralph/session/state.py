"""One bead at work: what is asked, what it is done with, what is known of it so far, and its attempts.

`run` works so on a bead of a store, in a worktree, towards a pull request (`session/session.py`); `exec` on a
bead file, in place (`dod/execute.py`). What an attempt is made of is theirs, and so is where its verdict is
kept. How agents are called, what a bead may cost, when another attempt begins and what ends them all is the
same for both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from beads_ralph.bead.evidence import Verdict
from beads_ralph.bead.model import Bead, Metadata, Verifier
from beads_ralph.bead.names import MERGE
from beads_ralph.bead.redaction import redacted
from beads_ralph.bead.usage import Budget
from beads_ralph.files.snapshot import Snapshot
from beads_ralph.git import proofs, worktree_status
from beads_ralph.git.checkout import Checkout
from beads_ralph.git.proofs import Proofs
from beads_ralph.journal.events import Event, VerdictGiven
from beads_ralph.journal.records.model import Reason
from beads_ralph.journal.runs import EVIDENCE, Shelf
from beads_ralph.process.calls import in_thread
from beads_ralph.process.ports import LentPorts
from beads_ralph.session.history import BeadHistory
from beads_ralph.session.order import ORDER, Order, SessionHost, Tools
from beads_ralph.session.program_limits import ProgramLimit, known_moment
from beads_ralph.session.verify import Bench


@dataclass(frozen=True)
class Exhausted:
    """Why no further attempt may begin."""

    text: str
    failure: Reason | None = None
    """The records' word for it, where it is not that of the last attempt."""
    paused: bool = False
    """Only for now: whoever sent the work wants no more of it."""


@dataclass(frozen=True)
class TimeLeft:
    """The seconds until the deadline of some work, and those of its own time; None for no such limit."""

    to_deadline: float | None
    of_budget: float | None

    @classmethod
    def of(cls, deadline: datetime | None, budget: float | None, spent: float) -> TimeLeft:
        to_deadline = None if deadline is None else (deadline - datetime.now(UTC)).total_seconds()
        return cls(to_deadline, None if budget is None else budget - spent)

    @property
    def seconds(self) -> float | None:
        return min((left for left in (self.to_deadline, self.of_budget) if left is not None), default=None)

    @property
    def deadline_is_first(self) -> bool:
        return self.to_deadline is not None and self.to_deadline == self.seconds


@dataclass(frozen=True)
class WorktreeRest:
    """The worktree as whoever had business there left it."""

    head: str
    dirty: Snapshot
    """What was not committed."""


@dataclass
class BeadSession:
    """What the stages of a session share."""

    order: Order
    tools: Tools
    host: SessionHost
    record: BeadHistory
    base: str = ""
    """The commit that the bead's own work lies after."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """The source branch as it was when the work was taken up, here and on origin: refs and commits."""
    begun_before: bool = False
    """Whether an earlier session began this work, and nobody has closed it since."""
    unmerged: bool = False
    """Whether something is still to be merged into the worktree."""
    denied: list[str] = field(default_factory=list)
    """Which tools the agents of this attempt asked for in vain."""
    left_behind: list[str] = field(default_factory=list)
    """What its agents did in their quarantine and nobody has taken over; not told yet."""
    rest: WorktreeRest | None = None
    """The worktree as it is to be when the next agent starts; None where nobody knows."""
    examined: str | None = None
    """The commit that the QA agents are looking at, or were when they met a limit."""
    half_done: str = ""
    """What an earlier agent has begun in the worktree and not ended, as the next one is told."""
    ports: LentPorts | None = None
    """Those that are lent to the bead while it is at work."""
    lent: list[str] = field(default_factory=list)
    """Files in the worktree that no commit may hold."""
    unable: dict[tuple[str, int, str, str], ProgramLimit] = field(default_factory=dict)
    """By role, seat, agent and program: those that will not do this, however often they are asked."""
    cut_by: Exhausted | None = None
    """What ended the last agent of this attempt: the bead's own time, and not that of a call."""
    claimed_pull: str | None = None
    """The pull request that a scrum-master agent says it has opened."""

    @property
    def bead(self) -> Bead:
        return self.order.bead

    @property
    def metadata(self) -> Metadata:
        return self.order.bead.metadata

    @property
    def worktree(self) -> Path:
        return Path(self.metadata.worktree_path)

    @property
    def disks(self) -> tuple[Path, ...]:
        """Where the work is written: each may lie on a disk of its own."""
        return (self.worktree, self.tools.root, self.tools.folder.home)

    @property
    def env(self) -> Mapping[str, str]:
        """What every process that works for this bead is told."""
        own = {ORDER: self.order.id, **(self.ports.env if self.ports else {})}
        return {**own, EVIDENCE: str(self.shelf.evidence)} if self.shelf else own

    @property
    def shelf(self) -> Shelf | None:
        """Where evidence goes; None where the bead asks for none."""
        asked = self.metadata.dod is not None and self.metadata.dod.evidence_required
        return Shelf(self.tools.root, self.bead.id) if asked else None

    @property
    def bench(self) -> Bench:
        return self.tools.bench(self.host)

    @property
    def merges(self) -> bool:
        return self.bead.issue_type == MERGE

    @property
    def was_given(self) -> bool:
        """Whether somebody was asked to do the tasks; once, those of a merge were given to nobody."""
        return not (self.merges and self.metadata.dev_prompts) or self.record.was_given

    @property
    def verifiers(self) -> list[Verifier]:
        own = self.metadata.dod.verifiers if self.metadata.dod else []
        unique = {verifier.command: verifier for verifier in (*own, *self.order.merged_verifiers)}
        return list(unique.values())

    def tell(self, event: Event) -> None:
        """Tell whoever sent us what happened to this bead."""
        self.host.emit(replace(event, bead=self.bead.id, team=self.metadata.team_name))

    # --- what it may cost ---

    @property
    def budget(self) -> Budget:
        """What the bead itself says goes before the settings."""
        own, config = self.metadata, self.tools.config
        return Budget(
            own.timeout_minutes or config.bead_budget_minutes,
            own.budget_usd or config.bead_budget_usd,
            own.budget_tokens or config.bead_budget_tokens,
        )

    @property
    def time_left(self) -> TimeLeft:
        minutes = self.budget.minutes
        return TimeLeft.of(self.deadline, None if minutes is None else minutes * 60, self.record.seconds)

    @property
    def deadline(self) -> datetime | None:
        """By when it must be done."""
        return known_moment(self.metadata.deadline)

    def exhausted(self) -> Exhausted | None:
        """Which of the bead's own budgets is used up."""
        if self.deadline is not None and self.deadline <= datetime.now(UTC):
            text = f"the bead's deadline, {self.deadline:%Y-%m-%dT%H:%M:%SZ}, has passed"
            return Exhausted(text, "deadline-passed")
        used_up = self.budget.used_up(self.record.spent, self.record.seconds)
        return Exhausted(f"the bead's {used_up}; {self.again}", "budget-used-up") if used_up else None

    @property
    def again(self) -> str:
        """How it gets another budget."""
        return f"beads-ralph retry {self.bead.id} gives it as much again"

    @property
    def retry(self) -> str:
        """How it is tried again once it is blocked."""
        return f"beads-ralph retry {self.bead.id}"

    @property
    def go_on(self) -> str:
        """How a run goes on that has ended."""
        return "beads-ralph run"

    # --- doing it ---

    def with_denials(self, verdict: Verdict) -> Verdict:
        """Whoever reads why nothing came of it should not have to look for it in a transcript."""
        if not self.denied:
            return verdict
        hints = [f"{text}: allow it in the options of the agent" for text in dict.fromkeys(self.denied)]
        message = verdict.message if verdict.ruling == "pass" else "; ".join([verdict.message, *hints])
        return replace(verdict, message=message, flags=[*verdict.flags, *hints])

    async def head(self) -> str:
        return await in_thread(worktree_status.head, self.worktree)

    @property
    def proofs(self) -> Proofs:
        """Where commits are proven."""
        return proofs.at(self.tools.root)

    @asynccontextmanager
    async def clean_checkout(self, commit: str) -> AsyncIterator[Checkout]:
        """Exactly the commit, somewhere else; git works in a thread, lest everybody wait for it."""
        refs = {**self.beside, f"refs/heads/{self.metadata.branch}": commit}
        place = self.proofs.checkout(commit, refs)
        try:
            yield await in_thread(place.__enter__)
        finally:
            await in_thread(place.__exit__, None, None, None)


# --- attempts -----------------------------------------------------------------------------------------


class Work(Protocol):
    """A source of work: what is tried until it is proven."""

    @property
    def attempts(self) -> int:
        """Those that are over, in whichever run."""

    async def before_next(self) -> Exhausted | None:
        """Wait where the work has to; why no further attempt may begin."""

    async def attempt(self, number: int, feedback: str | None) -> Verdict:
        """One attempt: agents, then the checks of what they did."""

    async def judged(self, number: int, verdict: Verdict) -> str | None:
        """Keep the verdict, and tell of it; it is on disk before the next attempt begins. With it, what that
        one is to be told."""


async def until_proven(work: Work, feedback: str | None) -> Verdict | Exhausted:
    """The verdict that ends the work, pass or stop; or what there is no more of."""
    while (exhausted := await work.before_next()) is None:
        number = work.attempts + 1
        verdict = redacted(await work.attempt(number, feedback))
        feedback = await work.judged(number, verdict)
        if verdict.ruling != "fail":
            return verdict
    return exhausted


def verdict_event(number: int, verdict: Verdict, *, will_retry: bool) -> VerdictGiven:
    """What the journal is told of an attempt."""
    return VerdictGiven(
        attempt=number,
        ruling=verdict.ruling,
        message=verdict.message,
        flags=tuple(verdict.flags),
        will_retry=will_retry,
        checks=tuple(verdict.evidence),
    )

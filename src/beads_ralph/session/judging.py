"""Whether an attempt holds: what stands on the branch, what the verifiers say, what QA agents find."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from beads_ralph import prompts
from beads_ralph.agents.verdicts import Judgement, Question, judge
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.model import OUTPUT_SCHEMA, AgentSpec
from beads_ralph.bead.words import several
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands, guard, locking, merges, proofs, worktree_status
from beads_ralph.git.proofs import DamagedCommitError
from beads_ralph.journal.events import BaselineTaken, ConflictForeseen, WarningGiven
from beads_ralph.process.calls import in_thread
from beads_ralph.session import confinement, gate_files, lent_files, qa_guard, verify, worktree_setup
from beads_ralph.session.agent_calls import Answered, Asked
from beads_ralph.session.asking import ask
from beads_ralph.session.gate_files import GateChanges
from beads_ralph.session.merge_check import SHOWN, survival
from beads_ralph.session.state import BeadSession
from beads_ralph.session.verify import Subject
from beads_ralph.session.worktree import clear_locks, ref_word

NEIGHBOURS: Final = 8
OWN: Final = (".beads/", ".ralph/")
"""Folders that the harness itself writes to."""


async def take_baseline(case: BeadSession) -> None:
    """Which verifiers fail before anything was done, so that a failure can be told from an old one."""
    if not case.verifiers or case.record.red_before is not None or not case.base:
        return
    evidence = await _verified(case, case.base, 0, "baseline")
    case.record.red_before = {row.command: row.ruling != "pass" for row in evidence}
    case.tell(BaselineTaken(red=tuple(row.name for row in evidence if row.ruling != "pass")))


async def look_around(case: BeadSession) -> Surroundings:
    """Before an attempt, to be compared with afterwards."""
    return await in_thread(_surroundings, case.tools.root, case.metadata.source_branch)


async def failed(case: BeadSession, problem: str, flags: Sequence[str] = (), reason: str = "") -> Verdict:
    """The verdict on an attempt that came to nothing one could check; `reason` is the records' word."""
    there = case.worktree.is_dir()
    commit = await case.head() if there else case.base
    details = {"reason": reason} if reason else {}
    row = Evidence("dev agent", "git", "", commit, "fail", problem, details=details)
    return Verdict("fail", problem, [row], flags)


async def check(case: BeadSession, attempt: int, before: Surroundings) -> Verdict:
    """Verifiers first, since they cost no tokens; QA agents only look at what passes them."""
    flags = await put_back(case, attempt)
    problem = await _settled(case, attempt)
    flags += _strayed(before, await look_around(case))
    if problem:
        return await failed(case, "; ".join([problem, *flags]), flags)
    commit = await case.head()
    changed, added = await in_thread(_changed, case.worktree, case.base)
    if not changed and not case.merges:  # what is to be merged may be on the source branch by now
        nothing = "nothing was changed: the branch holds no work"
        return await failed(case, "; ".join([nothing, *flags]), flags, "nothing-changed")
    if spilled := await in_thread(lent_files.committed, case.worktree, case.base, case.lent):
        text = (
            f"commits hold {several(spilled)}, lent to the worktree and not to be published: "
            "take it out of every commit of the branch (git rebase, or reset and commit anew)"
        )
        return await failed(case, text, flags)
    try:
        await in_thread(case.proofs.bring, [commit], strict=True)
    except DamagedCommitError as damaged:
        return await failed(case, damaged.message, flags)
    await _warn_of_conflicts(case, attempt)
    gates = await in_thread(_gates, case, changed, added)
    flags += gates.flags
    evidence = await _verified(case, commit, attempt, "verify")
    evidence += await _with_gates_of_base(case, commit, attempt, gates, passed=_all_pass(evidence))
    evidence += await in_thread(_lost, case, commit)
    flags += _rewritings(evidence)
    if (now := await case.head()) != commit:  # by a verifier, or by what an agent left running
        text = f"{case.metadata.branch} moved on to {now[:12]} while {commit[:12]} was checked"
        evidence.append(Evidence("branch", "git", "", commit, "fail", text))
    if case.shelf is not None and all(row.ruling == "pass" for row in evidence):
        evidence.append(verify.attachments(case.shelf, commit))
    if all(row.ruling == "pass" for row in evidence):
        found, told = await _examined(case, attempt, commit, changed, added)
        evidence += found
        flags += told
    flags += await put_back(case, attempt)
    return verify.verdict(evidence, flags)


async def put_back(case: BeadSession, attempt: int) -> list[str]:
    """The repository as agents are to leave it; what they had changed of it, told and kept aside."""
    told = await in_thread(guard.put_back, case.tools.root, case.worktree)
    for text in told:
        case.tell(WarningGiven(attempt=attempt, message=text))
    return told


async def after_damage(case: BeadSession, error: RalphError) -> Verdict:
    """The verdict where an agent destroyed objects of the repository; the error again where none did."""
    if error.code != Code.GIT_ERROR or not case.base or not await in_thread(_mended, case):
        raise error
    text = (
        f"objects of the repository were destroyed; those of what was proven are put back ({error.message})"
    )
    case.tell(WarningGiven(message=text))
    return await failed(case, text, [text])


def _mended(case: BeadSession) -> bool:
    """Give back what we have. Where the bead's own commits are gone, its branch starts anew."""
    if not case.proofs.restore(case.base):
        return False
    if not proofs.has(case.tools.root, worktree_status.head(case.worktree)):
        ref = f"{merges.HEADS}{case.metadata.branch}"
        locking.run("update-ref", ref, case.base, cwd=case.tools.root)
    return True


# --- what stands on the branch ------------------------------------------------------------------------


async def _settled(case: BeadSession, attempt: int) -> str:
    """The agent's work as commits on the branch; what hinders that, empty where nothing does."""
    if not case.worktree.is_dir():
        return f"the worktree {case.worktree} was removed"
    await clear_locks(case)
    branch = await in_thread(worktree_status.current_branch, case.worktree)
    if branch != case.metadata.branch:
        waiting = await in_thread(worktree_status.unfinished, case.worktree)
        if waiting:
            return f"a {waiting} was left unfinished in the worktree"
        return f"the worktree was left on {branch or 'no branch'}, not on {case.metadata.branch}"
    message = f"{case.bead.id}: {case.bead.title} (attempt {attempt})"
    left = await in_thread(worktree_status.commit_leftovers, case.worktree, message)
    if left.unfinished:
        return f"a {left.unfinished} was left unfinished in the worktree"
    if left.nested:
        text = f"git repositories inside the worktree were not committed: {several(left.nested)}"
        case.tell(WarningGiven(attempt=attempt, message=text))
    if left.commit:
        text = "uncommitted work was committed for the agent"
        case.tell(WarningGiven(attempt=attempt, message=text, commit=left.commit))
    return await _rewritten(case)


async def _rewritten(case: BeadSession) -> str:
    """What lay there before the work began is not the agent's to change: others have built on it."""
    head = await case.head()
    if head == case.base or await in_thread(commands.contains, case.worktree, head, case.base):
        return ""
    branch = case.metadata.branch
    return (
        f"the history was rewritten: {branch} does not contain {case.base} any more, where this work began; "
        f"put your changes on top of it (git rebase --onto {case.base}, or git merge {case.base})"
    )


@dataclass(frozen=True)
class Surroundings:
    """What an agent has no business to change."""

    files: frozenset[str]
    """The changed files of the main checkout."""
    source: str | None
    """The commit of the source branch."""


def _surroundings(root: Path, source: str) -> Surroundings:
    names = (name for name in worktree_status.uncommitted(root) if not name.startswith(OWN))
    return Surroundings(frozenset(names), commands.commit_of(f"{merges.HEADS}{source}", root))


def _strayed(before: Surroundings, after: Surroundings) -> list[str]:
    """Changes outside the worktree while the agent worked. It may have been the user, who is free to work
    there; so this fails nothing by itself, but whoever judges the work is told."""
    flags = []
    if names := sorted(after.files - before.files):
        flags.append(f"files outside the worktree were changed meanwhile: {several(names)}")
    if before.source != after.source:
        commits = " to ".join(
            commit[:12] if commit else "nothing" for commit in (before.source, after.source)
        )
        flags.append(f"the source branch was moved meanwhile, from {commits}")
    return flags


def _changed(path: Path, base: str) -> tuple[list[str], list[str]]:
    """The files that differ from `base`, and those among them that were not there."""
    words = ("diff", "--name-status", "-z", "--no-renames", "--end-of-options", base, "HEAD")
    fields = commands.output(*words, cwd=path).split("\0")
    rows = sorted(zip(fields[1::2], fields[::2], strict=False))
    return [name for name, _ in rows], [name for name, status in rows if status == "A"]


async def _warn_of_conflicts(case: BeadSession, attempt: int) -> None:
    own = case.metadata.branch
    beside = dict.fromkeys(await case.host.branches_beside())
    others = [branch for branch in beside if branch != own][-NEIGHBOURS:]
    known = await in_thread(merges.find_branches, case.tools.root, others)
    for branch in (name for name in others if name in known):
        files = await in_thread(merges.foresee, case.tools.root, own, branch)
        if files:
            case.tell(ConflictForeseen(attempt=attempt, other=branch, files=tuple(files)))


# --- verifiers and merges -----------------------------------------------------------------------------


async def _verified(
    case: BeadSession, commit: str, attempt: int, stage: str, gates: GateChanges | None = None
) -> list[Evidence]:
    """Run the verifiers on a clean checkout; with `gates`, those files of it are as the base has them."""
    verifiers = case.verifiers
    if not verifiers:
        return []
    baseline = stage == "baseline"
    if baseline:  # each of them is asked, whatever the others say
        verifiers = [one.model_copy(update={"on_failure": "continue"}) for one in verifiers]
    async with case.clean_checkout(commit) as clean:
        checkout = clean.path
        if gates is not None:
            await in_thread(clean.lay_over, case.base, gates.restored, gates.removed)
        limit = confinement.memory_limit_mb(case.bead, case.tools.config)
        if unready := await worktree_setup.furnish_checkout(
            case, checkout, commit, f"a{attempt}-{stage}-setup"
        ):
            return unready
        subject = Subject(
            case.bead.id, attempt, checkout, commit, stage, case.metadata.team_name, limit, case.env
        )
        red = case.record.red_before if stage == "verify" else None
        return await verify.run_verifiers(verifiers, subject, case.bench, red, clean.rewritten)


def _all_pass(evidence: Sequence[Evidence]) -> bool:
    return all(row.ruling == "pass" for row in evidence)


def _gates(case: BeadSession, changed: Sequence[str], added: Sequence[str]) -> GateChanges:
    may_change = case.metadata.may_change or ()
    return gate_files.find(case.worktree, case.base, changed, added, case.verifiers, may_change)


async def _with_gates_of_base(
    case: BeadSession, commit: str, attempt: int, gates: GateChanges, *, passed: bool
) -> list[Evidence]:
    """A change that touches what decides whether it passes must pass with what decided before, too."""
    rule = case.tools.config.gate_changes
    if not passed or not gates.files or rule == "flag":
        return []
    declare = f"undo that, or declare it in the plan: **May Change**: {several(gates.files)}"
    if rule == "fail":
        text = f"{several(gates.files)} decides what passes: {declare}"
        return [Evidence("gate files", "git", "", commit, "fail", text)]
    rows = await _verified(case, commit, attempt, "verify-base", gates)
    why = f"; it passes only with a change of {several(gates.files)}: {declare}"
    return [
        replace(
            row,
            name=f"{row.name} (gate files as before)",
            message=row.message if row.ruling == "pass" else row.message + why,
        )
        for row in rows
    ]


def _lost(case: BeadSession, commit: str) -> list[Evidence]:
    """A side of a merge whose changes are gone is a failure that names them."""
    names = case.metadata.branches_to_merge or []
    sides = {name: branch.commit for name, branch in merges.reliable_branches(case.tools.root, names).items()}
    sides |= {name: commits[-1] for name, commits in case.order.proven_commits.items() if name in names}
    return [_loss(case, commit, name, sides) for name in names if name in sides]


def _loss(case: BeadSession, commit: str, name: str, sides: dict[str, str]) -> Evidence:
    others = [case.base, *(other for key, other in sides.items() if key != name)]
    found = survival(case.tools.root, sides[name], commit, others)
    rows = {"lost": found.lost, "rewritten": found.rewritten}
    details = {key: [hunk.to_json() for hunk in hunks[:SHOWN]] for key, hunks in rows.items() if hunks}
    kept = f"all there; rewritten: {found.flag}" if found.rewritten else "all there"
    return Evidence(
        name=f"changes of {name}",
        kind="merge",
        command="",
        commit=commit,
        ruling="fail" if found.lost else "pass",
        message=f"lost in the merge: {found.story}" if found.lost else kept,
        details=details,
    )


def _rewritings(evidence: Sequence[Evidence]) -> list[str]:
    """For whoever judges: a line that both sides changed is in the merge as neither had it."""
    return [f"{row.name}: {row.message}" for row in evidence if row.details.get("rewritten")]


# --- QA agents ----------------------------------------------------------------------------------------


async def _examined(
    case: BeadSession, attempt: int, commit: str, changed: Sequence[str], added: Collection[str]
) -> tuple[list[Evidence], list[str]]:
    """Every QA agent at the same time, on one clean checkout; what they change there is thrown away. Files
    that would steer them are as the base has them."""
    case.examined = commit
    place = (case.tools.root, case.worktree, case.metadata.branch, commit)
    before = await in_thread(qa_guard.scene, *place)
    async with case.clean_checkout(commit) as clean:
        checkout = clean.path
        steers = gate_files.steering(changed)
        new = [file for file in steers if file in added]
        await in_thread(clean.lay_over, case.base, [file for file in steers if file not in new], new)
        if unready := await worktree_setup.furnish_checkout(case, checkout, commit, f"a{attempt}-qa-setup"):
            return unready, []
        config = case.tools.config
        furnished = await in_thread(clean.changed) if config.worktree_setup or config.worktree_files else []
        asked = [
            _Review(case, number, attempt, commit, changed, checkout)
            for number in range(1, len(case.metadata.qa_agents) + 1)
        ]
        found = await _all([review.finding() for review in asked])
        flags, mended = await in_thread(qa_guard.in_checkout, clean, furnished)
    neighbours = await case.host.branches_beside()
    aside = f"{ref_word(case.bead.id)}-{attempt}"
    more, meddling = await in_thread(qa_guard.elsewhere, before, aside, neighbours)
    found += [Evidence("QA agents", "git", "", commit, "fail", text) for text in (mended, meddling) if text]
    return found, [*flags, *more]


async def _all(reviews: Sequence[Coroutine[Any, Any, Evidence]]) -> list[Evidence]:
    """Where one of them ends the work, the others are not left running without anybody to hear them."""
    tasks = [asyncio.ensure_future(review) for review in reviews]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True)
class _Review:
    """One QA agent's look at the commit. An answer that is no verdict is asked for once more."""

    case: BeadSession
    number: int
    attempt: int
    commit: str
    changed: Sequence[str]
    checkout: Path

    async def finding(self) -> Evidence:
        question = Question(self.case.bead.id, self.commit)
        done, judged = await self._asked(question)
        if judged.is_unusable:
            self.case.record.add_usage(done.call.usage)
            text = f"{done.name} gave no verdict that can be used and is asked again: {judged.message}"
            self.case.tell(WarningGiven(attempt=self.attempt, message=text))
            done, judged = await self._asked(question, judged.message)
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

    async def _asked(self, question: Question, flaw: str = "") -> tuple[Answered, Judgement]:
        spec = self.case.metadata.qa_agents[self.number - 1]
        own = spec.output_schema or OUTPUT_SCHEMA
        schema = question.schema(own)
        asked = Asked(
            spec.model_copy(update={"output_schema": schema}),
            "qa",
            self._prompt(question, spec, json.dumps(schema, indent=2), flaw),
            self.checkout,
            self.attempt,
            f"a{self.attempt}-qa-{self.number}{'-again' if flaw else ''}",
            seat=self.number,
        )
        done = await ask(self.case, asked)
        profile = self.case.tools.select(done.call.program).profile
        return done, judge(done.reply, done.ended, own, question, must_repeat=profile.reads_prompts)

    def _prompt(self, question: Question, spec: AgentSpec, schema: str, flaw: str) -> str:
        case = self.case
        again = f"Your last answer could not be used: {flaw}. Give the verdict again.\n\n" if flaw else ""
        return prompts.render(
            "qa",
            bead_id=case.bead.id,
            worktree=str(self.checkout),
            branch=case.metadata.branch,
            source_branch=case.metadata.source_branch,
            commit=self.commit,
            context=spec.context or "",
            title=case.bead.title,
            tasks=case.metadata.dev_prompts,
            acceptance_criteria=case.metadata.acceptance_criteria or [],
            changed_files=list(self.changed),
            flaw=again,
            output_schema=schema,
            nonce=question.nonce,
        )

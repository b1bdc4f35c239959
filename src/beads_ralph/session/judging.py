"""Whether an attempt holds: what stands on the branch, what the verifiers say, what QA agents find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.findings import BRANCH
from beads_ralph.bead.words import several
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import disk
from beads_ralph.git import commands, guard, locking, merges, objects, proofs, worktree_status
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.proofs import DamagedCommitError
from beads_ralph.journal.events import ConflictForeseen, WarningGiven
from beads_ralph.process.calls import in_thread
from beads_ralph.process.opened_files import OpenedFiles
from beads_ralph.session import (
    baseline,
    check_data,
    checks,
    gate_files,
    lent_files,
    outward,
    reruns,
    reviews,
    verify,
    worktree_rest,
)
from beads_ralph.session.gate_files import Allowed, GateChanges
from beads_ralph.session.merge_check import SHOWN, is_all_there_is, joined_at, survival_after
from beads_ralph.session.prompting import ReviewedChange
from beads_ralph.session.state import BeadSession
from beads_ralph.session.worktree import clear_locks

NEIGHBOURS: Final = 8
OWN: Final = (".beads/", ".ralph/")
"""Folders that the harness itself writes to."""


async def look_around(case: BeadSession) -> Surroundings:
    """Before an attempt, to be compared with afterwards."""
    return await in_thread(_surroundings, case)


async def failed(
    case: BeadSession, problem: str, flags: Sequence[str] = (), reason: str = "", by: str = BRANCH
) -> Verdict:
    """The verdict on an attempt that came to nothing one could check; `reason` is the records' word."""
    there = case.worktree.is_dir()
    commit = await case.head() if there else case.base
    details = {"reason": reason} if reason else {}
    row = Evidence(by, "git", "", commit, "fail", problem, details=details)
    return Verdict("fail", problem, [row], flags)


async def check(case: BeadSession, attempt: int, before: Surroundings) -> Verdict:
    """Verifiers first, since they cost no tokens; QA agents only look at what passes them."""
    flags = await put_back(case, attempt)
    problem = await _settled(case, attempt)
    await worktree_rest.note(case)
    flags += [*_tell_left(case, attempt), *_strayed(before, await look_around(case))]
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
            "take it out of every commit of the branch (git rebase, or reset and commit again)"
        )
        return await failed(case, text, flags)
    try:
        await in_thread(case.proofs.bring, [commit], strict=True)
    except DamagedCommitError as damaged:
        return await failed(case, damaged.message, flags)
    await _warn_of_conflicts(case, attempt)
    opened = OpenedFiles()
    evidence = await checks.run(case, commit, attempt, "verify", opened=opened)
    gates = await in_thread(_gates, case, changed, added, opened)
    flags += gates.flags
    evidence += await checks.with_gates_of_base(case, commit, attempt, gates, evidence)
    evidence += await in_thread(_lost, case, commit)
    leaning, told = await in_thread(outward.look, case, commit)
    evidence += leaning
    flags += [*told, *reruns.flags(evidence), *_rewritings(evidence), *baseline.fewer_tests(case, evidence)]
    flags += await in_thread(_only_merged, case, commit)
    if (now := await case.head()) != commit:  # by a verifier, or by what an agent left running
        text = f"{case.metadata.branch} moved on to {now[:12]} while {commit[:12]} was checked"
        evidence.append(Evidence("branch", "git", "", commit, "fail", text))
    if case.shelf is not None and all(row.ruling == "pass" for row in evidence):
        evidence.append(verify.attachments(case.shelf, commit))
    if case.metadata.qa_agents and all(row.ruling == "pass" for row in evidence):
        found, told = await reviews.examine(
            case, attempt, commit, ReviewedChange(changed, added, tuple(flags), tuple(evidence))
        )
        evidence += found
        flags += told
    flags += await put_back(case, attempt)
    return verify.verdict(evidence, flags)


async def put_back(case: BeadSession, attempt: int) -> list[str]:
    """The repository as agents are to leave it; what they had changed of it, told and kept aside."""
    case.left_behind += await in_thread(guard.put_back, case.tools.root, case.worktree)
    inputs = case.tools.inputs if not case.tools.closed_in else None  # in a sandbox they are out of reach
    if inputs is not None and (news := await in_thread(inputs.news)):
        case.left_behind.append(news)
    return _tell_left(case, attempt)


def _tell_left(case: BeadSession, attempt: int) -> list[str]:
    told = [*case.left_behind]
    case.left_behind.clear()
    for text in told:
        case.tell(WarningGiven(attempt=attempt, message=text))
    return told


async def after_damage(case: BeadSession, error: RalphError) -> Verdict:
    """The verdict where an agent destroyed objects of the repository; the error again where none did."""
    if disk.says_full(error.text):
        raise error
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
        ref = f"{HEADS}{case.metadata.branch}"
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
    untouched = await case.head() == case.base
    left = await in_thread(worktree_status.commit_leftovers, case.worktree, message)
    if left.unfinished:
        return f"a {left.unfinished} was left unfinished in the worktree"
    if left.nested:
        text = f"git repositories inside the worktree were not committed: {several(left.nested)}"
        case.tell(WarningGiven(attempt=attempt, message=text))
    if left.commit:
        text = "uncommitted work was committed for the agent"
        case.tell(WarningGiven(attempt=attempt, message=text, commit=left.commit))
        case.left_behind += await _doubtful(case, left.commit)
    return "" if untouched else await _rewritten(case)


async def _doubtful(case: BeadSession, commit: str) -> list[str]:
    """What the agent itself had not committed, where another one without a sandbox may have put it there."""
    beside = [name for name in await case.host.branches_beside() if name != case.metadata.branch]
    if case.tools.closed_in or not beside:
        return []
    names, _ = await in_thread(_changed, case.worktree, f"{commit}^")
    text = (
        f"not committed by the agent itself: {several(names)}; agents of other beads could write there, too"
    )
    return [text] if names else []


async def _rewritten(case: BeadSession) -> str:
    """What lay there before the work began is not the agent's to change: others have built on it."""
    head = await case.head()
    if await in_thread(commands.contains, case.worktree, head, case.base):
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


def _surroundings(case: BeadSession) -> Surroundings:
    """Files that no agent can write are the user's business."""
    root = case.tools.root
    changed = () if case.tools.is_out_of_reach(root) else worktree_status.uncommitted(root)
    names = frozenset(name for name in changed if not name.startswith(OWN))
    return Surroundings(names, commands.commit_of(f"{HEADS}{case.metadata.source_branch}", root))


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
    with objects.of(path) as reader:
        rows = reader.changes(base, worktree_status.head(path))
    return [one.path for one in rows], [one.path for one in rows if one.old is None]


async def _warn_of_conflicts(case: BeadSession, attempt: int) -> None:
    own = case.metadata.branch
    at_work = dict.fromkeys(await case.host.branches_beside())
    others = [branch for branch in at_work if branch != own][-NEIGHBOURS:]
    known = await in_thread(merges.find_branches, case.tools.root, [own, *others])
    beside = [name for name in others if name in known and own in known]
    pairs = [(known[own].commit, known[name].commit) for name in beside]
    found = await in_thread(merges.foresee, case.tools.root, pairs) or []
    for branch, files in zip(beside, found, strict=False):
        if files:
            case.tell(ConflictForeseen(attempt=attempt, other=branch, files=tuple(files)))


# --- merges -------------------------------------------------------------------------------------------


def _gates(
    case: BeadSession, changed: Sequence[str], added: Sequence[str], opened: OpenedFiles
) -> GateChanges:
    """The gate files that it touches. A check that failed before may have opened its data only now."""
    place = case.metadata
    words = (case.bead.title, *place.dev_prompts, *(place.acceptance_criteria or ()))
    allowed = Allowed(place.may_change or (), "\n".join(words))
    touched = opened.files.intersection(changed)
    now = check_data.found(case.worktree, case.base, touched, case.verifiers) if touched else []
    read = {*(case.record.read_by_checks or ()), *now}
    return gate_files.find(case.worktree, case.base, changed, added, case.verifiers, allowed, read)


def _lost(case: BeadSession, commit: str) -> list[Evidence]:
    """A side of a merge whose changes are gone is a failure that names them. Where there are tasks besides,
    doing them may well change what was merged: then it is the merge that must not have lost anything."""
    names = case.metadata.branches_to_merge or []
    if not names:
        return []
    sides = {name: branch.commit for name, branch in merges.reliable_branches(case.tools.root, names).items()}
    sides |= {name: commits[-1] for name, commits in case.order.proven_commits.items() if name in names}
    tasks = case.metadata.dev_prompts
    merged = joined_at(case.tools.root, case.base, commit, list(sides.values())) if tasks else commit
    return [_loss(case, commit, merged, name, sides) for name in names if name in sides]


def _loss(case: BeadSession, commit: str, merged: str, name: str, sides: dict[str, str]) -> Evidence:
    others = [case.base, *(other for key, other in sides.items() if key != name)]
    found = survival_after(case.tools.root, sides[name], merged, commit, others)
    rows = {"lost": found.lost, "rewritten": found.rewritten, "changed": found.changed}
    details = {key: [hunk.to_json() for hunk in hunks[:SHOWN]] for key, hunks in rows.items() if hunks}
    merge_kept = "kept by the merge" if found.changed else "all there"
    kept = f"{merge_kept}; {found.flag}" if found.flag else merge_kept
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
    """For whoever judges: a line that both sides changed is in the merge as neither had it, and what was done
    after the merge may have changed what it kept."""
    told = ("rewritten", "changed")
    return [f"{row.name}: {row.message}" for row in evidence if any(row.details.get(key) for key in told)]


def _only_merged(case: BeadSession, commit: str) -> list[str]:
    """Also for whoever judges: the tasks of a merge were given to somebody who changed nothing."""
    if not (case.merges and case.metadata.dev_prompts):
        return []
    bare = is_all_there_is(case.tools.root, case.base, commit)
    return ["nothing was changed after the merge: look whether the tasks asked for more"] if bare else []

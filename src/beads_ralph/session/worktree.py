"""Where a bead is worked on: its worktree, where its work starts, and what is merged into it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from beads_ralph.agents import players
from beads_ralph.bead.model import Bead
from beads_ralph.errors import RalphError
from beads_ralph.git import (
    commands,
    git_files,
    guard,
    locking,
    merges,
    proofs,
    quarantine,
    settings,
    worktree_removal,
    worktree_status,
    worktrees,
)
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.merges import ORIGIN
from beads_ralph.git.worktrees import PreparedWorktree
from beads_ralph.journal.events import WarningGiven, WorktreePrepared
from beads_ralph.process.calls import in_thread
from beads_ralph.session import merge_check, prompting, worktree_rest, worktree_setup
from beads_ralph.session.agent_calls import Asked
from beads_ralph.session.asking import ask
from beads_ralph.session.order import Halted
from beads_ralph.session.state import BeadSession

STARTS: Final = "refs/beads-ralph/start"
PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")


async def prepare(case: BeadSession) -> str | None:
    """The worktree with the dependencies' work in it; what an earlier agent left to be mended there."""
    wanted = case.metadata.branches_to_merge or [] if case.merges else []
    if told := await in_thread(_keep_watch, case):
        case.tell(WarningGiven(message=told))
    besides = [branch for branch in case.order.dependency_branches if branch not in wanted]
    try:
        prepared = await in_thread(_prepared, case, besides)
    except RalphError:
        if not await in_thread(_restored, case):
            raise
        prepared = await in_thread(_prepared, case, besides)
    conflict = prepared.conflict
    case.beside = await in_thread(_source_refs, case.tools.root, case.metadata.source_branch)
    if case.merges or conflict is None:
        case.base, case.begun_before = await in_thread(
            _begin if prepared.new_branch else _start, case, prepared.head_commit
        )
    if wanted and conflict is None and not prepared.unfinished:
        conflict = await _merge(case, wanted)
    case.unmerged = conflict is not None or bool(wanted and prepared.unfinished)
    if prepared.created and conflict is None:
        worktree_rest.begin(case, await case.head() if wanted else prepared.head_commit)
    case.tell(
        WorktreePrepared(path=str(case.worktree), branch=case.metadata.branch, conflict=str(conflict or ""))
    )
    await worktree_setup.furnish(case)
    if not prepared.unfinished:
        return None
    return f"A {prepared.unfinished} is half done in the worktree. Conclude it, or abort it."


def _prepared(case: BeadSession, dependencies: Sequence[str]) -> PreparedWorktree:
    return worktrees.prepare(
        case.tools.root,
        case.worktree,
        case.metadata.branch,
        case.metadata.source_branch,
        dependencies,
        case.order.proven_commits,
    )


def _keep_watch(case: BeadSession) -> str:
    """The branch is ours to change now; those that it builds on are nobody's. What was wrong with it."""
    start = case.proofs.start(ref_word(case.bead.id))
    told = guard.take_up(case.tools.root, case.metadata.branch, start)
    left_over = worktrees.is_left_over(case.tools.root, case.worktree)
    if left_over and not told:
        told = "the worktree is one of a repository that was here before and is gone"
    if told and case.worktree.is_dir():  # whoever made the branch may have made the worktree, too
        aside = _free_name(case.worktree)
        case.worktree.rename(aside)
        told = f"{told}; the worktree that was there is {aside} now"
    proven = case.order.proven_commits.items()
    guard.expect_proven(case.tools.root, [(name, one) for name, commits in proven for one in commits])
    return told


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.aside-{number}") for number in count(1))
    return next(name for name in names if not name.exists())


def _restored(case: BeadSession) -> bool:
    """Give back what an agent has destroyed of what the work builds on; False where nothing was."""
    commits = [one for commits in case.order.proven_commits.values() for one in commits]
    return any(case.proofs.restore(commit) for commit in commits)  # the first one brings back all of it


# --- the start ----------------------------------------------------------------------------------------


def ref_word(bead_id: str) -> str:
    """The bead's id as a part of a ref's name."""
    plain = PLAIN.fullmatch(bead_id) is not None
    return bead_id if plain else hashlib.sha256(bead_id.encode()).hexdigest()[:16]


def start_ref(bead_id: str) -> str:
    """Where the commit that the bead's work began at is handed to other machines."""
    return f"{STARTS}/{ref_word(bead_id)}"


def _source_refs(root: Path, source: str) -> dict[str, str]:
    """The source branch here and on origin, as checks can name it."""
    known = settings.of(root).reliable(commands.refs_of(root, HEADS, ORIGIN))
    return {ref: known[ref] for ref in (f"{HEADS}{source}", f"{ORIGIN}{source}") if ref in known}


def _start(case: BeadSession, head: str) -> tuple[str, bool]:
    """What was noted by an earlier session, if it still lies behind the work; else `head`, noted now.
    With it, whether it was."""
    known = _known_start(case)
    if known is not None and (known == head or commands.contains(case.tools.root, head, known)):
        return _noted(case, known), True
    return _begin(case, head)


def _known_start(case: BeadSession) -> str | None:
    """As we have it; else as another machine handed it over."""
    return case.proofs.start(ref_word(case.bead.id)) or git_files.commit_of(
        start_ref(case.bead.id), case.tools.root
    )


def _begin(case: BeadSession, head: str) -> tuple[str, bool]:
    return _noted(case, head), False


def _noted(case: BeadSession, commit: str) -> str:
    """Where no agent can move it: together with what checks will be told of the source branch."""
    case.proofs.bring([*case.beside.values(), commit])
    case.proofs.note_start(ref_word(case.bead.id), commit)
    return commit


def tidy(root: Path, bead: Bead, *, remove_worktree: bool) -> None:
    """Leave nothing behind a closed bead but its branch. If it is opened again, it starts anew."""
    proofs.at(root).forget_start(ref_word(bead.id))
    if git_files.commit_of(start_ref(bead.id), root):  # from another machine, or an earlier version
        locking.run("update-ref", "-d", start_ref(bead.id), cwd=root)
    if remove_worktree:
        worktree_removal.remove(root, Path(bead.metadata.worktree_path), bead.metadata.source_branch)


async def settle(case: BeadSession) -> None:
    """What an agent had committed when the harness was killed."""
    case.left_behind += await in_thread(quarantine.settle_left, case.tools.root, case.worktree)


# --- locks --------------------------------------------------------------------------------------------


async def clear_locks(case: BeadSession) -> None:
    """An agent that was killed inside git leaves git's locks, over which the next one would stumble."""
    cleared = await in_thread(_clear_locks, case.worktree, case.metadata.branch)
    if cleared:
        text = f"removed what a killed git left: {', '.join(cleared)}"
        case.tell(WarningGiven(message=text))


def _clear_locks(worktree: Path, branch: str) -> list[str]:
    """The worktree is ours alone, and its agents are gone; so a lock there without a git is nobody's."""
    link = worktree / ".git"
    common, own = git_files.folders_of(worktree) or (link, link)
    locks = [*own.glob("*.lock"), common / "refs" / "heads" / f"{branch}.lock"]
    left = [lock for lock in locks if lock.exists()]
    if not left or locking.gits_at(worktree):
        return []
    for lock in left:
        lock.unlink(missing_ok=True)
    return [lock.name for lock in left]


# --- another branch -----------------------------------------------------------------------------------


async def bring_back(case: BeadSession) -> None:
    """The worktree on its branch again, where an agent left another one there. Nothing is lost: what it
    did there stays on that branch, or gets one where there is none."""
    told = await in_thread(_bring_back, case)
    if told:
        case.tell(WarningGiven(message=told))


def _bring_back(case: BeadSession) -> str:
    worktree, branch, bead_id = case.worktree, case.metadata.branch, case.bead.id
    if not (worktree / ".git").is_file() or worktree_status.unfinished(worktree):
        return ""
    standing = worktree_status.current_branch(worktree)
    if standing == branch:
        return ""
    if not _known_start(case) or not commands.commit_of(f"{HEADS}{branch}", case.tools.root):
        return ""  # without a start it is not known to be an agent's doing
    if standing is None:
        standing = _name_detached(worktree, branch, worktree_status.head(worktree))
    worktree_status.commit_leftovers(worktree, f"{bead_id}: left on {standing}")
    locking.output("switch", "--quiet", branch, cwd=worktree)
    return f"the worktree is on {branch} again; {standing} keeps what was done there"


def _name_detached(worktree: Path, branch: str, commit: str) -> str:
    """Commits without a branch are lost some time. What the branch has already needs none, but for the
    changes on top."""
    if worktree_status.is_clean(worktree) and commands.contains(worktree, branch, commit):
        return commit[:12]
    name = f"{branch}-left-{commit[:12]}"
    locking.output("switch", "--quiet", "--force-create", name, cwd=worktree)
    return name


# --- merging ------------------------------------------------------------------------------------------


async def bring_together(case: BeadSession, attempt: int, feedback: str | None) -> str:
    """Merge what is to be merged, and ask the merge agent where git cannot; why not, empty where it is."""
    wanted = _wanted(case)
    while case.unmerged:
        waiting = await in_thread(worktree_status.unfinished, case.worktree)
        if waiting not in ("", "merge"):
            return f"a {waiting} is half done in the worktree, so nothing can be merged there"
        conflict = await _merge(case, wanted)
        if conflict is not None and (problem := await _resolve(case, attempt, conflict, feedback)):
            return problem
        case.unmerged = conflict is not None
    if not case.base:
        case.base, _ = await in_thread(_start, case, await case.head())
    return ""


async def _merge(case: BeadSession, wanted: Sequence[str]) -> merges.Conflict | None:
    outcome = await in_thread(merges.merge_all, case.worktree, wanted, case.order.proven_commits)
    if outcome.missing and case.merges:
        raise Halted("blocked", f"cannot merge {', '.join(outcome.missing)}: no such branch")
    return outcome.conflict


def _wanted(case: BeadSession) -> list[str]:
    return list(dict.fromkeys([*case.order.dependency_branches, *(case.metadata.branches_to_merge or ())]))


async def _resolve(case: BeadSession, attempt: int, conflict: merges.Conflict, feedback: str | None) -> str:
    """Ask the merge agent, then see for ourselves whether the merge is concluded."""
    prompt = await in_thread(_merge_prompt, case, conflict, feedback or "")
    spec = players.merger(case.metadata.dev_agents[0], case.tools)
    name = f"a{attempt}-merge"
    done = await ask(case, Asked(spec, "merge", prompt, case.worktree, attempt, name, feedback=feedback))
    if done.call.problem:
        return f"merge agent {done.name} {done.call.problem}"
    if await in_thread(worktree_status.current_branch, case.worktree) != case.metadata.branch:
        return f"the merge agent left the branch {case.metadata.branch}"
    outcome = await in_thread(merges.finish_merge, case.worktree, conflict)
    if outcome.conflict:
        return f"the merge is not resolved: {outcome.conflict}"
    return "" if case.merges else await _kept(case, attempt, conflict)


def _merge_prompt(case: BeadSession, conflict: merges.Conflict, feedback: str) -> str:
    parted = commands.output("merge-base", conflict.ours, conflict.theirs, cwd=case.worktree).strip()
    return prompting.merger(case, conflict, _wanted(case), parted, feedback)


async def _kept(case: BeadSession, attempt: int, conflict: merges.Conflict) -> str:
    """A merge bead is judged by it at the end. Here work begins that may well change what was merged, so
    it is now or never: a merge that left something out is taken back, and asked for again."""
    merged = await case.head()
    gone = await in_thread(merge_check.dropped, case.tools.root, conflict, merged)
    if gone:
        keep_as = f"{ref_word(case.bead.id)}-merge-{attempt}"
        await in_thread(merge_check.take_back, case.worktree, conflict, merged, keep_as)
    return f"the merge was taken back: {gone}" if gone else ""

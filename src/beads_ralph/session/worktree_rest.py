"""A worktree at rest: while none of its own agents is at work, nobody has any business there.

Without a sandbox an agent can write into the worktree of a bead beside it. What it writes while that bead's
own agent is at work cannot be told from that agent's work. What it writes at any other time is found before
the next agent starts: taken out, kept aside, and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from beads_ralph.bead.words import several
from beads_ralph.files.snapshot import Snapshot
from beads_ralph.git import commands, guard, locking, worktree_status
from beads_ralph.process.calls import in_thread
from beads_ralph.session.state import BeadSession, WorktreeRest

AT_REST: Final = " while none of the bead's agents was at work"


def begin(case: BeadSession, head: str) -> None:
    """The worktree was just made: it holds the commit, and nothing else."""
    if not case.tools.closed_in:
        case.rest = WorktreeRest(head, Snapshot({}))


async def note(case: BeadSession) -> None:
    """Whoever had business there has left it as it is now."""
    if not case.tools.closed_in and case.worktree.is_dir():
        case.rest = await in_thread(_seen, case)


async def settle(case: BeadSession) -> None:
    """Take out what somebody did there since; it is told with what else was put back."""
    if case.rest is not None and case.worktree.is_dir():
        case.left_behind += await in_thread(_put_back, case, case.rest)


def _seen(case: BeadSession) -> WorktreeRest:
    names = worktree_status.uncommitted(case.worktree)
    return WorktreeRest(worktree_status.head(case.worktree), Snapshot.of(_paths(case, names)))


def _paths(case: BeadSession, names: Iterable[str]) -> list[str]:
    return [str(case.worktree / name) for name in names]


def _put_back(case: BeadSession, rest: WorktreeRest) -> list[str]:
    tree, branch = case.worktree, case.metadata.branch
    if worktree_status.current_branch(tree) != branch or worktree_status.unfinished(tree):
        return []  # an agent of its own left it so, and the attempt deals with that
    told = []
    if (head := worktree_status.head(tree)) != rest.head:
        kept = guard.keep_moved(case.tools.root, f"refs/heads/{branch}", head)
        locking.output("reset", "--quiet", "--mixed", rest.head, cwd=tree)
        told.append(f"{branch} was moved to {head[:12]}{AT_REST}; put back (kept as {kept})")
    now = _paths(case, worktree_status.uncommitted(tree))
    changed = {*rest.dirty.changed(now), *(path for path in now if path not in rest.dirty.marks)}
    names = sorted(path.removeprefix(f"{tree}/") for path in changed)
    if names:
        aside = _take_out(case, names)
        told.append(f"{several(names)} in the worktree was changed{AT_REST}; taken out, and kept in {aside}")
    return told


def _take_out(case: BeadSession, names: Sequence[str]) -> str:
    """The files as the commit has them, or away; what was there instead is kept."""
    tree, aside = case.worktree, guard.aside(case.tools.root)
    for name in names:
        if (tree / name).is_symlink() or (tree / name).exists():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).rename(aside / name)
    words = [f":(top,literal){name.rstrip('/')}" for name in names]
    locking.output("reset", "--quiet", "HEAD", "--", *words, cwd=tree)
    known = commands.output("ls-files", "-z", "--", *words, cwd=tree).split("\0")
    if there := [f":(top,literal){name}" for name in known if name]:
        locking.output("checkout", "--quiet", "HEAD", "--", *there, cwd=tree)
    return str(aside)

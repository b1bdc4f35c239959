"""Worktrees that are done with: removed only when nothing is lost; and entries that stand for none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from beads_ralph.bead.words import several
from beads_ralph.git import commands, locking, merges, quarantine, submodules, worktree_status
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.worktrees import Worktree, find, listed

PROTECTED: Final = frozenset({"main", "master", "develop"})
UNKNOWN: Final = "git knows no worktree here"


@dataclass(frozen=True)
class Removal:
    """What became of a worktree; `why_not` is empty where it was removed."""

    path: Path
    branch: str | None = None
    why_not: str = ""
    branch_deleted: bool = False

    @property
    def removed(self) -> bool:
        return not self.why_not


def remove(
    repo_root: Path, path: Path, target: str, *, remote: str = "origin", delete_branch: bool = False
) -> Removal:
    """Remove the worktree when its commits are in `target` or on the remote, and nothing else is in it.

    The remote is asked, not remembered. With `delete_branch` the local branch goes too, but only when
    `target` contains it; main, master and develop never do.
    """
    quarantine.settle_left(repo_root, path)
    tree = find(repo_root, path)
    if tree is None:
        return Removal(path, why_not=UNKNOWN)
    with locking.exclusive(repo_root, tree.branch or str(path)):
        why_not = _keep(repo_root, tree, target, remote)
        if not why_not:
            # looked at already; git itself would look with settings that are not ours
            ended = locking.run("worktree", "remove", "--force", str(tree.path), cwd=repo_root)
            why_not = "" if ended.ok else ended.stderr.strip() or f"git ended with {ended.code}"
        if why_not:
            return Removal(path, tree.branch, why_not)
        return Removal(path, tree.branch, "", delete_branch and _delete_branch(repo_root, tree, target))


def why_kept(repo_root: Path, path: Path, target: str, *, remote: str = "origin") -> str:
    """Why `remove` would leave the worktree; empty where it would go. Nothing is changed."""
    tree = find(repo_root, path)
    return UNKNOWN if tree is None else _keep(repo_root, tree, target, remote)


def _keep(repo_root: Path, tree: Worktree, target: str, remote: str) -> str:
    """Why the worktree must stay; empty where nothing would be lost."""
    if why_not := _untouchable(tree) or _work_in(tree.path):
        return why_not
    if _merged(repo_root, tree.head, target) or _pushed(repo_root, tree, remote):
        return ""
    return f"{tree.head[:12]} is neither in {target} nor on {remote}"


def _untouchable(tree: Worktree) -> str:
    if tree.main:
        return "it is the main checkout"
    if tree.missing:
        return "its directory is gone; git worktree prune forgets it"
    return "" if tree.locked is None else f"it is locked ({tree.locked or 'no reason given'})"


def _work_in(path: Path) -> str:
    if (worktree_status.git_dir(path) / "modules").is_dir() and (inner := submodules.unpublished(path)):
        return f"its submodule {inner} has commits that are nowhere else"
    if waiting := worktree_status.unfinished(path):
        return f"a {waiting} is in progress"
    files = worktree_status.uncommitted(path)
    return f"uncommitted work: {several(files)}" if files else ""


def _merged(repo_root: Path, commit: str, target: str) -> bool:
    found = merges.find_branches(repo_root, [target]).get(target)
    return found is not None and commands.contains(repo_root, found.commit, commit)


def _pushed(repo_root: Path, tree: Worktree, remote: str) -> bool:
    if tree.branch is None:
        return False
    ended = commands.run("ls-remote", "--exit-code", remote, f"{HEADS}{tree.branch}", cwd=repo_root)
    there = ended.stdout.split()[0] if ended.ok and ended.stdout.strip() else ""
    # a commit that we do not have cannot be compared, and then git says no
    return bool(there) and (there == tree.head or commands.contains(repo_root, there, tree.head))


def _delete_branch(repo_root: Path, tree: Worktree, target: str) -> bool:
    name = tree.branch
    if name is None or name in PROTECTED or name == target or not _merged(repo_root, tree.head, target):
        return False
    # with the commit that was looked at, so that a branch which moved meanwhile stays
    return locking.run("update-ref", "-d", f"{HEADS}{name}", tree.head, cwd=repo_root).ok


# --- stale entries ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stale:
    """An entry in git's list that no longer stands for a usable worktree."""

    path: Path
    branch: str | None
    why: Literal["directory gone", "half made"]


def stale(repo_root: Path) -> list[Stale]:
    """Entries without a directory, and worktrees whose making was interrupted."""
    return [
        Stale(tree.path, tree.branch, "half made" if tree.half_made else "directory gone")
        for tree in listed(repo_root)
        if not tree.main and (tree.half_made or (tree.missing and tree.locked is None))
    ]


def prune(repo_root: Path) -> list[Stale]:
    """Forget the entries whose directory is gone; what was forgotten. No file and no branch goes.

    A half-made worktree with files is left for `prepare`, which completes it.
    """
    gone = [entry for entry in stale(repo_root) if not entry.path.exists()]
    for entry in gone:
        if entry.why == "half made" and not locking.gits_at(entry.path):
            locking.output("worktree", "unlock", str(entry.path), cwd=repo_root)
    if gone:
        locking.output("worktree", "prune", cwd=repo_root)
    left = {entry.path for entry in stale(repo_root)}
    return [entry for entry in gone if entry.path not in left]

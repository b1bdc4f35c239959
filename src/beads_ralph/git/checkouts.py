"""Throw-away checkouts of one commit, for checks that must not see an agent's leftovers."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import git_files, locking, worktrees
from beads_ralph.process import process_table

REASON: Final = "beads-ralph check of process"
"""The lock of a checkout: git's own pruning leaves it alone, and `prune_checks` sees whose it is."""


@contextmanager
def checkout_clean(repo_root: Path, commit: str, into: Path) -> Iterator[Path]:
    """A detached worktree of exactly `commit` at `into`, gone at the end whatever happened inside."""
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        message = f"{into} is not empty, so nothing can be checked out there"
        raise RalphError(
            Code.GIT_ERROR, message, suggested_action=f"Move it away, such as: mv {into} {into}.old"
        )
    reason = f"{REASON} {process_table.own_name()}"
    words = ("--quiet", "--detach", "--lock", "--reason", reason, str(into), commit)
    try:
        locking.output("worktree", "add", *words, cwd=repo_root)
        yield into
    finally:
        _discard(repo_root, into, reason)


def prune_checks(repo_root: Path) -> list[Path]:
    """Remove the checkouts that killed runs left; those of living processes stay."""
    left = [tree for tree in worktrees.listed(repo_root) if _is_orphan(tree)]
    for tree in left:
        locking.wait_for_orphans(tree.path)
        _discard(repo_root, tree.path, tree.locked or REASON)
    return [tree.path for tree in left]


def _is_orphan(tree: worktrees.Worktree) -> bool:
    locked = tree.locked or ""
    return locked.startswith(f"{REASON} ") and not process_table.is_running(locked.removeprefix(f"{REASON} "))


def _discard(repo_root: Path, path: Path, reason: str) -> None:
    """Remove a checkout with all that its checks put there; anything but this very checkout stays."""
    if not _locked_for(path, reason):
        tree = worktrees.find(repo_root, path)
        if tree is None or tree.locked != reason:
            return
        path = tree.path
    if path.exists():
        shutil.rmtree(path, onerror=_writable_first)
    locking.output("worktree", "remove", "--force", "--force", str(path), cwd=repo_root)


def _locked_for(path: Path, reason: str) -> bool:
    """As git's files say. Where a check has spoilt them, the list of all worktrees knows."""
    try:
        own = git_files.folders_of(path)[1]
        return (own / "locked").read_text("utf-8").strip() == reason and (
            Path((own / "gitdir").read_text("utf-8").strip()) == path / ".git"
        )
    except (OSError, ValueError, IndexError):
        return False


def _writable_first(remove: Callable[[str], Any], name: str, _problem: object) -> None:
    """Some tools make their caches read-only, folders included."""
    parent = Path(name).parent
    for place in (parent, Path(name)):
        if place.exists() and not place.is_symlink():
            place.chmod(place.stat().st_mode | stat.S_IRWXU)
    if remove in (os.open, os.scandir, os.lstat):
        shutil.rmtree(name)
    elif Path(name).exists() or Path(name).is_symlink():
        remove(name)

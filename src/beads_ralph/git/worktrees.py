"""Worktrees of beads: made once, found again after any crash."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from beads_ralph.errors import BeadRefused, Code, RalphError
from beads_ralph.git import commands, git_files, locking, merges, ref_changes, worktree_status
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.merges import NOTHING, Branch, Conflict, MergeOutcome, Proven

INITIALIZING: Final = "initializing"
"""What git writes into a worktree's lock until it is whole; it stays when git is killed."""

NOT_PLAIN: Final = ("reftable", "config.worktree")
"""Where these are, git alone knows all that belongs to a new worktree."""


@dataclass(frozen=True)
class Worktree:
    """One entry of git's list."""

    path: Path
    head: str
    branch: str | None
    """None when detached."""
    locked: str | None = None
    """The reason; empty where none was given, None where it is not locked."""
    missing: bool = False
    """The directory, or the link in it, is gone."""
    main: bool = False

    @property
    def half_made(self) -> bool:
        return self.locked == INITIALIZING


@dataclass(frozen=True)
class PreparedWorktree:
    """A worktree ready for an agent, or with a conflict for one to resolve."""

    path: Path
    branch: str
    base_commit: str
    """Where the branch left its source; all that the pull request will show lies after it."""
    head_commit: str
    """What stands there now, dependencies merged in; what an agent changes lies after it."""
    created: bool
    merged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Dependencies' branches that exist nowhere: deleted after their merge, or never made."""
    conflict: Conflict | None = None
    unfinished: str = ""
    """A rebase, cherry-pick, revert or bisect that an earlier agent left; dependencies wait for its end."""
    saved: str | None = None
    """The commit that holds uncommitted work found before dependencies were merged in."""
    new_branch: bool = False
    """True if the branch was made now, too; else it may hold work of before."""


# --- finding ------------------------------------------------------------------------------------------


def listed(repo_root: Path) -> list[Worktree]:
    """Every worktree that git knows, the main one first."""
    if (known := git_files.worktrees(repo_root)) is not None:
        return [_known(*one, main=number == 0) for number, one in enumerate(known)]
    text = locking.output("worktree", "list", "--porcelain", cwd=repo_root)
    blocks = [block.splitlines() for block in text.split("\n\n") if block]
    return [_worktree(rows, main=number == 0) for number, rows in enumerate(blocks)]


def _known(path: Path, head: str, branch: str | None, locked: str | None, *, main: bool) -> Worktree:
    return Worktree(path, head, branch, locked, missing=not main and not (path / ".git").exists(), main=main)


def _worktree(rows: Sequence[str], *, main: bool) -> Worktree:
    facts = {key: value for key, _space, value in (row.partition(" ") for row in rows)}
    branch = facts.get("branch")
    path = Path(facts["worktree"])
    return Worktree(
        path,
        facts.get("HEAD", ""),
        branch.removeprefix(HEADS) if branch else None,
        facts.get("locked"),
        missing="prunable" in facts or (not main and not (path / ".git").exists()),
        main=main,
    )


def find(repo_root: Path, path: Path) -> Worktree | None:
    """The worktree at exactly this path."""
    return _at(listed(repo_root), path)


def _at(trees: Sequence[Worktree], path: Path) -> Worktree | None:
    real = Path(os.path.realpath(path))
    return next((tree for tree in trees if Path(os.path.realpath(tree.path)) == real), None)


# --- preparing ----------------------------------------------------------------------------------------


def prepare(
    repo_root: Path,
    path: Path,
    branch: str,
    source: str,
    dependencies: Sequence[str],
    proven: Proven = NOTHING,
) -> PreparedWorktree:
    """The worktree of `branch` at `path`, with the branches it depends on merged in: of one with proven
    commits those, wherever it leads.

    Safe to call again after any crash, and by many at once: a branch that exists is never reset, files
    that git did not put there are never deleted, a half-made worktree is completed.
    """
    with locking.exclusive(repo_root, branch):
        _refuse_clash(branch, merges.find_branches(repo_root, [branch, *_above(branch)]))
        trunk = merges.source_of(repo_root, source)
        known = merges.reliable_branches(repo_root, [branch, *dependencies])
        head = _attach(repo_root, path, branch, known.get(branch) or trunk)
        if head is None:
            return _found(path, branch, trunk, dependencies, proven)
        base = head if head == trunk.commit else _base(path, branch, trunk)
        outcome = merges.merge_into(path, head, dependencies, known, proven, fresh=True)
        return replace(_prepared(path, branch, base, outcome, created=True), new_branch=branch not in known)


def _found(
    path: Path, branch: str, trunk: Branch, dependencies: Sequence[str], proven: Proven
) -> PreparedWorktree:
    """A worktree that was there: what an earlier run or agent left in it goes first."""
    waiting = worktree_status.unfinished(path)
    if waiting not in ("", "merge"):
        base = _base(path, branch, trunk)
        return PreparedWorktree(
            path, branch, base, worktree_status.head(path), created=False, unfinished=waiting
        )
    outcome = merges.merge_all(path, dependencies, proven)
    return _prepared(path, branch, _base(path, branch, trunk), outcome, created=False)


def _prepared(
    path: Path, branch: str, base: str, outcome: MergeOutcome, *, created: bool
) -> PreparedWorktree:
    found = (outcome.merged, outcome.missing, outcome.conflict)
    return PreparedWorktree(path, branch, base, outcome.head, created, *found, saved=outcome.saved)


def _base(path: Path, branch: str, trunk: Branch) -> str:
    ended = commands.run("merge-base", trunk.commit, "HEAD", cwd=path)
    if ended.ok:
        return ended.stdout.strip()
    message = f"{branch} and its source, {trunk.ref}, share no commit"
    raise RalphError(Code.GIT_ERROR, message, suggested_action="Check the source branch in the plan")


def _above(branch: str) -> list[str]:
    parts = branch.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _refuse_clash(branch: str, known: Iterable[str]) -> None:
    """git keeps branches as files: `main/x` cannot be where `main` is, here or where it is pushed to."""
    above = _above(branch)
    clashing = next((name for name in known if name in above or name.startswith(f"{branch}/")), None)
    if clashing:
        message = f"git cannot have both the branches {branch} and {clashing}: one is a folder of the other"
        action = f"Give the sprint a **Branch** such as work/{branch}, then: beads-ralph mason PLAN --update"
        raise BeadRefused(Code.GIT_ERROR, message, suggested_action=action)


def _attach(repo_root: Path, path: Path, branch: str, start: Branch) -> str | None:
    """See that the worktree is there and whole; its commit where it was made now, None where found."""
    trees = listed(repo_root)
    here = _at(trees, path)
    if here and here.half_made:
        locking.wait_for_orphans(path)
        here = find(repo_root, path)
    if here and not here.missing and (not here.half_made or _complete(here, branch)):
        _refuse_other(here, branch)
        return None
    # also where the branch is said to be at another place that is gone: the folder was moved by hand
    gone = [tree for tree in trees if tree.missing and tree.branch == branch and tree.locked is None]
    for tree in dict.fromkeys([*([here] if here else []), *gone]):
        _forget(repo_root, tree)
        trees = [other for other in trees if other.path != tree.path]
    _refuse_place(trees, path, branch)
    return _add(repo_root, path, branch, start)


def _complete(here: Worktree, branch: str) -> bool:
    """Finish what a killed `git worktree add` began; False where there is nothing yet to finish.

    Nobody was let in before it was whole, so every file in it comes from the checkout.
    """
    if here.missing or {entry.name for entry in here.path.iterdir()} <= {".git"}:
        return False
    if here.branch != branch:
        locking.output("symbolic-ref", "HEAD", f"{HEADS}{branch}", cwd=here.path)
    _fill(here.path)
    return True


def _forget(repo_root: Path, here: Worktree) -> None:
    """Take an entry without a working tree out of git's list. The branch and its commits stay."""
    if here.locked is not None and not here.half_made:
        message = f"the worktree {here.path} is gone, but locked ({here.locked or 'no reason given'})"
        action = f"Bring it back, or run: git worktree unlock {here.path}"
        raise BeadRefused(Code.GIT_ERROR, message, suggested_action=action)
    if here.path.is_dir() and {entry.name for entry in here.path.iterdir()} <= {".git"}:
        (here.path / ".git").unlink(missing_ok=True)
        here.path.rmdir()
    if here.path.exists():
        raise _foreign(here.path)
    locking.output("worktree", "remove", "--force", "--force", str(here.path), cwd=repo_root)


def _refuse_other(here: Worktree, branch: str) -> None:
    if here.main:
        message = f"{here.path} is the main checkout; agents work in worktrees beside it"
        raise BeadRefused(
            Code.GIT_ERROR, message, suggested_action="Choose another worktree path in the plan"
        )
    if here.branch == branch or (here.branch is None and _rebasing(here.path) == branch):
        return
    standing = f"on branch {here.branch}" if here.branch else f"detached at {here.head[:12]}"
    message = f"the worktree {here.path} should be on branch {branch}, but is {standing}"
    action = f"See what is there, then run: git -C {here.path} switch {branch}"
    raise BeadRefused(Code.GIT_ERROR, message, suggested_action=action)


def _rebasing(path: Path) -> str | None:
    own = worktree_status.git_dir(path)
    for name in (own / "rebase-merge" / "head-name", own / "rebase-apply" / "head-name"):
        if name.exists():
            return name.read_text(encoding="utf-8").strip().removeprefix(HEADS)
    return None


def _refuse_place(trees: Sequence[Worktree], path: Path, branch: str) -> None:
    real = Path(os.path.realpath(path))
    for tree in trees:
        if tree.branch == branch:
            message = f"branch {branch} is checked out at {tree.path} already"
            action = "Switch that one to another branch, or name that path as the worktree in the plan"
            raise BeadRefused(Code.GIT_ERROR, message, suggested_action=action)
        if not tree.main and (real.is_relative_to(tree.path) or tree.path.is_relative_to(real)):
            message = f"{path} and the worktree {tree.path} lie one inside the other"
            raise BeadRefused(Code.GIT_ERROR, message, suggested_action="Choose another worktree path")
    if real.exists() and (not real.is_dir() or any(real.iterdir())):
        raise _foreign(path)


def is_left_over(repo_root: Path, path: Path) -> bool:
    """True if it was a worktree of a repository that lay here before and was deleted as a whole."""
    link = path / ".git"
    if not link.is_file():
        return False
    own = worktree_status.git_dir(path)
    return own.is_relative_to(repo_root.absolute() / ".git" / "worktrees") and not own.exists()


def _foreign(path: Path) -> RalphError:
    message = f"{path} exists, but is not a worktree of this repository; its files stay as they are"
    return BeadRefused(
        Code.GIT_ERROR, message, suggested_action=f"Move it away, such as: mv {path} {path}.old"
    )


def _add(repo_root: Path, path: Path, branch: str, start: Branch) -> str:
    """A branch that exists is taken as it is; otherwise it starts at `start`. The commit checked out."""
    if start.ref != f"{HEADS}{branch}":
        made = ref_changes.make(repo_root, f"{HEADS}{branch}", start.commit)
        # The last git of a killed run may have been a step ahead of us.
        ahead = None if made.ok else merges.find_branches(repo_root, [branch]).get(branch)
        start = ahead or start
        if not made.ok and ahead is None:
            locking.printed(made, ("branch", branch, start.commit))
    # Without files and locked as git itself does it, until they are there: filters are those of the run.
    if not _enter(repo_root, path, branch):
        marked = ("--no-checkout", "--lock", "--reason", INITIALIZING)
        words = ("worktree", "add", "--quiet", *marked, str(path), branch)
        ended = locking.run(*words, cwd=repo_root)
        if not ended.ok:
            locking.wait_for_orphans(path)
            tree = find(repo_root, path)
            if tree is None or tree.branch != branch or tree.missing or not tree.half_made:
                locking.printed(ended, words)
    _fill(path)
    return start.commit


def _enter(repo_root: Path, path: Path, branch: str) -> bool:
    """Enter a worktree without files into git's list, as `git worktree add` does; False where it has to do
    that itself. The entry is whole before anybody can see it."""
    common = Path(os.path.realpath(repo_root)) / ".git"
    if any((common / name).exists() for name in NOT_PLAIN) or not (common / "HEAD").is_file():
        return False
    tree = Path(os.path.realpath(path))
    new = common / "beads-ralph" / f"{hashlib.sha256(branch.encode()).hexdigest()[:16]}.worktree"
    try:
        shutil.rmtree(new, ignore_errors=True)  # a killed run may have left it
        new.mkdir(parents=True)
        facts = {"locked": INITIALIZING, "HEAD": f"ref: {HEADS}{branch}", "gitdir": f"{tree}/.git"}
        for name, text in {**facts, "commondir": "../.."}.items():
            (new / name).write_text(f"{text}\n", "utf-8", "surrogateescape")
        own = _named(new, common / "worktrees", tree.name)
        tree.mkdir(parents=True, exist_ok=True)
        (tree / ".git").write_text(f"gitdir: {own}\n", "utf-8", "surrogateescape")
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        return False
    return True


def _named(new: Path, folder: Path, name: str) -> Path:
    """Move it into the folder under a name that is free."""
    folder.mkdir(exist_ok=True)
    for number in count():
        place = folder / f"{name}{number or ''}"
        try:
            return new.rename(place)
        except OSError as problem:
            if problem.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
    raise AssertionError


def _fill(path: Path) -> None:
    locking.output("reset", "--hard", "--quiet", cwd=path)
    (worktree_status.git_dir(path) / "locked").unlink(missing_ok=True)

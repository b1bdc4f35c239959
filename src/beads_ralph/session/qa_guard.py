"""QA agents look and change nothing: what they changed all the same is put back, kept aside, and told."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.words import several
from beads_ralph.git import commands, locking, objects, worktree_status, worktrees
from beads_ralph.git.checkout import Checkout
from beads_ralph.git.git_files import HEADS
from beads_ralph.session.merge_check import DISCARDED

LOOKED_AT: Final = ("refs/heads/", "refs/tags/")
STATUS: Final = '"status"'
MOST_FILES: Final = 1000
MOST_COMMITS: Final = 1000
LONGEST_TEXT: Final = 1024 * 1024


@dataclass(frozen=True)
class Scene:
    """What QA agents are shown, and what must be as it was afterwards."""

    root: Path
    worktree: Path
    branch: str
    commit: str
    refs: Mapping[str, str]
    dirty: frozenset[str] | None
    """What was not committed in the worktree, such as a repository inside of it; None where nobody can have
    changed anything there."""


def scene(root: Path, worktree: Path, branch: str, commit: str, *, in_reach: bool) -> Scene:
    dirty = frozenset(worktree_status.uncommitted(worktree)) if in_reach else None
    return Scene(root, worktree, branch, commit, _refs(root), dirty)


def _refs(root: Path) -> dict[str, str]:
    return commands.refs_of(root, *LOOKED_AT)


# --- afterwards ---------------------------------------------------------------------------------------


def in_checkout(checkout: Checkout, before: Collection[str] = ()) -> tuple[list[str], str]:
    """What they did to the checkout, which is thrown away with it: what a reviewer should know, and what
    makes their word worth nothing. `before` is what its setup had changed."""
    if not (checkout.path / ".git").exists():
        return ["QA agents removed their checkout"], ""
    files = [name for name in checkout.changed() if name not in before]
    mended = [name for name in checkout.put_back()[0] if name not in before] if files else []
    head = checkout.head()
    flags = [f"QA agents changed {several(files)} in their checkout; thrown away"] if files else []
    if head == checkout.commit and not mended:
        return flags, ""
    did = f"changed {several(mended)}" if mended else f"committed {(head or 'something')[:12]}"
    return flags, f"QA agents {did} in their checkout, so what they say is not about the commit; thrown away"


def is_untouched(checkout: Checkout, before: Collection[str], seen: Scene) -> bool:
    """Whether nothing that is judged has been changed so far, while others may still look at it."""
    if not (checkout.path / ".git").exists() or checkout.head() != checkout.commit:
        return False
    branch = _refs(seen.root).get(f"{HEADS}{seen.branch}")
    return set(checkout.changed()) <= {*before} and branch == seen.commit and not _touched(seen)


def elsewhere(seen: Scene, keep_as: str, neighbours: Collection[str]) -> tuple[list[str], str]:
    """What they did besides: what a reviewer should know, and what makes their word worth nothing.

    The branch and its worktree are the bead's alone, so a change there is theirs; it is put back. Any other
    ref may have been moved by the user or by somebody else's agent: that is told, and left.
    """
    now = _refs(seen.root)
    own = f"{HEADS}{seen.branch}"
    others = {f"{HEADS}{name}" for name in neighbours} | {own}
    moved = [name for name in {**seen.refs, **now} if seen.refs.get(name) != now.get(name)]
    shown = sorted(name for name in moved if name not in others)
    flags = [f"while QA agents looked, other refs changed: {several(shown)}"] if shown else []
    return flags, _put_back(seen, now.get(own), keep_as)


def _put_back(seen: Scene, branch: str | None, keep_as: str) -> str:
    files = _touched(seen)
    found = []
    if branch != seen.commit:
        found.append(f"moved {seen.branch} to {branch[:12]}" if branch else f"deleted {seen.branch}")
    if files:
        found.append(f"changed {several(files)} in the bead's worktree")
    elif worktree_status.current_branch(seen.worktree) != seen.branch:
        found.append("left the bead's worktree on another branch")
    if not found:
        return ""
    if files and worktrees.find(seen.root, seen.worktree):
        branch = worktree_status.commit_leftovers(seen.worktree, "left by QA agents").commit or branch
    kept = ""
    if branch and branch != seen.commit:
        locking.output("update-ref", f"{DISCARDED}/{keep_as}", branch, cwd=seen.root)
        kept = f" (kept as {DISCARDED}/{keep_as})"
    _restore(seen)
    return f"QA agents {' and '.join(found)}; put back{kept}. A QA agent judges and does not change the work"


def _touched(seen: Scene) -> list[str]:
    if not (seen.worktree / ".git").exists():
        return [f"{seen.worktree.name}/"]
    if seen.dirty is None:
        return []
    return [name for name in worktree_status.uncommitted(seen.worktree) if name not in seen.dirty]


def _restore(seen: Scene) -> None:
    """The branch at its commit, and the worktree on it."""
    if not (seen.worktree / ".git").exists():  # the next attempt makes it anew
        locking.output("update-ref", f"{HEADS}{seen.branch}", seen.commit, cwd=seen.root)
        return
    locking.output("symbolic-ref", "HEAD", f"{HEADS}{seen.branch}", cwd=seen.worktree)
    locking.output("update-ref", f"{HEADS}{seen.branch}", seen.commit, cwd=seen.root)
    locking.output("reset", "--hard", "--quiet", seen.commit, cwd=seen.worktree)


# --- whose words they are -----------------------------------------------------------------------------


def is_quoted(answer: Mapping[str, Any], repo: Path, base: str, commit: str) -> bool:
    """Whether the change itself holds the answer, in a file or in a message: a reviewer that prints what it
    read would say it, too."""
    with objects.of(repo) as reader:
        files = [one.new.id for one in reader.changes(base, commit)[:MOST_FILES] if one.new]
        texts = [text for text in map(reader.text, files) if STATUS in text]
        texts += reader.messages(commit, base, MOST_COMMITS)
    return any(answer == other for text in texts for other in _objects(text[:LONGEST_TEXT]))


def _objects(text: str) -> Iterator[Any]:
    """Every JSON object in it."""
    reader = json.JSONDecoder()
    for place in re.finditer(r"\{\s*\"", text):
        with suppress(ValueError, RecursionError):
            yield reader.raw_decode(text, place.start())[0]

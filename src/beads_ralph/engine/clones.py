"""The clones of a worker: by remote, one for each session at work, kept for the next one.

Two sessions never share a clone: what one guards against the other would do. What an earlier session left
there is taken down before the next begins; commits that no branch of the remote has are kept aside in the
clone.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, text_files
from beads_ralph.git import commands, locking
from beads_ralph.git.git_files import HEADS
from beads_ralph.git.merges import ORIGIN

OURS: Final = "+refs/beads-ralph/start/*:refs/beads-ralph/start/*"
LEFT: Final = "refs/beads-ralph/left"


def cache_home() -> Path:
    """Where a worker keeps its clones and the orders at work."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "beads-ralph" / "worker"


@contextmanager
def free_clone(home: Path, remote: str) -> Iterator[Path]:
    """A clone that nobody works in, held for the block; it need not be there yet."""
    place = home / "clones" / hashlib.sha256(remote.encode()).hexdigest()[:16]
    for number in itertools.count(1):
        folder = place / str(number)
        text_files.make_folder(folder)
        try:
            with lock.held(folder / "lock", 0.0, _busy):
                yield folder / "clone"
                return
        except BusyError:
            continue


class BusyError(RalphError):
    """Another session works in this clone."""


def _busy() -> RalphError:
    return BusyError(Code.CONFLICT, "the clone is in use")


def fetch(clone: Path, remote: str, source: str) -> None:
    """The clone with everything that the remote has, and the source branch checked out."""
    if not (clone / ".git").exists():
        _clone(clone, remote)
    locking.output("fetch", "--quiet", "--prune", "origin", f"+{HEADS}*:{ORIGIN}*", OURS, cwd=clone)
    locking.output("checkout", "--quiet", "--force", "--detach", f"{ORIGIN}{source}", cwd=clone)


def refresh(clone: Path, remote: str, source: str) -> None:
    """The same, and nothing of earlier sessions in it."""
    if (clone / ".git").exists():
        _clear(clone)
    fetch(clone, remote, source)


def _clone(clone: Path, remote: str) -> None:
    """Without a branch of its own: one would stay behind while the remote moves on."""
    text_files.make_folder(clone.parent)
    locking.output("clone", "--quiet", "--no-checkout", "--", remote, str(clone), cwd=clone.parent)
    branch = commands.output("symbolic-ref", "--short", "HEAD", cwd=clone)
    commands.output("checkout", "--quiet", "--detach", cwd=clone)
    commands.output("branch", "--quiet", "-D", branch, cwd=clone)


def _clear(clone: Path) -> None:
    listed = commands.output("worktree", "list", "--porcelain", cwd=clone).splitlines()
    trees = [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
    for tree in trees[1:]:
        locking.run("worktree", "remove", "--force", "--force", tree, cwd=clone)
    locking.run("worktree", "prune", cwd=clone)
    for ref, commit in commands.refs_of(clone, HEADS).items():
        aside = f"{LEFT}/{ref.removeprefix(HEADS)}/{commit}"
        locking.output("update-ref", aside, commit, cwd=clone)
        locking.output("update-ref", "-d", ref, commit, cwd=clone)

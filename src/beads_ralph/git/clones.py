"""A clone that works for others: what it starts from comes from its remote, and what it makes goes there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from beads_ralph.files import text_files
from beads_ralph.git import commands, locking
from beads_ralph.git.merges import HEADS, ORIGIN

OURS: Final = "+refs/beads-ralph/start/*:refs/beads-ralph/start/*"
PUSH_SECONDS: Final = 300.0


def fetch(clone: Path, remote: str, source: str) -> None:
    """The clone with everything that the remote has, and the source branch checked out."""
    if not (clone / ".git").exists():
        _clone(clone, remote)
    locking.output("fetch", "--quiet", "origin", f"+{HEADS}*:{ORIGIN}*", OURS, cwd=clone)
    locking.output("checkout", "--quiet", "--detach", f"{ORIGIN}{source}", cwd=clone)


def _clone(clone: Path, remote: str) -> None:
    """Without a branch of its own: one would stay behind while the remote moves on."""
    text_files.make_folder(clone.parent)
    locking.output("clone", "--quiet", "--no-checkout", "--", remote, str(clone), cwd=clone.parent)
    branch = commands.output("symbolic-ref", "--short", "HEAD", cwd=clone)
    commands.output("checkout", "--quiet", "--detach", cwd=clone)
    commands.output("branch", "--quiet", "-D", branch, cwd=clone)


def push(clone: Path, refs: Mapping[str, str | None]) -> str:
    """Push those of the refs that have a commit, never by force; why it failed, empty where it did not."""
    there = {ref: commit for ref, commit in refs.items() if commit}
    if not there:
        return ""
    words = [f"{commit}:{ref}" for ref, commit in there.items()]
    ended = commands.run("push", "--quiet", "origin", *words, cwd=clone, timeout=PUSH_SECONDS)
    return "" if ended.ok else f"cannot push {', '.join(there)}: {ended.stderr.strip()}"

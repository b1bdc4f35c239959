"""The fence around a bead's branch on the remote: only the host that has the newest token can push.

`refs/beads-ralph/fence/<bead>` leads to a commit that names the token of the order in force and a step.
Every push of the branch moves the fence by one step, in one atomic push that compares it with the step
before. A host that was given up has a token of the past: its next push is refused whole, whenever it comes
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.session.worktree import ref_word

OURS: Final = "refs/beads-ralph"
FENCES: Final = f"{OURS}/fence"
PUSH_SECONDS: Final = 300.0
WHO: Final = "beads-ralph <beads-ralph@localhost> 0 +0000"
TRIES: Final = 5


def fence_ref(bead_id: str) -> str:
    return f"{FENCES}/{ref_word(bead_id)}"


def refs_at(root: Path, remote: str, *refs: str) -> dict[str, str]:
    """What the remote has for those of the refs that it has."""
    return {name: commit for name, commit in _listed(root, remote, *refs).items() if name in refs}


def ours_at(root: Path, remote: str) -> dict[str, str]:
    """Every ref of ours that the remote has, whichever run it is from."""
    return _listed(root, remote, f"{OURS}/*")


def _listed(root: Path, remote: str, *patterns: str) -> dict[str, str]:
    ended = commands.run("ls-remote", "--", remote, *patterns, cwd=root)
    if not ended.ok:
        raise RalphError(Code.GIT_ERROR, f"{remote} cannot be read", details=ended.stderr.strip())
    rows = (line.split("\t") for line in ended.stdout.splitlines())
    return {name: commit for commit, name in rows}


def token_at(root: Path, remote: str, commit: str, *besides: str) -> str:
    """The token that a fence's commit names; what else is asked for is fetched along with it."""
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--", remote)
    ended = commands.run(*words, commit, *besides, cwd=root, timeout=PUSH_SECONDS)
    if not ended.ok:
        raise RalphError(Code.GIT_ERROR, f"cannot fetch from {remote}", details=ended.stderr.strip())
    return commands.output("log", "-1", "--format=%s", commit, cwd=root).partition(" ")[0]


def raise_anew(root: Path, remote: str, bead_id: str, token: str, refs: Mapping[str, str]) -> None:
    """A new fence in place of whatever stands there, and refs that the remote lacks; all of it or nothing."""
    ref, new = fence_ref(bead_id), _commit(root, token, 0)
    for left in reversed(range(TRIES)):
        there = refs_at(root, remote, ref).get(ref, "")
        ended = _push(root, remote, {ref: (there, new)}, refs)
        if not ended:
            return
        if not left or refs_at(root, remote, ref).get(ref, "") == there:  # else a host pushed meanwhile
            action = "Other machines work from the remote: see that you may push to it"
            raise RalphError(
                Code.GIT_ERROR, f"cannot push to {remote}", details=ended, suggested_action=action
            )


@dataclass
class Fenced:
    """The fence as the host sees it that was given the token."""

    root: Path
    remote: str
    bead_id: str
    token: str
    step: int = 0

    def push(self, refs: Mapping[str, str]) -> str:
        """Push these refs, never by force; why it failed, empty where it did not. DATABASE.CONFLICT where
        another host has the bead by now."""
        ref, here = fence_ref(self.bead_id), _commit(self.root, self.token, self.step)
        new = _commit(self.root, self.token, self.step + 1)
        problem = _push(self.root, self.remote, {ref: (here, new)}, refs)
        if problem:
            try:
                there = refs_at(self.root, self.remote, ref).get(ref, "")
            except RalphError:  # the remote is away, which tells nothing of the fence
                return f"cannot push {', '.join(refs)}: {problem}"
            if there not in (here, new):
                raise RalphError(
                    Code.CONFLICT, f"{self.bead_id} was given to another host; nothing is pushed"
                )
            if there == here:
                return f"cannot push {', '.join(refs)}: {problem}"
        self.step += 1  # done, also where only the answer was lost
        return ""


def _push(root: Path, remote: str, fences: Mapping[str, tuple[str, str]], refs: Mapping[str, str]) -> str:
    leases = [f"--force-with-lease={ref}:{there}" for ref, (there, _) in fences.items()]
    words = [f"{commit}:{ref}" for ref, (_, commit) in fences.items()]
    words += [f"{commit}:{ref}" for ref, commit in refs.items()]
    push = ("push", "--quiet", "--atomic", *leases, "--", remote, *words)
    ended = commands.run(*push, cwd=root, timeout=PUSH_SECONDS)
    return "" if ended.ok else ended.stderr.strip() or f"exit code {ended.code}"


def remove(root: Path, remote: str, refs: Mapping[str, str]) -> str:
    """Delete refs of ours that are still as they were seen; why not, empty where they are gone."""
    if not refs:
        return ""
    leases = [f"--force-with-lease={ref}:{there}" for ref, there in refs.items()]
    push = ("push", "--quiet", *leases, "--", remote, *(f":{ref}" for ref in refs))
    ended = commands.run(*push, cwd=root, timeout=PUSH_SECONDS)
    return "" if ended.ok else ended.stderr.strip()


def _commit(root: Path, token: str, step: int) -> str:
    """The same name wherever it is made: it is known without having been fetched."""
    tree = commands.run("hash-object", "-t", "tree", "-w", "--stdin", cwd=root, stdin="").stdout.strip()
    text = f"tree {tree}\nauthor {WHO}\ncommitter {WHO}\n\n{token} {step}\n"
    made = commands.run("hash-object", "-t", "commit", "-w", "--stdin", cwd=root, stdin=text)
    if not made.ok:
        raise RalphError(Code.GIT_ERROR, "cannot write a commit", details=made.stderr.strip())
    return made.stdout.strip()

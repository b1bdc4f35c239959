"""Processes that work on a repository: `python -m tests.git.child prepare ROOT PATH BRANCH DEPENDENCY…`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from beads_ralph.git import merges, proofs, worktree_status, worktrees


def prepare(root: str, path: str, branch: str, *dependencies: str) -> None:
    made = worktrees.prepare(Path(root), Path(path), branch, "main", dependencies)
    print(json.dumps([made.head_commit, made.created, made.merged]), flush=True)  # noqa: T201


def leftovers(path: str) -> None:
    print(worktree_status.commit_leftovers(Path(path), "leftovers").commit, flush=True)  # noqa: T201


def merge(path: str, *branches: str) -> None:
    print(merges.merge_all(Path(path), branches).merged, flush=True)  # noqa: T201


def check(root: str, commit: str) -> None:
    with proofs.at(Path(root)).checkout(commit) as clean:
        print(clean.path, flush=True)  # noqa: T201
        sys.stdin.readline()


TASKS: dict[str, Callable[..., None]] = {
    "prepare": prepare,
    "leftovers": leftovers,
    "merge": merge,
    "check": check,
}

if __name__ == "__main__":
    os.environ["KILL_UP_TO"] = str(os.getpid())
    TASKS[sys.argv[1]](*sys.argv[2:])

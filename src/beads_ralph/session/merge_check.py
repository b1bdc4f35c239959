"""What a merge must keep: the changes of every side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.git import commands, locking, merge_loss
from beads_ralph.git.merge_loss import LostHunk
from beads_ralph.git.merges import Conflict

SHOWN: Final = 20
DISCARDED: Final = "refs/beads-ralph/discarded"
"""Nothing is lost: what is taken off a branch can still be looked at."""


@dataclass(frozen=True)
class Survival:
    """What became of one side's changes."""

    lost: Sequence[LostHunk] = ()
    rewritten: Sequence[LostHunk] = ()
    """Gone, with lines like them in their place: where both sides changed one line, nothing else can be.
    Whether the meaning was kept the tests and the reviewers say, who are told."""

    @property
    def story(self) -> str:
        return "; ".join(str(hunk) for hunk in self.lost[:SHOWN])

    @property
    def flag(self) -> str:
        return "; ".join(str(hunk) for hunk in self.rewritten[:SHOWN])


def survival(root: Path, side: str, merged: str, others: Sequence[str]) -> Survival:
    """How the changes of `side`, since it left the first of `others`, fared in `merged`."""
    ended = commands.run("merge-base", others[0], side, cwd=root)
    gone = merge_loss.lost_changes(root, ended.stdout.strip(), side, merged, others) if ended.ok else []
    return Survival(
        [hunk for hunk in gone if hunk.kind != "rewritten"],
        [hunk for hunk in gone if hunk.kind == "rewritten"],
    )


def dropped(root: Path, conflict: Conflict, merged: str) -> str:
    """What an agent's resolution of a conflict left out, of either side; empty where nothing is."""
    sides = {
        conflict.branch: (conflict.theirs, conflict.ours),
        conflict.into: (conflict.ours, conflict.theirs),
    }
    told = {name: survival(root, side, merged, [other]).story for name, (side, other) in sides.items()}
    return "; ".join(f"changes of {name} were lost: {story}" for name, story in told.items() if story)


def take_back(worktree: Path, conflict: Conflict, merged: str, keep_as: str) -> None:
    """The branch as it was before the merge; what the agent made of it stays under a ref."""
    locking.output("update-ref", f"{DISCARDED}/{keep_as}", merged, cwd=worktree)
    locking.output("reset", "--hard", "--quiet", conflict.ours, cwd=worktree)

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

    changed: Sequence[LostHunk] = ()
    """The merge kept them; whoever did the bead's tasks after it did not."""

    @property
    def story(self) -> str:
        return "; ".join(str(hunk) for hunk in self.lost[:SHOWN])

    @property
    def flag(self) -> str:
        told = {"rewritten": self.rewritten, "changed after the merge": self.changed}
        shown = {why: "; ".join(str(hunk) for hunk in hunks[:SHOWN]) for why, hunks in told.items() if hunks}
        return "; ".join(f"{why}: {hunks}" for why, hunks in shown.items())


def survival(root: Path, side: str, merged: str, others: Sequence[str]) -> Survival:
    """How the changes of `side`, since it left the first of `others`, fared in `merged`."""
    ended = commands.run("merge-base", others[0], side, cwd=root)
    gone = merge_loss.lost_changes(root, ended.stdout.strip(), side, merged, others) if ended.ok else []
    return Survival(
        [hunk for hunk in gone if hunk.kind != "rewritten"],
        [hunk for hunk in gone if hunk.kind == "rewritten"],
    )


def survival_after(root: Path, side: str, merge: str, commit: str, others: Sequence[str]) -> Survival:
    """The same of a commit with more work on top of the merge, which may change what was merged."""
    found = survival(root, side, commit, others)
    if merge == commit or not found.lost:
        return found
    gone = {_place(hunk) for hunk in survival(root, side, merge, others).lost}
    return Survival(
        [hunk for hunk in found.lost if _place(hunk) in gone],
        found.rewritten,
        [hunk for hunk in found.lost if _place(hunk) not in gone],
    )


def _place(hunk: LostHunk) -> tuple[str, int, int]:
    return hunk.file, hunk.first_line, hunk.last_line


def joined_at(root: Path, base: str, commit: str, sides: Sequence[str]) -> str:
    """The first commit of the branch that holds all sides; the last one where there is none."""
    words = ("rev-list", "--first-parent", "--reverse", "--end-of-options", f"{base}..{commit}")
    line = commands.output(*words, cwd=root).split()
    whole = (one for one in line if all(commands.contains(root, one, side) for side in sides))
    return next(whole, commit)


def is_all_there_is(root: Path, base: str, commit: str) -> bool:
    """Whether the branch holds merges, and nothing that anybody did after them."""
    words = ("rev-list", "--first-parent", "--no-merges", "--count", "--end-of-options", f"{base}..{commit}")
    return commands.output(*words, cwd=root).strip() == "0"


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

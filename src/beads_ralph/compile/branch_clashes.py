"""What git would refuse among the branches and worktrees of beads that are made together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from beads_ralph.store.protocol import AnyBead


@dataclass(frozen=True)
class Clash:
    """Two beads that cannot both have what they name."""

    owner: str
    field: str
    message: str


def clashes(beads: Mapping[str, AnyBead]) -> Iterator[Clash]:
    """All of them; the keys say whose each bead is, in the words for people, such as `sprint 1.2`."""
    yield from _shared(beads)
    yield from _nested(beads)


def _shared(beads: Mapping[str, AnyBead]) -> Iterator[Clash]:
    """git keeps a branch in one worktree and a worktree on one branch."""
    by_worktree: dict[str, tuple[str, str]] = {}
    by_branch: dict[str, tuple[str, str]] = {}
    for owner, bead in beads.items():
        branch, worktree = bead.metadata.branch, bead.metadata.worktree_path
        other, taken = by_worktree.setdefault(worktree, (owner, branch))
        if taken != branch:
            message = f"{owner}: worktree {worktree} holds branch {taken} of {other} already"
            yield Clash(owner, "metadata.worktree_path", message)
        other, taken = by_branch.setdefault(branch, (owner, worktree))
        if taken != worktree:
            message = f"{owner}: branch {branch} has the worktree {taken} of {other} already"
            yield Clash(owner, "metadata.branch", message)


def _nested(beads: Mapping[str, AnyBead]) -> Iterator[Clash]:
    """git keeps branches as files: where there is `a`, there is no `a/b`."""
    owners = {bead.metadata.branch: owner for owner, bead in beads.items()}
    for branch, owner in owners.items():
        parts = branch.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        taken = next((folder for folder in above if folder in owners), None)
        if taken is not None:
            message = f"{owner}: git cannot have branch {branch} beside {taken} of {owners[taken]}"
            yield Clash(owner, "metadata.branch", message)

"""Branches and worktrees of sprints that git, or a run, would refuse."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beads_ralph.compile.setting import Setting
from beads_ralph.store.protocol import AnyBead

WORKTREE: Final = "metadata.worktree_path"
BRANCH: Final = "metadata.branch"
SYSTEM: Final = tuple(
    Path("/", name)
    for name in ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr")
)
"""Folders that belong to the machine."""
ELSEWHERE: Final = "Choose another **Worktree**, such as ../{name}"
ANOTHER_BRANCH: Final = "Choose another **Branch**, such as work/{name}"


@dataclass(frozen=True)
class PlaceFault:
    """A bead that cannot have what it names."""

    owner: str
    field: str
    message: str
    action: str


def place_faults(beads: Mapping[str, AnyBead], setting: Setting) -> Iterator[PlaceFault]:
    """Of beads that are still to be worked on. The keys say whose each is, in the words for people."""
    waiting = {owner: bead for owner, bead in beads.items() if bead.status != "closed"}
    for owner, bead in waiting.items():
        branch, source = bead.metadata.branch, bead.metadata.source_branch
        if why := _worktree_fault(Path(setting.absolute(bead.metadata.worktree_path)), setting.root):
            yield PlaceFault(owner, WORKTREE, f"{owner}: the worktree {why}", _advice(ELSEWHERE, branch))
        if why := _branch_fault(branch, source, setting):
            yield PlaceFault(owner, BRANCH, f"{owner}: {why}", _advice(ANOTHER_BRANCH, branch))
    yield from _nested(waiting, setting)


def _advice(form: str, branch: str) -> str:
    return form.format(name=branch.rpartition("/")[2])


def _worktree_fault(path: Path, root: Path) -> str:
    if path == root:
        return f"{path} is the main checkout; agents work in worktrees beside it"
    if root.is_relative_to(path):
        return f"{path} holds the repository itself"
    if path.is_relative_to(root / ".git"):
        return f"{path} lies in git's own folder"
    system = next((folder for folder in SYSTEM if path.is_relative_to(folder)), None)
    if system is not None and not root.is_relative_to(system):
        return f"{path} lies in {system}, which belongs to the system"
    return ""


def _branch_fault(branch: str, source: str, setting: Setting) -> str:
    if branch == source:
        return f"branch {branch} is its own source branch; work needs a branch beside it"
    if branch == setting.checked_out:
        return f"branch {branch} is checked out in the main checkout; work needs a branch beside it"
    above = next((name for name in setting.branches if branch.startswith(f"{name}/")), None)
    below = next((name for name in setting.branches if name.startswith(f"{branch}/")), None)
    if above or below:
        return f"git cannot have branch {branch} beside {above or below}: one is a folder of the other"
    return ""


def _nested(beads: Mapping[str, AnyBead], setting: Setting) -> Iterator[PlaceFault]:
    places = {setting.absolute(bead.metadata.worktree_path): owner for owner, bead in beads.items()}
    for owner, bead in beads.items():
        path = setting.absolute(bead.metadata.worktree_path)
        outer = next((above for above in _above(path) if above in places), None)
        if outer is not None:
            folder = beads[places[outer]].metadata.branch
            if bead.metadata.branch.startswith(f"{folder}/") or setting.root.is_relative_to(outer):
                continue  # refused already, for a better reason
            message = f"{owner}: the worktree {path} lies inside {outer}, the worktree of {places[outer]}"
            yield PlaceFault(owner, WORKTREE, message, _advice(ELSEWHERE, bead.metadata.branch))


def _above(path: str) -> Iterator[str]:
    while (above := os.path.dirname(path)) != path:  # noqa: PTH120 - one path for each of ten thousand beads
        yield above
        path = above


# --- two sprints and one place ------------------------------------------------------------------------


def branch_clashes(beads: Mapping[str, AnyBead]) -> Iterator[PlaceFault]:
    """git keeps a branch in one worktree, a worktree on one branch, and branches as files: where there is
    `a`, there is no `a/b`. The keys say whose each bead is, in the words for people: `sprint 1.2`."""
    by_worktree: dict[str, tuple[str, str]] = {}
    by_branch: dict[str, tuple[str, str]] = {}
    for owner, bead in beads.items():
        branch, worktree = bead.metadata.branch, bead.metadata.worktree_path
        other, taken = by_worktree.setdefault(worktree, (owner, branch))
        if taken != branch:
            message = f"{owner}: worktree {worktree} holds branch {taken} of {other} already"
            action = "Give one of them another **Worktree**, or both the same **Branch**"
            yield PlaceFault(owner, WORKTREE, message, action)
        other, taken = by_branch.setdefault(branch, (owner, worktree))
        if taken != worktree:
            message = f"{owner}: branch {branch} has the worktree {taken} of {other} already"
            action = "Give one of them another **Branch**, or both the same **Worktree**"
            yield PlaceFault(owner, BRANCH, message, action)
    owners = {bead.metadata.branch: owner for owner, bead in beads.items()}
    for branch, owner in owners.items():
        parts = branch.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        folder = next((name for name in above if name in owners), None)
        if folder is not None:
            message = f"{owner}: git cannot have branch {branch} beside {folder} of {owners[folder]}"
            yield PlaceFault(owner, BRANCH, message, f"Choose another **Branch** than {branch}")

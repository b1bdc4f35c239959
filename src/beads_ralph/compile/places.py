"""Branches and worktrees of sprints that git, or a run, would refuse."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from beads_ralph.compile.setting import Setting
from beads_ralph.store.protocol import AnyBead

WORKTREE: Final = "metadata.worktree_path"
BRANCH: Final = "metadata.branch"
SYSTEM: Final = tuple(
    f"/{name}"
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
    folders = {folder: name for name in setting.branches for folder in _folders(name)}
    for owner, bead in waiting.items():
        branch, source = bead.metadata.branch, bead.metadata.source_branch
        if why := _worktree_fault(setting.absolute(bead.metadata.worktree_path), str(setting.root)):
            yield PlaceFault(owner, WORKTREE, f"{owner}: the worktree {why}", _advice(ELSEWHERE, branch))
        if why := _branch_fault(branch, source, setting, folders):
            yield PlaceFault(owner, BRANCH, f"{owner}: {why}", _advice(ANOTHER_BRANCH, branch))
    yield from _nested(waiting, setting)


def _advice(form: str, branch: str) -> str:
    return form.format(name=branch.rpartition("/")[2])


def _worktree_fault(path: str, root: str) -> str:
    if path == root:
        return f"{path} is the main checkout; agents work in worktrees beside it"
    if _lies_in(root, path):
        return f"{path} holds the repository itself"
    if _lies_in(path, f"{root}/.git"):
        return f"{path} lies in git's own folder"
    system = next((folder for folder in SYSTEM if _lies_in(path, folder)), None)
    if system is not None and not _lies_in(root, system):
        return f"{path} lies in {system}, which belongs to the system"
    return ""


def _lies_in(path: str, folder: str) -> bool:
    """As texts, since pathlib takes its time over ten thousand sprints."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _branch_fault(branch: str, source: str, setting: Setting, folders: Mapping[str, str]) -> str:
    if branch == source:
        return f"branch {branch} is its own source branch; work needs a branch beside it"
    if branch == setting.checked_out:
        return f"branch {branch} is checked out in the main checkout; work needs a branch beside it"
    above = next((folder for folder in _folders(branch) if folder in setting.branches), None)
    below = folders.get(branch)
    if above or below:
        return f"git cannot have branch {branch} beside {above or below}: one is a folder of the other"
    return ""


def _folders(branch: str) -> Iterator[str]:
    parts = branch.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _nested(beads: Mapping[str, AnyBead], setting: Setting) -> Iterator[PlaceFault]:
    places = {setting.absolute(bead.metadata.worktree_path): owner for owner, bead in beads.items()}
    for owner, bead in beads.items():
        path = setting.absolute(bead.metadata.worktree_path)
        outer = next((above for above in _above(path) if above in places), None)
        if outer is not None:
            folder = beads[places[outer]].metadata.branch
            if bead.metadata.branch.startswith(f"{folder}/") or _lies_in(str(setting.root), outer):
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
        folder = next((name for name in _folders(branch) if name in owners), None)
        if folder is not None:
            message = f"{owner}: git cannot have branch {branch} beside {folder} of {owners[folder]}"
            yield PlaceFault(owner, BRANCH, message, f"Choose another **Branch** than {branch}")

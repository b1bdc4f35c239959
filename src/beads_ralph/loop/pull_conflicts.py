"""Which pull requests of a run conflict with one another: found at its end, by merging them on trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from pathlib import Path
from typing import Final

from beads_ralph.forge.protocol import PullRequest
from beads_ralph.git import commands, merges
from beads_ralph.git.git_files import HEADS
from beads_ralph.journal.events import PullConflict

MOST_PAIRS: Final = 300
"""So many are merged on trial, which takes some seconds; more share files only where all change one file."""


@dataclass(frozen=True)
class Tip:
    """The newest proposal of a branch."""

    bead: str
    pull: PullRequest
    files: frozenset[str] = frozenset()


def among(root: Path, pulls: Sequence[tuple[str, PullRequest]]) -> tuple[PullConflict, ...]:
    """The pairs that cannot both be merged as they are. Two that another one brings together are none."""
    newest = {pull.branch: Tip(bead, pull) for bead, pull in pulls}
    if len(newest) < 2:  # noqa: PLR2004 - a pair
        return ()
    tips = _with_files(root, list(newest.values()))
    pairs = list(islice(_near(tips), MOST_PAIRS))
    found = merges.foresee(root, [(one.pull.commit, two.pull.commit) for one, two in pairs]) or []
    clashes = [(pair, files) for pair, files in zip(pairs, found, strict=False) if files]
    holders = _holders(root, {tip.pull.commit for pair, _ in clashes for tip in pair}, newest)
    return tuple(
        PullConflict((one.bead, two.bead), (one.pull.branch, two.pull.branch), tuple(files))
        for (one, two), files in clashes
        if not holders[one.pull.commit] & holders[two.pull.commit]
    )


def _near(tips: Sequence[Tip]) -> Iterator[tuple[Tip, Tip]]:
    """Those for one target that change a file in common."""
    pairs = combinations(tips, 2)
    return ((a, b) for a, b in pairs if a.pull.target == b.pull.target and a.files & b.files)


def _with_files(root: Path, tips: Sequence[Tip]) -> list[Tip]:
    """Each with the files that differ from its target, in one command however many there are."""
    targets = merges.find_branches(root, sorted({tip.pull.target for tip in tips}))
    known = [tip for tip in tips if tip.pull.target in targets]
    asked = "".join(f"{tip.pull.commit} {targets[tip.pull.target].commit}\n" for tip in known)
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--stdin")
    found = _by_commit(commands.run(*words, cwd=root, stdin=asked).stdout, {tip.pull.commit for tip in known})
    return [replace(tip, files=frozenset(found.get(tip.pull.commit, ()))) for tip in known]


def _by_commit(printed: str, commits: Collection[str]) -> dict[str, list[str]]:
    """What git prints: each commit, and the names of its files after it."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for word in filter(None, printed.split("\0")):
        if word in commits:
            names = found.setdefault(word, [])
        else:
            names.append(word)
    return found


def _holders(root: Path, commits: Iterable[str], tips: Mapping[str, Tip]) -> dict[str, set[str]]:
    """By commit: the branches of other pull requests that have it."""
    found: dict[str, set[str]] = {}
    for commit in commits:
        words = ("for-each-ref", "--format=%(refname)", f"--contains={commit}", HEADS)
        names = {row.removeprefix(HEADS) for row in commands.output(*words, cwd=root).split()}
        found[commit] = names & tips.keys()
    return found

"""What a run remembers of beads that are not at work: enough to build on them, and to tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beads_ralph.bead.model import Bead, Verifier
from beads_ralph.session.order import Neighbour

MOST_NEIGHBOURS: Final = 40


@dataclass(frozen=True)
class Known:
    """What is remembered of a bead. Not the bead itself: with its history it would fill the memory of a
    long run."""

    branch: str
    source: str
    plan_file: str
    verifiers: tuple[Verifier, ...]
    closed: bool
    commit: str | None
    """The one that was proven."""
    title: str = ""
    status: str = ""
    pull: str | None = None
    tasks: tuple[str, ...] = ()

    @classmethod
    def of(cls, bead: Bead) -> Known:
        place = bead.metadata
        verifiers = tuple(place.dod.verifiers) if place.dod else ()
        proven = place.proven.commit if place.proven and bead.status == "closed" else None
        return cls(
            place.branch,
            place.source_branch,
            place.plan_file,
            verifiers,
            bead.status == "closed",
            proven,
            bead.title,
            bead.status,
            bead.external_ref,
            tuple(place.dev_prompts),
        )


def neighbours(bead: Bead, known: Mapping[str, Known]) -> tuple[Neighbour, ...]:
    """The beads of the same plan that are closed, at work or merged into this one; of very many, the last."""
    place, waits = bead.metadata, {*bead.dependencies}
    merged = {*(place.branches_to_merge or ())}
    found = []
    for name, other in known.items():
        joined = name in waits or other.branch in merged
        told = joined or other.status in ("closed", "in_progress")
        if told and name != bead.id and other.plan_file == place.plan_file:
            tasks = other.tasks if joined else ()
            found.append(Neighbour(name, other.title, other.branch, other.status, other.pull, tasks))
    near = [one for one in found if one.tasks or one.status == "in_progress"]
    far = [one for one in found if one not in near]
    return (*far[-MOST_NEIGHBOURS:], *near)


def branches_of(beads: Iterable[Known], besides: str) -> Sequence[str]:
    """Beads on one branch follow one another there, so that there is nothing to merge."""
    names = dict.fromkeys(bead.branch for bead in beads)
    return [name for name in names if name != besides]


def proofs(beads: Iterable[Known]) -> list[tuple[str, str]]:
    """The proven commits, each with its branch."""
    return [(bead.branch, bead.commit) for bead in beads if bead.commit]


def proven_on(beads: Iterable[Known]) -> dict[str, tuple[str, ...]]:
    """By branch: the proven commits of the beads there."""
    found: dict[str, dict[str, None]] = {}
    for branch, commit in proofs(beads):
        found.setdefault(branch, {})[commit] = None
    return {branch: tuple(commits) for branch, commits in found.items()}

"""What a closed bead rests on: checks that ran, a reviewer's word, or a person's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from beads_ralph.bead.model import Bead

Standing = Literal["proven", "reviewed", "accepted"]
"""proven: a verifier passed on the commit. reviewed: only agents have judged it. accepted: a person says so."""


def standing(metadata: Mapping[str, Any]) -> Standing | None:
    """Of a bead's metadata as JSON; None where no commit has passed its checks.

    The key `proven` names the commit that passed. Whether that is a proof depends on the evidence."""
    commit = (metadata.get("proven") or {}).get("commit")
    if commit is None:
        return None
    rows = (metadata.get("last_verdict") or {}).get("evidence") or ()
    return "proven" if any(_is_verified(row, commit) for row in rows) else "reviewed"


def _is_verified(row: Mapping[str, Any], commit: str) -> bool:
    return (row.get("kind"), row.get("ruling"), row.get("commit")) == ("verifier", "pass", commit)


def standing_text(found: Standing, commit: str) -> str:
    """The standing of a commit, for people."""
    said = f"{found} on {commit[:12]}"
    return f"{said}, no verifier ran" if found == "reviewed" else said


def without_verifier(beads: Iterable[Bead]) -> list[str]:
    """The ids of those that can be closed on review alone: no verifier is theirs, nor that of a bead whose
    work they carry along, on a branch that they merge or before them on their own."""
    known = {bead.id: bead for bead in beads}
    verified: dict[tuple[str, str], list[Bead]] = {}
    for bead in known.values():
        if bead.metadata.dod:
            verified.setdefault((bead.metadata.plan_file, bead.metadata.branch), []).append(bead)
    bare = (bead for bead in known.values() if not bead.metadata.dod)
    return [bead.id for bead in bare if not _carries_verified(bead, verified, known)]


def _carries_verified(
    bead: Bead, verified: Mapping[tuple[str, str], list[Bead]], known: Mapping[str, Bead]
) -> bool:
    place = bead.metadata
    if any((place.plan_file, branch) in verified for branch in place.branches_to_merge or ()):
        return True
    beside = verified.get((place.plan_file, place.branch), ())
    if not beside:
        return False
    from beads_ralph.bead import graph

    before = graph.reachable([bead.id], {name: other.dependencies for name, other in known.items()})
    return any(other.status == "closed" or other.id in before for other in beside)

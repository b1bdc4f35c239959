"""Source branches: where the work of a bead starts, and what to do where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import several
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands, merges
from beads_ralph.git.merges import Branch

NOWHERE: Final = "exists neither here nor on origin"


def start_of(repo_root: Path, source: str, known: Mapping[str, Branch]) -> Branch:
    """The source among the branches that were found."""
    if source not in known:
        raise _missing(repo_root, f"the source branch {source} {NOWHERE}", source)
    return known[source]


def require(repo_root: Path, beads: Sequence[Bead]) -> None:
    """Refuse beads that could not start, all at once. `beads` are those that would be worked on, with
    everything that they wait for: a source may be the branch of one of these, which is made by then."""
    known = merges.find_branches(repo_root, [""])
    wanted = [bead for bead in beads if bead.metadata.source_branch not in known]
    missing: dict[str, list[str]] = {}
    for bead in _not_made_before(wanted, beads):
        missing.setdefault(bead.metadata.source_branch, []).append(bead.id)
    if missing:
        said = (f"the source branch {name} of {several(ids)} {NOWHERE}" for name, ids in missing.items())
        raise _missing(repo_root, "; ".join(said), *missing, data={"missing_branches": missing})


def _not_made_before(wanted: Iterable[Bead], beads: Sequence[Bead]) -> Iterator[Bead]:
    there, made = {bead.id: bead for bead in beads}, {bead.metadata.branch for bead in beads}
    for bead in wanted:
        source = bead.metadata.source_branch
        before = _before(bead, there) if source in made else ()
        if all(other.metadata.branch != source for other in before):
            yield bead


def _before(bead: Bead, there: Mapping[str, Bead]) -> Iterator[Bead]:
    """What it waits for, the nearest first."""
    waiting, seen = list(bead.dependencies), {bead.id}
    for name in waiting:
        if name in there and name not in seen:
            seen.add(name)
            yield there[name]
            waiting += there[name].dependencies


def _missing(repo_root: Path, message: str, *names: str, data: Mapping[str, Any] | None = None) -> RalphError:
    if commands.run("rev-parse", "--verify", "--quiet", "HEAD", cwd=repo_root).ok:
        action = (
            f"Create it (git branch {names[0]}) or fetch it, or name another source branch in the plan; then "
            "run: beads-ralph mason PLAN --update"
        )
    else:
        message = f"the repository {repo_root} has no commit yet, so no branch can start from {names[0]}"
        action = "Commit something first: git commit --allow-empty --message start"
    return RalphError(Code.GIT_ERROR, message, suggested_action=action, data=data)

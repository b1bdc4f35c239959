"""Before a run starts: what would make every bead fail is better said before the first one does."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from beads_ralph.bead import personas
from beads_ralph.bead.model import Bead
from beads_ralph.compile.setting import without_verifier
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import gates
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.git import merges, worktree_status
from beads_ralph.loop import blockers
from beads_ralph.loop.run_settings import Scope, foresee
from beads_ralph.session import confinement
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import Query


def check(space: Workspace, store: Store, scope: Scope) -> list[Bead]:
    """Raise what would make every bead fail; the beads to come."""
    worktree_status.head(space.root)  # says what to do where there is no commit to start a branch from
    confinement.require(space.config, space.root)
    if space.config.check_before_start:
        _require_space(space)
    stored = store.find(Query(wisps=scope.wisps)).beads
    beads = [bead for bead in stored if bead.status != "closed" and scope.holds(bead)]
    confinement.refuse_unreachable(space.config, space.root, beads)
    faults = {str(fault): fault for bead in beads for fault in personas.check_agents(bead, space.root)}
    if faults:
        raise gathered(list(faults.values()), "the beads")
    require_sources(space.root, stored, scope, blockers.overview(store, beads, stored, hurried=True))
    return beads


def require_sources(
    root: Path, beads: Sequence[Bead], scope: Scope, seen: blockers.Overview | None = None
) -> None:
    """Of those that would start; what is blocked, or waits for it, needs no branch yet."""
    waves, _ = foresee(beads, scope, seen)
    starting = {bead_id for wave in waves for bead_id in wave}
    merges.require_sources(root, [bead for bead in beads if bead.id in starting])


def _require_space(space: Workspace) -> None:
    wanted = space.config.min_free_gb
    free = shutil.disk_usage(space.root).free / 1e9
    if free < wanted:
        message = f"{free:.1f} GB are free, {wanted:g} GB are wanted"
        action = "Free some space, or lower min_free_gb in beads-ralph.yaml"
        raise RalphError(Code.WRITE_FAILED, message, suggested_action=action)


@dataclass(frozen=True)
class DryRun:
    """What a run would do."""

    waves: list[list[str]]
    waiting: dict[str, str]
    """What would not start, and why."""
    without_verifier: list[str]
    """Those of the waves that would be closed on review alone."""


def rehearse(root: Path, store: Store, scope: Scope, planned: Sequence[Bead] = ()) -> DryRun:
    """Foresee a run; `planned` are beads as it would put them into the store."""
    stored = store.find(Query(wisps=scope.wisps)).beads
    new = {bead.id: bead for bead in planned}
    beads = [*new.values(), *(bead for bead in stored if bead.id not in new)]
    left = [bead for bead in beads if bead.status != "closed" and scope.holds(bead)]
    seen = blockers.overview(store, left, beads)
    require_sources(root, beads, scope, seen)
    waves, waiting = foresee(beads, scope, seen)
    for gate in gates.known(root, stored, store):
        if gate.colour != "green":
            waiting[gate.key] = "is a gate: a run checks it first, and starts no feature while it is red"
    bare = {*without_verifier(beads)}
    return DryRun(waves, waiting, [bead_id for wave in waves for bead_id in wave if bead_id in bare])

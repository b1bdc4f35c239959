"""Check the gates, or override them."""

from __future__ import annotations

import os

from beads_ralph.app.parts import environment_of, executor_of, recorded, sweep, world_of
from beads_ralph.bead import redaction
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import gates
from beads_ralph.dod.gates import Gate
from beads_ralph.journal import runs
from beads_ralph.journal.events import GatesOverridden
from beads_ralph.process.calls import run_until_ended
from beads_ralph.session.verify import Bench
from beads_ralph.store.protocol import Progress, Store, silent


def check_gates(
    space: Workspace, store: Store, *, override_by: str | None = None, warn: Progress = silent
) -> list[Gate]:
    """Run the verifiers of the gates; `override_by` lets features start although some are red."""
    run_id = runs.new_run_id()
    home = gates.home_of(space.root)
    redaction.know(os.environ, space.config.agent_env, space.root)
    with runs.exclusive(home, run_id, subject=gates.BEING_CHECKED):
        sweep(home)
        with recorded(home, run_id) as (folder, journal):
            executor, environment = (
                executor_of(space.root, space.config),
                environment_of(space.config, folder),
            )
            world = world_of(space.root, space.config, executor, environment)
            bench = Bench(executor, folder, journal, environment)
            actor = runs.actor_name(space.root, run_id)
            checker = gates.Checker(space.root, space.config, bench, store, actor, warn, world)
            found = run_until_ended(checker.check(gates.find(space.root, store)))
            red = [gate.key for gate in found if gate.holds]
            if override_by is not None and red:
                found = checker.override(found, override_by, lasting=True)
                journal.emit(GatesOverridden(gates=tuple(red), by=override_by))
            return found

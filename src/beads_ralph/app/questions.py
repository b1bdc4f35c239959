"""Ask an agent about its work, or see what it would be told."""

from __future__ import annotations

from beads_ralph.agents.protocol import select
from beads_ralph.app.parts import asks_home, forge_of, recorded, sweep, tools_at
from beads_ralph.bead.model import Bead
from beads_ralph.config.workspace import Workspace
from beads_ralph.git import settings
from beads_ralph.journal import runs
from beads_ralph.loop.known_beads import Known, neighbours
from beads_ralph.process import executors
from beads_ralph.process.calls import run_until_ended
from beads_ralph.session import (
    Order,
    Tools,
    confinement,
    past_sessions,
)
from beads_ralph.session.past_sessions import Heard, Talk
from beads_ralph.session.preview import PromptRole, Shown, shown
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import Query


def ask(space: Workspace, bead: Bead, talk: Talk, question: str) -> Heard:
    """Take an agent's recorded session up again with a question."""
    confinement.require(space.config, space.root)
    home = asks_home(space)
    sweep(home)
    config = space.config.model_copy(update={"executor": "local", "forge": "none"})
    with recorded(home, runs.new_run_id()) as (folder, journal), settings.until_done(space.root):
        try:
            tools = tools_at(space.root, config, folder)
            return run_until_ended(past_sessions.ask_afterwards(bead, talk, question, tools, journal))
        finally:
            runs.mark_swept(folder)


def preview(space: Workspace, store: Store, bead_id: str, role: PromptRole, number: int) -> Shown:
    """What an agent of the bead would be told now."""
    bead = store.show(bead_id)
    known = {one.id: Known.of(one) for one in store.find(Query(wisps=True)).beads}
    branches = [known[name].branch for name in bead.dependencies if name in known]
    others = neighbours(bead, known)
    run_id = runs.new_run_id()
    tools = Tools(
        space.root,
        space.config,
        executors.choose("local", None),
        runs.RunFolder(asks_home(space), run_id),
        {},
        select,
        forge_of(space.root, space.config.model_copy(update={"forge": "none"})),
    )
    order = Order(
        bead, run_id, run_id, space.root, space.config, tuple(dict.fromkeys(branches)), neighbours=others
    )
    with settings.until_done(space.root):
        return shown(order, tools, role, number)

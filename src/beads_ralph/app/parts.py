"""The parts that runs, questions and checks of gates are put together from, as the settings ask for them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from beads_ralph import forge
from beads_ralph.agents.environment import passed_on
from beads_ralph.agents.protocol import select
from beads_ralph.bead import redaction
from beads_ralph.config.model import Config
from beads_ralph.config.workspace import Workspace
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Forge
from beads_ralph.git import proofs, settings
from beads_ralph.journal import runs
from beads_ralph.journal.journal import Journal
from beads_ralph.process import executors, process_tree
from beads_ralph.process.jobs import RUN_ID, Executor
from beads_ralph.process.sandbox import Sandboxed
from beads_ralph.session import (
    Tools,
    confinement,
    verifier_world,
)


def tools_at(root: Path, config: Config, folder: runs.RunFolder) -> Tools:
    """What sessions work with in the repository at `root`, with git's settings as they are now."""
    redaction.know(os.environ, config.agent_env, root)
    settings.take(root).moves = config.source_moves
    proofs.at(root).tidy()
    executor, environment = executor_of(root, config), environment_of(config, folder)
    world = world_of(root, config, executor, environment)
    return Tools(
        root,
        config,
        executor,
        folder,
        environment,
        select,
        forge_of(root, config),
        world=world,
        ports=confinement.ports_of(config),
    )


def forge_of(root: Path, config: Config) -> Forge:
    """The forge that the settings ask for, which pushes where they allow it."""
    return forge.choose(config.forge, root, network=Network.of(config), push=config.push)


def executor_of(root: Path, config: Config) -> Executor:
    """The executor and the sandbox that the settings ask for."""
    return executors.choose(config.executor, confinement.sandbox_of(config, root))


def world_of(
    root: Path, config: Config, executor: Executor, environment: Mapping[str, str]
) -> verifier_world.VerifierWorld:
    """The machine as checks find it, as it is now."""
    closed_in = executor.sandbox if isinstance(executor, Sandboxed) else None
    return verifier_world.begin(root, config, environment, closed_in)


def environment_of(config: Config, folder: runs.RunFolder) -> dict[str, str]:
    """What checks and setup inherit."""
    return {**passed_on(os.environ, config.agent_env), RUN_ID: folder.run_id}


@contextmanager
def recorded(home: Path, run_id: str) -> Iterator[tuple[runs.RunFolder, Journal]]:
    """A folder for what is run now, and its journal."""
    folder = runs.RunFolder(home, run_id)
    with closing(Journal(folder.journal, run_id)) as journal:
        yield folder, journal


def sweep(home: Path) -> list[int]:
    """End what killed runs left running. A mark is set when it is done: this, too, may be cut short."""
    ended: list[int] = []
    for left in runs.unswept(home):
        ended += process_tree.sweep(RUN_ID, left.run_id)
        runs.mark_swept(left)
    return ended


def asks_home(space: Workspace) -> Path:
    """Where `ask` keeps what agents answered: apart from the runs, of which status shows the last."""
    return ralph_dir(space.root) / "asks"

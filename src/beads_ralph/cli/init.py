"""init: set this repository up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.bead.names import AGENTS_DIR
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.config import workspace
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.dod import files
from beads_ralph.store import setup

if TYPE_CHECKING:
    from rich.console import Console


def init(
    store: Annotated[StoreChoice, typer.Option("--store", help="The store to set up.")] = "auto",
    no_agents: Annotated[
        bool, typer.Option("--no-agents", help="Write no agent files into .claude/agents/.")
    ] = False,
    json_: options.Json = False,
) -> Answer:
    """Set this repository up: settings, folders, store, agent files. What exists is kept."""
    space = workspace.find()
    done = setup.init(space, store, personas=not no_agents)
    created, kept = list(done.created), list(done.kept)
    (created if files.install_schema(space.root) else kept).append(files.SCHEMA)

    def show(console: Console) -> None:
        for name in _grouped(created):
            console.print(f"[green]+[/green] {name}")
        for name in _grouped(kept):
            console.print(f"[dim]= {name} was there already[/dim]")
        console.print(f"✓ ready, with the {done.store} store")
        console.print("  next: write a plan, then beads-ralph plan check PLAN and beads-ralph run PLAN")

    return Answer({"store": done.store, "created": created, "kept": kept}, show, done.warnings)


def _grouped(names: Sequence[str]) -> list[str]:
    """The agent files in one line."""
    others = [name for name in names if not name.startswith(AGENTS_DIR)]
    agents = len(names) - len(others)
    return [*others, *([f"{AGENTS_DIR} ({agents} agent files)"] if agents else [])]

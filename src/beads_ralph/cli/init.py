"""init: set this repository up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.bead.names import AGENTS_DIR
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, speaker
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import escape
from beads_ralph.config import project_checks, workspace
from beads_ralph.config.project_checks import ProjectCheck
from beads_ralph.config.settings_file import CONFIG_NAME, StoreChoice
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import files
from beads_ralph.store import setup

if TYPE_CHECKING:
    from rich.console import Console


def init(
    store: Annotated[StoreChoice, typer.Option("--store", help="The store to set up.")] = "auto",
    no_agents: Annotated[
        bool, typer.Option("--no-agents", help="Write no agent files into .claude/agents/.")
    ] = False,
    no_checks: Annotated[
        bool, typer.Option("--no-checks", help="Do not look for the project's own checks, and run none.")
    ] = False,
    json_: options.Json = False,
) -> Answer:
    """Set up this repository: settings, folders, store, agent files. What exists is kept."""
    space = workspace.find()
    checks = [] if no_checks or space.repository is None else _checks(space)
    done = setup.init(space, store, personas=not no_agents, checks=checks)
    created, kept = list(done.created), list(done.kept)
    (created if files.install_schema(space.root) else kept).append(files.SCHEMA)

    def show(console: Console) -> None:
        for name in _grouped(created):
            console.print(f"[green]+[/green] {name}")
        for name in _grouped(kept):
            console.print(f"[dim]= {name} was there already[/dim]")
        for words in () if space.config.plan.verify else _told(checks, kept=CONFIG_NAME in kept):
            console.print(escape(words), soft_wrap=True)
        console.print(f"✓ ready, with the {done.store} store")
        console.print("  next: write a plan, then beads-ralph plan check PLAN and beads-ralph run PLAN")

    data = {"store": done.store, "created": created, "kept": kept}
    return Answer({**data, "checks": [check.to_json() for check in checks]}, show, done.warnings)


def _checks(space: Workspace) -> list[ProjectCheck]:
    """The project's own checks; they are tried only where the settings are still to be written."""
    if (space.root / CONFIG_NAME).exists() or project_checks.is_agents():
        return project_checks.find(space.root)
    return project_checks.find_and_try(space.root, speaker(current_style()))


def _told(checks: Sequence[ProjectCheck], *, kept: bool) -> Iterator[str]:
    """In plain words: what was found, what became of it, and what that means for a close."""
    for check in checks:
        found = f"{check.command} (from {check.file})"
        if kept or check.passed is None:
            yield f"! {found} was found, and not tried"
        elif check.passed:
            yield f"✓ {found} passes: a bead is closed only where it still does"
        else:
            yield f"! {found} fails: {check.problem}; it is in {CONFIG_NAME}, commented out"
    if kept or not any(check.passed for check in checks):
        yield f"! beads will be closed on review alone until plan: in {CONFIG_NAME} has a verify:"


def _grouped(names: Sequence[str]) -> list[str]:
    """The agent files in one line."""
    others = [name for name in names if not name.startswith(AGENTS_DIR)]
    agents = len(names) - len(others)
    return [*others, *([f"{AGENTS_DIR} ({agents} agent files)"] if agents else [])]

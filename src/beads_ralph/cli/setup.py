"""init, doctor: getting started and staying well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph import workspace
from beads_ralph.bead.legacy import AGENTS_DIR
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.workspace import StoreChoice

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.cli.doctor import Check

MARKS = {"found": "[green]✓[/green]", "missing": "[red]✗[/red]", "unknown": "[yellow]?[/yellow]"}


def init(
    store: Annotated[StoreChoice, typer.Option("--store", help="The store to set up.")] = "auto",
    no_agents: Annotated[
        bool, typer.Option("--no-agents", help="Write no agent files into .claude/agents/.")
    ] = False,
    json_: options.Json = False,
) -> Answer:
    """Set this repository up: settings, folders, store, agent files. What exists is kept."""
    from beads_ralph.dod import files

    space = workspace.find()
    done = workspace.init(space, store, personas=not no_agents)
    if files.install_schema(space.root):
        done = replace(done, created=(*done.created, files.SCHEMA))
    else:
        done = replace(done, kept=(*done.kept, files.SCHEMA))
    data = {"store": done.store, "created": list(done.created), "kept": list(done.kept)}
    return Answer(data, lambda console: _show_init(console, done), done.warnings)


def _show_init(console: Console, done: workspace.Initialised) -> None:
    for name in _grouped(done.created):
        console.print(f"[green]+[/green] {name}")
    for name in _grouped(done.kept):
        console.print(f"[dim]= {name} was there already[/dim]")
    console.print(f"✓ ready, with the {done.store} store")
    console.print("  next: write a plan, then beads-ralph plan check PLAN and beads-ralph run PLAN")


def _grouped(names: Sequence[str]) -> list[str]:
    """The agent files in one line."""
    others = [name for name in names if not name.startswith(AGENTS_DIR)]
    agents = len(names) - len(others)
    return [*others, *([f"{AGENTS_DIR} ({agents} agent files)"] if agents else [])]


def doctor(json_: options.Json = False) -> Answer:
    """Look at everything the program needs, and say what to do about what is missing."""
    from beads_ralph.cli import doctor as checkup

    checks = checkup.examine(Path.cwd())
    bad = [check for check in checks if check.required and check.status != "found"]
    data = {"healthy": not bad, "checks": [check.to_json() for check in checks]}
    return Answer(data, lambda console: _show_checks(console, checks), exit_code=1 if bad else 0)


def _show_checks(console: Console, checks: list[Check]) -> None:
    from rich.markup import escape

    width = max(len(check.name) for check in checks)
    for check in checks:
        need = " [red](needed)[/red]" if check.required and check.status != "found" else ""
        console.print(f"{MARKS[check.status]} {check.name:<{width}}  {escape(check.detail)}{need}")
        if check.action and check.status != "found":
            console.print(f"  {' ' * width}[dim]→ {escape(check.action)}[/dim]")

"""gate check, gate status, gate list: what holds features up."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph import workspace
from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer
from beads_ralph.cli.style import current_style

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.dod.gates import Gate
    from beads_ralph.store.protocol import Store
    from beads_ralph.workspace import Workspace

app = typer.Typer(help="Checks of the repository as a whole; while one is red, no feature starts.")
MARKS = {"green": "[green]✓[/green]", "red": "[red]✗[/red]", "waiting": "[yellow]…[/yellow]"}
BY = "gate check --force"


@app.command("list")
def list_gates(store: options.Store = None, json_: options.Json = False) -> Answer:
    """List the gates, as they are known; nothing is run."""
    space, opened = _opened(store)
    return _answer(_find(space, opened), OK)


@app.command("status")
def status(store: options.Store = None, json_: options.Json = False) -> Answer:
    """Say whether features may start, as it is known; exit 1 where a gate is red. Nothing is run."""
    space, opened = _opened(store)
    found = _find(space, opened)
    return _answer(found, FAILED if any(gate.holds for gate in found) else OK)


@app.command("check")
def check(
    force: Annotated[
        bool, typer.Option("--force", help="Let features start although gates are red; it is recorded.")
    ] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Run the gates' verifiers; a green gate is closed, a red one is open again. Exit 1 where one is red."""
    space, opened = _opened(store)
    found = _checked(space, opened, force=force)
    return _answer(found, FAILED if any(gate.holds for gate in found) else OK)


def _opened(choice: workspace.StoreChoice | None) -> tuple[Workspace, Store]:
    space = workspace.find()
    return space, workspace.open_store(space, choice).store


def _find(space: Workspace, store: Store) -> list[Gate]:
    from beads_ralph.dod import gates

    return gates.find(space.root, store)


def _checked(space: Workspace, store: Store, *, force: bool) -> list[Gate]:
    import asyncio

    from beads_ralph.agents.environment import passed_on
    from beads_ralph.dod import gates
    from beads_ralph.journal import runs
    from beads_ralph.journal.events import GatesOverridden
    from beads_ralph.journal.journal import Journal
    from beads_ralph.process import executors, process_tree
    from beads_ralph.session import confinement
    from beads_ralph.session.verify import Bench

    config, run_id = space.config, runs.new_run_id()
    home = gates.home_of(space.root)
    with runs.exclusive(home, run_id, subject=gates.BEING_CHECKED):
        for left in runs.unswept(home):
            process_tree.sweep("BEADS_RALPH_RUN_ID", left.run_id)
            runs.mark_swept(left)
        folder = runs.RunFolder(home, run_id)
        journal = Journal(folder.journal, run_id)
        known = {**passed_on(os.environ, config.agent_env), "BEADS_RALPH_RUN_ID": run_id}
        executor = executors.choose(config.executor, confinement.sandbox_of(config, space.root))
        bench = Bench(executor, folder, journal, known)
        actor = runs.actor_name(space.root, run_id)
        checker = gates.Checker(space.root, config, bench, store, actor, _warn)
        try:
            found = asyncio.run(checker.check(gates.find(space.root, store)))
            if force and (red := [gate.key for gate in found if gate.holds]):
                found = checker.override(found, BY, lasting=True)
                journal.emit(GatesOverridden(gates=tuple(red), by=BY))
        finally:
            journal.close()
        return found


def _warn(text: str) -> None:
    if current_style() == "text":
        sys.stderr.write(f"warning: {text}\n")


def _answer(found: Sequence[Gate], exit_code: int) -> Answer:
    data = {
        "gates": [gate.to_json() for gate in found],
        "red": [gate.key for gate in found if gate.colour == "red"],
        "features_may_start": not any(gate.holds for gate in found),
    }
    return Answer(data, lambda console: _show(console, found), exit_code=exit_code)


def _show(console: Console, found: Sequence[Gate]) -> None:
    from rich.markup import escape

    for gate in found:
        over = (
            f"  [yellow]overridden by {escape(str(gate.override.get('by')))}[/yellow]"
            if gate.override
            else ""
        )
        said = f": {escape(gate.reason)}" if gate.reason else ""
        console.print(f"{MARKS[gate.colour]} {gate.key}  {escape(gate.title)}  {gate.colour}{said}{over}")
    if not found:
        console.print("there are no gates: put bead files into .ralph/gates/, or import beads of type gate")
    elif any(gate.holds for gate in found):
        console.print("features wait")
    else:
        console.print("features may start")

"""gate check, gate status, gate list: what holds features up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer, speaker
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import escape
from beads_ralph.config import workspace
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.dod import gates
from beads_ralph.dod.gates import Gate
from beads_ralph.store import registry

if TYPE_CHECKING:
    from rich.console import Console

MARKS = {"green": "[green]✓[/green]", "red": "[red]✗[/red]", "waiting": "[yellow]…[/yellow]"}
BY = "gate check --force"


def list_gates(store: options.Store = None, json_: options.Json = False) -> Answer:
    """List the gates, as they are known; nothing is run."""
    return _answer(_known(store), OK)


def status(store: options.Store = None, json_: options.Json = False) -> Answer:
    """Say whether features may start, as it is known; exit 1 where a gate is red. Nothing is run."""
    found = _known(store)
    return _answer(found, FAILED if any(gate.holds for gate in found) else OK)


def check(
    force: Annotated[
        bool, typer.Option("--force", help="Let features start although gates are red; it is recorded.")
    ] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Run the gates' verifiers; a green gate is closed, a red one is open again. Exit 1 where one is red."""
    from beads_ralph import app

    say = speaker(current_style())
    space = workspace.find()
    found = app.check_gates(
        space,
        registry.open_store(space, store).store,
        override_by=BY if force else None,
        warn=lambda text: say(f"warning: {text}"),
    )
    return _answer(found, FAILED if any(gate.holds for gate in found) else OK)


def _known(choice: StoreChoice | None) -> list[Gate]:
    space = workspace.find()
    return gates.find(space.root, registry.open_store(space, choice).store)


def _answer(found: Sequence[Gate], exit_code: int) -> Answer:
    data = {
        "gates": [gate.to_json() for gate in found],
        "red": [gate.key for gate in found if gate.colour == "red"],
        "features_may_start": not any(gate.holds for gate in found),
    }
    return Answer(data, lambda console: _show(console, found), exit_code=exit_code)


def _show(console: Console, found: Sequence[Gate]) -> None:
    for gate in found:
        by = escape(str(gate.override.get("by"))) if gate.override else ""
        over = f"  [yellow]overridden by {by}[/yellow]" if gate.override else ""
        said = f": {escape(gate.reason)}" if gate.reason else ""
        console.print(f"{MARKS[gate.colour]} {gate.key}  {escape(gate.title)}  {gate.colour}{said}{over}")
    if not found:
        console.print("there are no gates: put bead files into .ralph/gates/, or import beads of type gate")
    elif any(gate.holds for gate in found):
        console.print("features wait")
    else:
        console.print("features may start")

"""exec: work on Ralph beads in this folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer, out, speaker
from beads_ralph.cli.style import current_style

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.dod.exec_context import Done
    from beads_ralph.dod.files import BeadFile


def exec_beads(
    paths: options.BeadFiles,
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="The program that does the work.", show_default=False),
    ] = None,
    backoff: Annotated[
        float | None,
        typer.Option("--backoff", min=0, help="Seconds before the second attempt.", show_default=False),
    ] = None,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Run the verifiers, and nothing else.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate, and run nothing.")] = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Work on Ralph beads in this folder until their verifiers hold: no git and no store are needed."""
    from beads_ralph.dod import files

    beads = files.read_all(paths)
    if current_style() == "text":
        _say_valid(beads)
    if dry_run:
        return _planned(beads)
    from beads_ralph import app

    request = app.ExecRequest(agent, backoff, verify_only, config)
    done = app.execute_files(beads, request, speaker(current_style()))
    return Answer(
        {"beads": [one.to_json() for one in done], "dry_run": False},
        lambda console: _show(console, done),
        exit_code=OK if all(one.passed for one in done) else FAILED,
    )


def _say_valid(beads: Sequence[BeadFile]) -> None:
    for one in beads:
        out("Bead is valid" if len(beads) == 1 else f"{one.path}: Bead is valid")
    sys.stdout.flush()


def _planned(beads: Sequence[BeadFile]) -> Answer:
    rows = [
        {
            "file": str(one.path),
            "id": one.key,
            "title": one.bead.name,
            "status": one.bead.status,
            "verifiers": [verifier.to_json() for verifier in one.bead.verifiers()],
        }
        for one in beads
    ]

    def show(console: Console) -> None:
        from rich.markup import escape

        for one in beads:
            console.print(f"{one.key}  {escape(one.bead.name)}")
            for verifier in one.bead.verifiers():
                console.print(f"  {escape(verifier.name)}: {escape(verifier.command)}")
        console.print("nothing was run")

    return Answer({"beads": rows, "dry_run": True}, show)


def _show(console: Console, done: Sequence[Done]) -> None:
    from rich.markup import escape

    for one in done:
        mark = "[green]✓[/green]" if one.passed else "[red]✗[/red]"
        attempts = plural(one.attempts, "attempt")
        console.print(f"{mark} {one.key}  {one.status} after {attempts}: {escape(one.reason)}")
        if one.evidence:
            console.print(f"  evidence: {escape(', '.join(one.evidence))}")

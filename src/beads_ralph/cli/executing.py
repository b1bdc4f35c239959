"""What `exec` does. It needs the agents and everything below them, which no other command should wait for."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beads_ralph import forge, workspace
from beads_ralph.agents import registry
from beads_ralph.bead.field_types import plural
from beads_ralph.cli.answer import FAILED, OK, Answer, out
from beads_ralph.cli.style import current_style
from beads_ralph.dod import execute, files
from beads_ralph.dod.exec_context import Desk, Done
from beads_ralph.dod.files import BeadFile
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import diagnosis
from beads_ralph.process import executors
from beads_ralph.process.retry import Retry
from beads_ralph.session import confinement
from beads_ralph.workspace import Workspace

if TYPE_CHECKING:
    from rich.console import Console

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for; None where the settings say it."""

    paths: Sequence[Path]
    program: str | None = None
    backoff: float | None = None
    verify_only: bool = False
    dry_run: bool = False
    config: Path | None = None


def run(wishes: Wishes) -> Answer:
    beads = files.read_all(wishes.paths)
    if current_style() == "text":
        _say_valid(beads)
    if wishes.dry_run:
        return _planned(beads)
    space = workspace.find(config_file=wishes.config)
    confinement.require(space.config, space.root)
    desk = _desk(space, wishes)
    with diagnosis.logged(space.config.logging, space.root):
        done = asyncio.run(_all(beads, desk, verify_only=wishes.verify_only))
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


def _desk(space: Workspace, wishes: Wishes) -> Desk:
    config = space.config
    first = config.exec_backoff if wishes.backoff is None else wishes.backoff
    return Desk(
        place=Path.cwd(),
        root=space.root,
        config=config,
        executor=executors.choose(config.executor, confinement.sandbox_of(config, space.root)),
        select=registry.select,
        forge=forge.choose("none", space.root),
        state=space.state,
        program=wishes.program,
        pace=Retry(first=first, longest=max(config.exec_backoff_max, first), jitter=0),
        say=_say if current_style() == "text" else _nothing,
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _nothing(_text: str) -> None:
    """For scripts."""


async def _all(beads: Sequence[BeadFile], desk: Desk, *, verify_only: bool) -> list[Done]:
    """One after the other; an end from outside ends what runs, and leaves the bead as far as it is."""
    work = asyncio.ensure_future(_each(beads, desk, verify_only=verify_only))
    running = asyncio.get_running_loop()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            running.add_signal_handler(number, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        message = "interrupted; the beads are as far as they were"
        raise RalphError(Code.INTERRUPTED, message) from None


async def _each(beads: Sequence[BeadFile], desk: Desk, *, verify_only: bool) -> list[Done]:
    done = []
    for one in beads:
        desk.say(f"▶ {one.key}  {one.bead.name}")
        act = execute.verify_only if verify_only else execute.execute
        done.append(await act(one, desk))
    return done


def _show(console: Console, done: Sequence[Done]) -> None:
    from rich.markup import escape

    for one in done:
        mark = "[green]✓[/green]" if one.passed else "[red]✗[/red]"
        attempts = plural(one.attempts, "attempt")
        console.print(f"{mark} {one.key}  {one.status} after {attempts}: {escape(one.reason)}")
        if one.evidence:
            console.print(f"  evidence: {escape(', '.join(one.evidence))}")

"""logs, events: what the agents and checks of a bead printed, and the journal of the latest run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from beads_ralph.agents.streams import COLOUR
from beads_ralph.cli import executions, options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.board import line
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import printable
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import journal, runs
from beads_ralph.journal.events import Event


def logs(
    bead: Annotated[str, typer.Argument(help="The bead.")],
    follow: options.Follow = False,
    json_: options.Json = False,
) -> Answer:
    """Print what the agents and checks of a bead printed, oldest first."""
    space = workspace.find()
    files = list(_transcripts(space, bead))
    if not files and not (follow and executions.is_anything_running(space)):
        action = "See the beads with: beads-ralph list, and start them with: beads-ralph run, or exec"
        raise RalphError(Code.FILE_NOT_FOUND, f"nothing was run for {bead} yet", suggested_action=action)
    data = {"bead": bead, "files": [str(path) for path in files]}
    if follow:
        return Answer(data, lambda _: _follow(space, bead))
    return Answer(data, lambda _: _print_all(files))


def _transcripts(space: Workspace, bead: str) -> Iterator[Path]:
    folders = [home / runs.RUNS for home in (space.home, *executions.homes(space))]
    there = [folder for folder in folders if folder.is_dir() and "/" not in bead]
    found = [path for folder in there for path in folder.glob(f"*/jobs/{bead}/*")]
    yield from sorted((path for path in found if path.stat().st_size), key=lambda path: path.stat().st_mtime)


def _print_all(files: Sequence[Path]) -> None:
    for path in files:
        out(f"--- {path.parent.parent.parent.name} {path.name}")
        with path.open(encoding="utf-8", errors="replace") as file:
            for text in file:
                _put(text)


def _put(text: str) -> None:
    """As it was printed; a terminal gets it without colours, and obeys nothing of it."""
    plain = COLOUR.sub("", text).replace("\r\n", "\n") if sys.stdout.isatty() else text
    sys.stdout.write(printable(plain))


def _follow(space: Workspace, bead: str) -> None:
    """New output as it comes, until the run is over."""
    seen: dict[Path, int] = {}
    while True:
        over = not executions.is_anything_running(space)
        for path in _transcripts(space, bead):
            if path not in seen:
                out(f"--- {path.name}")
            with path.open("rb") as file:
                file.seek(seen.get(path, 0))
                more = file.read()
            seen[path] = seen.get(path, 0) + len(more)
            _put(more.decode("utf-8", "replace"))
        sys.stdout.flush()
        if over:
            return
        time.sleep(journal.POLL_SECONDS)


def show_events(follow: options.Follow = False, json_: options.Json = False) -> Answer:
    """Print the journal of the latest run."""
    home = workspace.find().home
    folder = runs.require_latest(home)
    told: list[Event] = []
    for event in journal.follow(folder.journal, lambda: not (follow and runs.is_running(home))):
        told.append(event)
        if follow and current_style() == "text":
            out(_shown(event))
            sys.stdout.flush()
    data = {"run_id": folder.run_id, "events": [event.to_json() for event in told]}
    return Answer(data, None if follow else lambda _: out("\n".join(_shown(event) for event in told)))


def _shown(event: Event) -> str:
    return f"{event.at}  {line(event) or ' '.join(filter(None, ('·', event.bead, event.kind)))}"

"""logs, events: what the agents and checks of a bead printed, and the journal of a run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from beads_ralph.agents.streams import COLOUR
from beads_ralph.bead.words import plural, several
from beads_ralph.cli import executions, options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.board import line
from beads_ralph.cli.commands import Option
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import printable
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import journal, runs
from beads_ralph.journal.events import Event
from beads_ralph.journal.runs import RunFolder


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


def show_events(
    run: Annotated[str | None, Option("--run", help="This run: its id, or the beginning of it.")] = None,
    every: Annotated[bool, Option("--all", help="All runs, oldest first.")] = False,
    follow: options.Follow = False,
    json_: options.Json = False,
) -> Answer:
    """Print the journal of the latest run that worked on something."""
    home = workspace.find().home
    shown, later = _chosen(home, run, every=every)
    if later and current_style() == "text":
        out(f"= this is run {shown[-1].run_id}; {_nothing(later)}")
    told: list[Event] = []
    for folder in shown:
        for event in journal.follow(folder.journal, _is_over(home, folder, follow=follow)):
            told.append(event)
            if follow and current_style() == "text":
                out(_shown(event))
                sys.stdout.flush()
    data = {
        "run_id": shown[-1].run_id,
        "runs": [folder.run_id for folder in shown],
        "later": [folder.run_id for folder in later],
        "events": [event.to_json() for event in told],
    }
    return Answer(data, None if follow else lambda _: out("\n".join(_shown(event) for event in told)))


def _chosen(home: Path, run: str | None, *, every: bool) -> tuple[Sequence[RunFolder], Sequence[RunFolder]]:
    """The runs to show, and those after them that have nothing to tell of a bead."""
    if run is not None and every:
        raise RalphError(Code.USAGE, "--run and --all exclude one another")
    latest = runs.require_latest(home)
    everything = runs.folders(home)
    if every:
        return everything, ()
    if run is not None:
        return [_named(run, everything)], ()
    later: list[RunFolder] = []
    for folder in [] if runs.is_running(home) else reversed(everything):
        if any(event.bead for event in journal.read(folder.journal)):
            return [folder], later[::-1]
        later.append(folder)
    return [latest], ()


def _named(run: str, everything: Sequence[RunFolder]) -> RunFolder:
    found = [folder for folder in everything if folder.run_id.startswith(run)]
    if len(found) == 1 and run:
        return found[0]
    message = f"{plural(len(found), 'run')} begin with {run}" if found else f"there is no run {run}"
    action = "See what there is: beads-ralph events --all"
    raise RalphError(Code.FILE_NOT_FOUND, message, suggested_action=action)


def _nothing(later: Sequence[RunFolder]) -> str:
    names = several([folder.run_id for folder in later])
    return f"nothing was worked on in {plural(len(later), 'later run')}: {names}"


def _is_over(home: Path, folder: RunFolder, *, follow: bool) -> Callable[[], bool]:
    """Nobody writes to a journal any more but to that of the latest run, while it lasts."""
    growing = follow and folder == runs.latest(home)
    return lambda: not (growing and runs.is_running(home))


def _shown(event: Event) -> str:
    return f"{event.at}  {line(event) or ' '.join(filter(None, ('·', event.bead, event.kind)))}"

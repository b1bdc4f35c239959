"""events: the journal of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated

from beads_ralph.bead.words import plural, several
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.board import line
from beads_ralph.cli.commands import Option
from beads_ralph.cli.style import current_style
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import journal, runs
from beads_ralph.journal.accounts import run_named
from beads_ralph.journal.events import Event
from beads_ralph.journal.runs import RunFolder


def show_events(
    name: options.RunName = None,
    run: Annotated[str | None, Option("--run", help="The same as RUN.")] = None,
    every: Annotated[bool, Option("--all", help="All runs, oldest first.")] = False,
    follow: options.Follow = False,
    json_: options.Json = False,
) -> Answer:
    """Print the journal of a run; by default the latest that did something."""
    home = workspace.find().home
    if name is not None and run is not None:
        raise RalphError(Code.USAGE, "RUN and --run name the same thing: give one of them")
    shown, later = _chosen(home, name or run, every=every)
    if later and current_style() == "text":
        out(f"= this is run {shown[-1].run_id}; {_nothing(later)}")
    told: list[Event] = []
    with suppress(KeyboardInterrupt) if follow else nullcontext():  # somebody has seen enough
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
        raise RalphError(Code.USAGE, "give a run or --all, not both")
    latest = runs.require_latest(home)
    everything = runs.folders(home)
    if every:
        return everything, ()
    if run is not None:
        return [run_named(home, run)], ()
    later: list[RunFolder] = []
    for folder in [] if runs.is_running(home) else reversed(everything):
        if any(event.bead for event in journal.read(folder.journal)):
            return [folder], later[::-1]
        later.append(folder)
    return [latest], ()


def _nothing(later: Sequence[RunFolder]) -> str:
    names = several([folder.run_id for folder in later])
    return f"nothing was worked on in {plural(len(later), 'later run')}: {names}"


def _is_over(home: Path, folder: RunFolder, *, follow: bool) -> Callable[[], bool]:
    """Nobody writes to a journal any more but to that of the latest run, while it lasts."""
    growing = follow and folder == runs.latest(home)
    return lambda: not (growing and runs.is_running(home))


def _shown(event: Event) -> str:
    return f"{event.at}  {line(event) or ' '.join(filter(None, ('·', event.bead, event.kind)))}"

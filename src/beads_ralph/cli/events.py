"""events: the journal of the latest run."""

from __future__ import annotations

import sys

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.board import line
from beads_ralph.cli.style import current_style
from beads_ralph.config import workspace
from beads_ralph.journal import journal, runs
from beads_ralph.journal.events import Event


def show_events(follow: options.Follow = False, json_: options.Json = False) -> Answer:
    """Print the journal of the latest run."""
    home = workspace.find().home
    folder = runs.require_latest(home)
    told = []
    found = journal.follow(folder.journal, lambda: not (follow and runs.is_running(home)))
    for event in found:
        told.append(event)
        if follow and current_style() == "text":
            out(_shown(event))
            sys.stdout.flush()
    data = {"run_id": folder.run_id, "events": [event.to_json() for event in told]}
    return Answer(data, None if follow else lambda _: out("\n".join(_shown(event) for event in told)))


def _shown(event: Event) -> str:
    return f"{event.at}  {line(event) or ' '.join(filter(None, ('·', event.bead, event.kind)))}"

"""pause, resume, stop: orders to a running loop."""

from __future__ import annotations

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import runs


def pause(json_: options.Json = False) -> Answer:
    """Let the running loop start nothing more until it is resumed; what runs goes on."""
    return _give("pause", "the loop starts nothing more until: beads-ralph resume")


def resume(json_: options.Json = False) -> Answer:
    """Let a paused loop go on."""
    return _give(None, "the loop goes on")


def stop(json_: options.Json = False) -> Answer:
    """Let the running loop finish what runs, and end."""
    return _give("stop", "the loop ends when what runs has finished")


def _give(word: str | None, said: str) -> Answer:
    """Leave the loop a word; None takes back what was said before."""
    home = workspace.find().home
    if not runs.is_running(home):
        action = "Start one: beads-ralph run"
        raise RalphError(Code.CONFLICT, "no loop is running here", suggested_action=action)
    runs.order(home, word)
    return Answer({"order": word}, lines(said))

"""pause, resume, stop: orders to a running loop."""

from __future__ import annotations

from beads_ralph.board import actions
from beads_ralph.board.actions import ActionResult
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace


def pause(json_: options.Json = False) -> Answer:
    """Let the running loop start nothing more until it is resumed; what runs goes on."""
    return acted(actions.pause(workspace.find().home))


def resume(json_: options.Json = False) -> Answer:
    """Let a paused loop go on."""
    return acted(actions.resume(workspace.find().home))


def stop(json_: options.Json = False) -> Answer:
    """Let the running loop finish what runs, and end."""
    return acted(actions.stop(workspace.find().home))


def acted(result: ActionResult) -> Answer:
    """What an action has done, as an answer."""
    return Answer(dict(result.data), lines(*result.lines), result.warnings)

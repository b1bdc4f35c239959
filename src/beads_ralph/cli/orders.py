"""pause, resume, stop: orders to a running loop."""

from __future__ import annotations

from beads_ralph.board import actions
from beads_ralph.board.actions import ActionResult
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace


def pause(json_: options.Json = False) -> Answer:
    """Pause the running loop: what runs goes on, nothing new starts until it is resumed."""
    return acted(actions.pause(workspace.find().home))


def resume(json_: options.Json = False) -> Answer:
    """Resume a paused loop."""
    return acted(actions.resume(workspace.find().home))


def stop(json_: options.Json = False) -> Answer:
    """Stop the running loop once what runs has finished."""
    return acted(actions.stop(workspace.find().home))


def acted(result: ActionResult) -> Answer:
    """What an action has done, as an answer."""
    return Answer(dict(result.data), lines(*result.lines), result.warnings)

"""Orders to a running loop: pause, go on, stop."""

from __future__ import annotations

from beads_ralph.cli.answer import Answer, out
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import runs


def give(word: str | None, said: str) -> Answer:
    """Leave the loop a word; None takes back what was said before."""
    home = workspace.find().home
    if not runs.is_running(home):
        raise RalphError(
            Code.CONFLICT, "no loop is running here", suggested_action="Start one: beads-ralph run"
        )
    runs.order(home, word)
    return Answer({"order": word}, lambda _: out(said))

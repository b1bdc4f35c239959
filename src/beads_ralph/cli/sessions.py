"""sessions: the calls of agents on a bead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.config import workspace
from beads_ralph.session import past_sessions
from beads_ralph.session.past_sessions import Talk
from beads_ralph.store import registry

if TYPE_CHECKING:
    from rich.console import Console


def sessions(bead: options.BeadId, store: options.Store = None, json_: options.Json = False) -> Answer:
    """List the calls of agents on a bead, and the sessions one can ask."""
    found = past_sessions.talks(registry.open_store(workspace.find(), store).store.show(bead))
    data = {"bead": bead, "sessions": [past_sessions.brief(one) for one in found]}
    return Answer(data, lambda console: _show_sessions(console, bead, found))


def _show_sessions(console: Console, bead: str, found: list[Talk]) -> None:
    from rich.markup import escape

    for one in found:
        row = past_sessions.brief(one)
        who = f"{row['role']:<4} {row['agent']} ({one.program} {one.model})"
        console.print(
            f"{one.started_at}  attempt {one.attempt}  {escape(who)}  {one.status}  "
            f"[dim]{escape(one.session_id or 'no session')}[/dim]"
        )
    if any(one.session_id for one in found):
        console.print(f'  → beads-ralph ask {bead} "why …?"')
    elif not found:
        console.print(f"no agent has worked on {bead} yet")

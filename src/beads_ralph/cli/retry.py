"""retry: open a blocked bead again."""

from __future__ import annotations

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.store import registry
from beads_ralph.store.protocol import Changes

AUTHOR = "beads-ralph"


def retry(bead: options.BeadId, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Open a blocked bead again, with all its attempts before it."""
    opened = registry.open_store(workspace.find(), store)
    found = opened.store.show(bead)
    if found.status != "blocked":
        raise RalphError(Code.CONFLICT, f"{bead} is {found.status}, not blocked")
    # The attempts stay in the history, and in its numbers; they only do not count any more.
    forgiven = {"attempts_forgiven": found.metadata.attempt_count, "spent": None, "parked": None}
    changes = Changes(status="open", metadata=forgiven, expected_status="blocked")
    opened.store.update(bead, changes)
    opened.store.comment(bead, AUTHOR, f"Opened again after {found.metadata.attempt_count} attempts.")
    return Answer({"bead": bead}, lambda _: out(f"✓ {bead} is open again; run: beads-ralph run"))

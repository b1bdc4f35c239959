"""release: take a bead back from a run that died."""

from __future__ import annotations

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import runs
from beads_ralph.store import registry


def release(bead: options.BeadId, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Give a bead back that a run holds which is no more."""
    space = workspace.find()
    opened = registry.open_store(space, store)
    found = opened.store.show(bead)
    holder = (found.model_extra or {}).get("claimed_by")
    if found.status != "in_progress" or not holder:
        raise RalphError(Code.CONFLICT, f"{bead} is {found.status}; nobody holds it")
    if runs.is_running(space.home) and str(holder).startswith(runs.actor_prefix(space.root)):
        action = "Stop the loop first: beads-ralph stop"
        raise RalphError(Code.CONFLICT, f"{bead} is held by the running loop", suggested_action=action)
    opened.store.release(bead, str(holder), status="open", reason=f"released by hand from {holder}")
    return Answer({"bead": bead, "holder": holder}, lambda _: out(f"✓ {bead} is open again"))

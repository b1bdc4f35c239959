"""retry, release: open a bead again that is blocked, that cannot be read, or that a dead run holds."""

from __future__ import annotations

from typing import Annotated

import typer

from beads_ralph.bead import healing
from beads_ralph.bead.run_state import RunState
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.journal import runs
from beads_ralph.journal.proofs import Ledger
from beads_ralph.loop import closed_beads
from beads_ralph.store import registry
from beads_ralph.store.protocol import Changes, Store
from beads_ralph.store.query import Query, UnreadableBead

AUTHOR = "beads-ralph"


def retry(
    bead: options.BeadId,
    again: Annotated[bool, typer.Option("--again", help="Also one that is closed with its proof.")] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Open a blocked bead again, or one closed without a proof; heal one that cannot be read."""
    space = workspace.find()
    opened = registry.open_store(space, store)
    broken = opened.store.find(Query(ids=[bead])).unreadable
    if broken:
        return _healed(opened.store, broken[0])
    found = opened.store.show(bead)
    proven = closed_beads.is_proven(found, Ledger(space.home).rows().get(bead))
    if found.status not in ("blocked", "closed") or (proven and not again):
        standing = "closed with its proof" if proven else found.status
        action = f"To redo it anyway: beads-ralph retry {bead} --again" if proven else None
        raise RalphError(Code.CONFLICT, f"{bead} is {standing}, not blocked", suggested_action=action)
    if found.status == "closed":
        Ledger(space.home).reopen(bead)
    _open_again(opened.store, bead, found.status, found.metadata, RunState(proven=None, accepted=None))
    said = f"✓ {bead} is open again; run: beads-ralph run"
    return Answer({"bead": bead, "dropped": []}, lines(said))


def _open_again(store: Store, bead: str, status: str, state: RunState, change: RunState) -> None:
    """The attempts stay in the history, and in its numbers; they only do not count any more."""
    forgiven = RunState(attempts_forgiven=state.attempt_count, spent=None, parked=None)
    metadata = change.changed(forgiven).to_metadata()
    store.update(bead, Changes(status="open", metadata=metadata, expected_status=status))
    store.comment(bead, AUTHOR, f"Opened again after {state.attempt_count} attempts.")


def _healed(store: Store, broken: UnreadableBead) -> Answer:
    """Drop what somebody has spoiled in the bead's run state; all else is theirs to fix."""
    metadata = broken.raw.get("metadata")
    found = healing.healed(metadata if isinstance(metadata, dict) else {})
    if not found.dropped:
        raise gathered(broken.faults, f"bead {broken.id}")
    if broken.raw.get("status") == "blocked":
        _open_again(store, broken.id, "blocked", found.state, found.change)
    else:
        store.update(broken.id, Changes(metadata=found.change.to_metadata()))
    dropped = ", ".join(found.dropped)
    store.comment(broken.id, AUTHOR, f"Dropped what could not be read: {dropped}.")
    said = f"✓ {broken.id} can be read again, without {dropped}; run: beads-ralph run"
    return Answer({"bead": broken.id, "dropped": list(found.dropped)}, lines(said))


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
    return Answer({"bead": bead, "holder": holder}, lines(f"✓ {bead} is open again"))

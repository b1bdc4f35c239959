"""close, accept: end a person's step; take a bead as done on a person's word."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import Acceptance, RunState
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.convoy import settle
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands
from beads_ralph.journal import runs
from beads_ralph.journal.proofs import Ledger
from beads_ralph.loop import closed_beads
from beads_ralph.store import registry
from beads_ralph.store.people import peoples_items
from beads_ralph.store.protocol import Changes, Store
from beads_ralph.store.query import ItemQuery, Query

SHOWN = 5


def close(
    item: Annotated[str, typer.Argument(metavar="ID", help="A task, an epic or a gate.")],
    reason: options.Reason = "",
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """End a person's step: a task that is done, a gate that may be passed. Beads are closed by a run."""
    space = workspace.find()
    opened = registry.open_store(space, store)
    _refuse_bead(opened.store, item)
    actor = _person(space.root)
    before = opened.store.items.find(ItemQuery(ids=[item], statuses=["closed"]))
    closed = opened.store.items.close(item, actor, reason.strip() or f"closed by {actor}")
    settled = settle(opened.store)
    people = [step for step in peoples_items(opened.store, only_open=True) if step.can_be_done]
    data = {
        "id": item,
        "type": closed.issue_type,
        "by": actor,
        "already_closed": bool(before),
        "settled": settled.to_json(),
        "people": [step.to_json() for step in people],
        "store": opened.store.kind,
    }
    said = f"= {item} was closed already" if before else f"✓ {item} is closed: {closed.title}"
    others = [f"  ○ for a person: {step.item.id}  {step.item.title}" for step in people[:SHOWN]]
    others += [f"  ○ {len(people) - SHOWN} more: beads-ralph ready"] if len(people) > SHOWN else []
    then = f"  → {_next(space, opened.store)}"
    return Answer(data, lines(said, *settled.lines, *others, then), opened.warnings)


def _next(space: Workspace, store: Store) -> str:
    """What goes on after a person's step, or who has to see to it."""
    if runs.is_running(space.home):
        return "a running loop goes on by itself"
    if store.find(Query(statuses=["open", "in_progress"])).beads:
        return "beads-ralph run"
    if store.find(Query(statuses=["blocked"])).beads:
        return "beads-ralph status says what blocks the rest"
    return "beads-ralph ready" if peoples_items(store, only_open=True) else "nothing is left to do"


def accept(
    bead: options.BeadId,
    reason: options.Reason,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Accept a bead as done that no run has proven; it is shown as accepted, by whom and why."""
    space = workspace.find()
    opened = registry.open_store(space, store)
    found, why = opened.store.show(bead), reason.strip()
    if not why:
        action = "Say why it is done: --reason 'finished by hand'"
        raise RalphError(Code.CONSTRAINT, "an empty reason says nothing", suggested_action=action)
    who, at = accept_bead(space, opened.store, found, why)
    data = {"bead": bead, "by": who, "at": at, "reason": why, "store": opened.store.kind}
    return Answer(data, lines(f"✓ {bead} is accepted as done by {who}, not proven"), opened.warnings)


def accept_bead(space: Workspace, store: Store, found: Bead, why: str) -> tuple[str, str]:
    """Close it on a person's word, and note that down; by whom, and when."""
    bead, who, ledger = found.id, _person(space.root), Ledger(space.home)
    if found.status == "in_progress":
        message = f"{bead} is being worked on, so nobody can say yet that it is done"
        raise RalphError(Code.CONFLICT, message, suggested_action="Wait for its end, or: beads-ralph stop")
    if closed_beads.is_proven(found, ledger.rows().get(bead)):
        raise RalphError(Code.CONFLICT, f"{bead} is proven: there is nothing to accept")
    _close_by_hand(store, found, who, why)
    row = ledger.accept(bead, who, why)
    state = RunState(accepted=Acceptance(by=who, at=row.at, reason=why), parked=None)
    store.update(bead, Changes(metadata=state.to_metadata()))
    return who, row.at


def _close_by_hand(store: Store, bead: Bead, who: str, why: str) -> None:
    if bead.status == "closed":
        return
    if bead.status == "blocked":
        store.update(bead.id, Changes(status="open", expected_status="blocked"))
    claim = store.claim(bead.id, who)
    if not claim.won:
        raise RalphError(Code.CONFLICT, f"{bead.id} cannot be closed yet: {claim.refusal}")
    store.close(bead.id, who, f"accepted by {who}: {why}")


def _refuse_bead(store: Store, name: str) -> None:
    """Closed means proven, whoever asks."""
    found = store.find(Query(ids=[name]))
    if found.beads or found.unreadable:
        action = f"Let it be worked on: beads-ralph run --bead {name}"
        message = f"{name} is a bead: only a run closes it, with its proof"
        raise RalphError(Code.CONFLICT, message, suggested_action=action)


def _person(root: Path) -> str:
    """Who sits here: as git knows them, or as they have logged in."""
    named = commands.run("config", "--get", "user.name", cwd=root).stdout.strip()
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # nobody, as in a container with a made-up user
        return "a person"

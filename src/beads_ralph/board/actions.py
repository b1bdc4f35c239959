"""What a person does about a run and its beads: the same for a command, the terminal and the browser.

Each action raises a RalphError where it is refused, and says in words what it has done.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead import healing
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import Acceptance, RunState
from beads_ralph.config import workspace
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.git import commands
from beads_ralph.journal import callers, runs
from beads_ralph.journal.proofs import Ledger
from beads_ralph.loop import closed_beads
from beads_ralph.process.jobs import RUN_ID
from beads_ralph.store import convoys, registry
from beads_ralph.store.people import peoples_items
from beads_ralph.store.protocol import Changes, Store
from beads_ralph.store.query import ItemQuery, Query, UnreadableBead

AUTHOR: Final = "beads-ralph"
SHOWN: Final = 5


@dataclass(frozen=True)
class ActionResult:
    """What an action has done: for people in `lines`, for programs in `data`."""

    data: Mapping[str, Any]
    lines: tuple[str, ...]
    warnings: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class ActionRequest:
    """An action by its name, as a board asks for it."""

    name: str
    bead: str = ""
    reason: str = ""
    again: bool = False
    """Of a retry: also of a bead that is closed with its proof."""
    store: StoreChoice | None = None


def perform(request: ActionRequest, start: Path | None = None) -> ActionResult:
    """Do what a person asks for on a board; an agent of the run is refused."""
    act = ACTIONS.get(request.name)
    if act is None:
        action = f"Ask for one of: {', '.join(sorted(ACTIONS))}"
        raise RalphError(Code.USAGE, f"there is no action {request.name}", suggested_action=action)
    space = workspace.find(start)
    refuse_agents(space.home, request.name)
    if request.name not in ORDERS and not request.bead:
        raise RalphError(Code.USAGE, f"{request.name} of what? No bead and no step was named")
    return act(space, request)


def refuse_agents(home: Path, name: str) -> None:
    """An agent of a run changes no beads of it; the board that a run itself has opened works for a person."""
    holder = runs.holder(home)
    if RUN_ID not in os.environ and holder is not None and holder.pid == os.getppid():
        return
    run_id = callers.run_behind(home)
    if run_id:
        message = f"{name} is not for agents: this process works for run {run_id}"
        raise RalphError(Code.NOT_FOR_AGENTS, message)


# --- orders to a running loop -----------------------------------------------------------------------


def pause(home: Path) -> ActionResult:
    return _give(home, "pause", "the loop starts nothing more until: beads-ralph resume")


def resume(home: Path) -> ActionResult:
    return _give(home, None, "the loop goes on")


def stop(home: Path) -> ActionResult:
    return _give(home, "stop", "the loop ends when what runs has finished")


def _give(home: Path, word: str | None, said: str) -> ActionResult:
    """Leave the loop a word; None takes back what was said before."""
    if not runs.is_running(home):
        action = "Start one: beads-ralph run"
        raise RalphError(Code.CONFLICT, "no loop is running here", suggested_action=action)
    runs.order(home, word)
    return ActionResult({"order": word}, (said,))


# --- beads ------------------------------------------------------------------------------------------


def retry(space: Workspace, bead: str, *, again: bool, choice: StoreChoice | None) -> ActionResult:
    """Open a bead again that is blocked or closed without a proof; repair one that cannot be read."""
    opened = registry.open_store(space, choice)
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
    return ActionResult({"bead": bead, "dropped": []}, (said,))


def _open_again(store: Store, bead: str, status: str, state: RunState, change: RunState) -> None:
    """The attempts stay in the history, and in its numbers; they only do not count any more."""
    forgiven = RunState(attempts_forgiven=state.attempt_count, spent=None, parked=None)
    metadata = change.changed(forgiven).to_metadata()
    store.update(bead, Changes(status="open", metadata=metadata, expected_status=status))
    store.comment(bead, AUTHOR, f"Opened again after {state.attempt_count} attempts.")


def _healed(store: Store, broken: UnreadableBead) -> ActionResult:
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
    return ActionResult({"bead": broken.id, "dropped": list(found.dropped)}, (said,))


def release(space: Workspace, bead: str, choice: StoreChoice | None) -> ActionResult:
    """Release a bead held by a run that died."""
    opened = registry.open_store(space, choice)
    found = opened.store.show(bead)
    holder = (found.model_extra or {}).get("claimed_by")
    if found.status != "in_progress" or not holder:
        raise RalphError(Code.CONFLICT, f"{bead} is {found.status}; nobody holds it")
    if runs.is_running(space.home) and str(holder).startswith(runs.actor_prefix(space.root)):
        action = "Stop the loop first: beads-ralph stop"
        raise RalphError(Code.CONFLICT, f"{bead} is held by the running loop", suggested_action=action)
    opened.store.release(bead, str(holder), status="open", reason=f"released by hand from {holder}")
    return ActionResult({"bead": bead, "holder": holder}, (f"✓ {bead} is open again",))


# --- on a person's word -----------------------------------------------------------------------------


def close(space: Workspace, item: str, reason: str, choice: StoreChoice | None) -> ActionResult:
    """End a person's step: a task that is done, a question that is answered, a gate that may be passed."""
    opened = registry.open_store(space, choice)
    _refuse_bead(opened.store, item)
    actor = person(space.root)
    before = opened.store.items.find(ItemQuery(ids=[item], statuses=["closed"]))
    closed = opened.store.items.close(item, actor, reason.strip() or f"closed by {actor}")
    settled = convoys.settle(opened.store)
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
    return ActionResult(data, (said, *settled.lines, *others, then), opened.warnings)


def _next(space: Workspace, store: Store) -> str:
    """What goes on after a person's step, or who has to see to it."""
    if runs.is_running(space.home):
        return "a running loop goes on by itself"
    if store.find(Query(statuses=["open", "in_progress"])).beads:
        return "beads-ralph run"
    if store.find(Query(statuses=["blocked"])).beads:
        return "beads-ralph status says what blocks the rest"
    return "beads-ralph ready" if peoples_items(store, only_open=True) else "nothing is left to do"


def accept(space: Workspace, bead: str, reason: str, choice: StoreChoice | None) -> ActionResult:
    """Accept a bead as done that no run has proven."""
    opened = registry.open_store(space, choice)
    found, why = opened.store.show(bead), reason.strip()
    if not why:
        action = "Say why it is done: --reason 'finished by hand'"
        raise RalphError(Code.CONSTRAINT, "the reason is empty", suggested_action=action)
    who, at = accept_bead(space, opened.store, found, why)
    data = {"bead": bead, "by": who, "at": at, "reason": why, "store": opened.store.kind}
    return ActionResult(data, (f"✓ {bead} is accepted as done by {who}, not proven",), opened.warnings)


def accept_bead(space: Workspace, store: Store, found: Bead, why: str) -> tuple[str, str]:
    """Close it on a person's word, and note that down; by whom, and when."""
    bead, who, ledger = found.id, person(space.root), Ledger(space.home)
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


def person(root: Path) -> str:
    """Who sits here: as git knows them, or as they have logged in."""
    named = commands.run("config", "--get", "user.name", cwd=root).stdout.strip()
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # nobody, as in a container with a made-up user
        return "a person"


def _answer(space: Workspace, request: ActionRequest) -> ActionResult:
    if not request.reason.strip():
        raise RalphError(Code.CONSTRAINT, f"{request.bead} is a question, and the answer is empty")
    return close(space, request.bead, request.reason, request.store)


# --- by name ----------------------------------------------------------------------------------------

ORDERS: Final = frozenset({"pause", "resume", "stop"})
ACTIONS: Final[Mapping[str, Callable[[Workspace, ActionRequest], ActionResult]]] = {
    "pause": lambda space, _: pause(space.home),
    "resume": lambda space, _: resume(space.home),
    "stop": lambda space, _: stop(space.home),
    "retry": lambda space, asked: retry(space, asked.bead, again=asked.again, choice=asked.store),
    "release": lambda space, asked: release(space, asked.bead, asked.store),
    "close": lambda space, asked: close(space, asked.bead, asked.reason, asked.store),
    "approve": lambda space, asked: close(space, asked.bead, asked.reason, asked.store),
    "answer": _answer,
    "accept": lambda space, asked: accept(space, asked.bead, asked.reason, asked.store),
}
"""A step that waits for a person's word is closed by it: `close`, `approve` and `answer` differ in what the
person is asked for."""

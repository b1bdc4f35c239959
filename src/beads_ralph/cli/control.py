"""pause, resume, stop, retry, release, close, clean: steering a run, and tidying up after it."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from beads_ralph import workspace
from beads_ralph.bead.model import Bead
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import commands, worktrees
from beads_ralph.journal import runs
from beads_ralph.store.protocol import Changes, ItemQuery, Query, Store

AUTHOR = "beads-ralph"
BeadArgument = Annotated[str, typer.Argument(help="The bead's id, in full.", show_default=False)]


def _told(word: str | None, said: str) -> Answer:
    home = workspace.find().home
    if not runs.is_running(home):
        raise RalphError(
            Code.CONFLICT, "no loop is running here", suggested_action="Start one: beads-ralph run"
        )
    runs.order(home, word)
    return Answer({"order": word}, lambda _: out(said))


def pause(json_: options.Json = False) -> Answer:
    """Let the running loop start nothing more until it is resumed; what runs goes on."""
    return _told("pause", "the loop starts nothing more until: beads-ralph resume")


def resume(json_: options.Json = False) -> Answer:
    """Let a paused loop go on."""
    return _told(None, "the loop goes on")


def stop(json_: options.Json = False) -> Answer:
    """Let the running loop finish what runs, and end."""
    return _told("stop", "the loop ends when what runs has finished")


def retry(bead: BeadArgument, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Open a blocked bead again, with all its attempts before it."""
    opened = workspace.open_store(workspace.find(), store)
    found = opened.store.show(bead)
    if found.status != "blocked":
        raise RalphError(Code.CONFLICT, f"{bead} is {found.status}, not blocked")
    # The attempts stay in the history, and in its numbers; they only do not count any more.
    forgiven = {"attempts_forgiven": found.metadata.attempt_count, "spent": None, "parked": None}
    changes = Changes(status="open", metadata=forgiven, expected_status="blocked")
    opened.store.update(bead, changes)
    opened.store.comment(bead, AUTHOR, f"Opened again after {found.metadata.attempt_count} attempts.")
    return Answer({"bead": bead}, lambda _: out(f"✓ {bead} is open again; run: beads-ralph run"))


def release(bead: BeadArgument, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Give a bead back that a run holds which is no more."""
    space = workspace.find()
    opened = workspace.open_store(space, store)
    found = opened.store.show(bead)
    holder = (found.model_extra or {}).get("claimed_by")
    if found.status != "in_progress" or not holder:
        raise RalphError(Code.CONFLICT, f"{bead} is {found.status}; nobody holds it")
    if runs.is_running(space.home) and str(holder).startswith(runs.actor_prefix(space.root)):
        action = "Stop the loop first: beads-ralph stop"
        raise RalphError(Code.CONFLICT, f"{bead} is held by the running loop", suggested_action=action)
    opened.store.release(bead, str(holder), status="open", reason=f"released by hand from {holder}")
    return Answer({"bead": bead, "holder": holder}, lambda _: out(f"✓ {bead} is open again"))


# --- close ---------------------------------------------------------------------------------------------


def close(
    item: Annotated[str, typer.Argument(metavar="ID", help="A task, an epic or a gate.", show_default=False)],
    reason: Annotated[
        str, typer.Option("--reason", help="Why, for those who look at it later.", show_default=False)
    ] = "",
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """End a person's step: a task that is done, a gate that may be passed. Beads are closed by a run."""
    from beads_ralph.cli.settling import settle

    space = workspace.find()
    opened = workspace.open_store(space, store)
    _refuse_bead(opened.store, item)
    actor = _person(space.root)
    before = opened.store.items.find(ItemQuery(ids=[item], statuses=["closed"]))
    closed = opened.store.items.close(item, actor, reason.strip() or f"closed by {actor}")
    settled = settle(opened.store)
    data = {
        "id": item,
        "type": closed.issue_type,
        "by": actor,
        "already_closed": bool(before),
        "settled": settled.to_json(),
        "store": opened.store.kind,
    }
    said = f"= {item} was closed already" if before else f"✓ {item} is closed: {closed.title}"
    goes_on = "a running loop goes on by itself" if runs.is_running(space.home) else "beads-ralph run"
    return Answer(data, lambda _: out("\n".join((said, *settled.lines, f"  → {goes_on}"))), opened.warnings)


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


# --- clean ------------------------------------------------------------------------------------------


def clean(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed, what kept, and why.")
    ] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Remove the worktrees of closed beads whose work is merged or pushed; keep all others."""
    space = workspace.find()
    places = _places(workspace.open_store(space, store).store.find(Query(wisps=True)).beads)
    rows = [_cleaned(space.root, path, beads, dry_run=dry_run) for path, beads in places.items()]
    return Answer({"dry_run": dry_run, "worktrees": rows}, lambda _: _show_cleaned(rows, dry_run=dry_run))


def _places(beads: Iterable[Bead]) -> dict[Path, list[Bead]]:
    """The worktrees that are there, each with its beads: those of one branch share one."""
    places: dict[Path, list[Bead]] = {}
    for bead in beads:
        path = Path(bead.metadata.worktree_path)
        if path in places or path.is_dir():
            places.setdefault(path, []).append(bead)
    return places


def _cleaned(root: Path, path: Path, beads: Sequence[Bead], *, dry_run: bool) -> dict[str, Any]:
    target = beads[-1].metadata.source_branch
    why = next((f"{bead.id} is {bead.status}" for bead in beads if bead.status != "closed"), "")
    why = why or worktrees.why_kept(root, path, target)
    if not why and not dry_run:
        why = worktrees.remove(root, path, target).why_not  # it looks once more, under the lock
    return {
        "bead": beads[-1].id,
        "beads": [bead.id for bead in beads],
        "path": str(path),
        "removable": not why,
        "removed": not why and not dry_run,
        "why": why,
    }


def _show_cleaned(rows: Sequence[Mapping[str, Any]], *, dry_run: bool) -> None:
    going = "would remove" if dry_run else "removed"
    for row in rows:
        out(f"✓ {going} {row['path']}" if row["removable"] else f"= kept {row['path']}  {row['why']}")
    count = sum(row["removable"] for row in rows)
    out(f"{going} {count} of {len(rows)} worktrees" + ("; nothing was changed" if dry_run else ""))

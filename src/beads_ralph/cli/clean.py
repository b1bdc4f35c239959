"""clean: remove worktrees that nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from beads_ralph.bead.model import Bead
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace
from beads_ralph.git import worktree_removal
from beads_ralph.store import registry
from beads_ralph.store.query import Query


def clean(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed, what kept, and why.")
    ] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Remove the worktrees of closed beads whose work is merged or pushed; keep all others."""
    space = workspace.find()
    places = _places(registry.open_store(space, store).store.find(Query(wisps=True)).beads)
    rows = [_cleaned(space.root, path, beads, dry_run=dry_run) for path, beads in places.items()]
    going = "would remove" if dry_run else "removed"
    told = [
        f"✓ {going} {row['path']}" if row["removable"] else f"= kept {row['path']}  {row['why']}"
        for row in rows
    ]
    count = f"{going} {sum(row['removable'] for row in rows)} of {len(rows)} worktrees"
    shown = lines(*told, count + ("; nothing was changed" if dry_run else ""))
    return Answer({"dry_run": dry_run, "worktrees": rows}, shown)


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
    why = why or worktree_removal.why_kept(root, path, target)
    if not why and not dry_run:
        why = worktree_removal.remove(root, path, target).why_not  # it looks once more, under the lock
    return {
        "bead": beads[-1].id,
        "beads": [bead.id for bead in beads],
        "path": str(path),
        "removable": not why,
        "removed": not why and not dry_run,
        "why": why,
    }

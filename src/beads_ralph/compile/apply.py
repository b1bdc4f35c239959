"""A compared plan into the store: what is new, the plan's edits, and what left the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from beads_ralph.bead import graph
from beads_ralph.bead.model import Bead
from beads_ralph.compile import base
from beads_ralph.compile.base import KEY, ORPHANED
from beads_ralph.compile.diff import Change, Diff, is_locked
from beads_ralph.compile.load import create
from beads_ralph.errors import Code, RalphError
from beads_ralph.store.protocol import Changes, Progress, Store, Stored, silent

AUTHOR: Final = "beads-mason"


@dataclass
class Applied:
    """The changes so far, and what was left alone because work on it runs or is done."""

    created: list[str]
    updated: list[str] = field(default_factory=list)
    orphaned: list[str] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "beads_updated": list(self.updated),
            "beads_orphaned": list(self.orphaned),
            "beads_left_alone": list(self.left_alone),
        }


def apply(store: Store, diff: Diff, progress: Progress = silent) -> Applied:
    """New beads first, since changed ones may come to depend on them; running and closed ones stay.

    A failure half-way says what was applied before it; applying again does the rest.
    """
    order = _safe_order(diff)
    done = Applied(create(store, [*diff.items.added, *diff.added], diff.readings, progress))
    try:
        for change in sorted(diff.changes, key=lambda change: order.get(change.bead.id, 0)):
            _apply_change(store, change, done)
        for bead in diff.orphaned:
            # Blocked, not closed: closed would claim that its work was done.
            taken = _update(store, bead, Changes(status="blocked", labels=[*bead.labels, ORPHANED]))
            if taken:
                gone = f"Sprint {bead.metadata.plan_sprint_id} is no longer in the plan."
                store.comment(bead.id, AUTHOR, gone)
            (done.orphaned if taken else done.left_alone).append(bead.id)
    except RalphError as error:
        error.data |= {"beads_created": done.created, **done.to_json()}
        raise
    return done


def _apply_change(store: Store, change: Change, done: Applied) -> None:
    bead = change.bead
    if bead.status == "closed":
        _follow(store, change, done)
    elif change.fields:
        taken = _update(store, bead, _changes(change))
        (done.updated if taken else done.left_alone).append(bead.id)
    elif anew := _noted_anew(change):
        _update(store, bead, Changes(metadata=anew))


def _noted_anew(change: Change) -> dict[str, Any]:
    """What is written down where the work itself is as it was."""
    stale = change.is_stale and not change.conflicts
    return {**change.context, **({KEY: base.kept(change.planned, change.reading)} if stale else {})}


def _follow(store: Store, change: Change, done: Applied) -> None:
    """Finished work keeps what it says; only its place in the plan is written down anew, and that a person
    has taken it as done."""
    place = {name.removeprefix("metadata."): new for name, (_, new) in change.place.items()}
    if change.is_taken_as_done or (place and not change.fields):
        place[KEY] = base.kept(change.planned, change.reading)
    if place:
        store.update(change.bead.id, Changes(metadata=place, expected_status="closed"))
    if change.fields:
        done.left_alone.append(change.bead.id)
    elif place:
        done.updated.append(change.bead.id)


def _update(store: Store, bead: Bead, changes: Changes) -> bool:
    """Change a bead, unless it is locked or became so since we looked."""
    if is_locked(bead):
        return False
    try:
        store.update(bead.id, replace(changes, expected_status=bead.status))
    except RalphError as error:
        if error.code != Code.CONFLICT:
            raise
        return False
    return True


def _changes(change: Change) -> Changes:
    new = {name: value for name, (_, value) in change.fields.items()}
    metadata = {name.removeprefix("metadata."): new[name] for name in new if name.startswith("metadata.")}
    core = {name: value for name, value in new.items() if not name.startswith("metadata.")}
    if ORPHANED in change.bead.labels and "labels" not in core:
        core["labels"] = [label for label in change.bead.labels if label != ORPHANED]
    revived = ORPHANED in change.bead.labels and change.bead.status == "blocked"
    metadata |= change.context
    if not change.conflicts:
        metadata[KEY] = base.kept(change.planned, change.reading)
    return Changes(**core, metadata=metadata or None, status="open" if revived else None)


def _safe_order(diff: Diff) -> dict[str, int]:
    """An order in which no update closes a cycle for a moment: what a bead will wait for comes first.

    Locked beads keep their old dependencies, which may not fit the edited ones; that is refused.
    """
    waits = {change.bead.id: _waits(change) for change in diff.changes}
    others: list[Stored] = [*diff.orphaned, *diff.added, *diff.items.kept, *diff.items.added]
    edges = {**waits, **{each.id: each.dependencies for each in others}}
    path = graph.cycle(edges)
    if path:
        raise RalphError(
            Code.CYCLE_DETECTED,
            f"Circular dependency: {' → '.join(path)}",
            suggested_action="Beads in progress keep their old dependencies, and so does what a person has "
            "added in the store: wait for them, or edit the plan",
        )
    if not diff.changed:
        return {}
    return {node: number for number, wave in enumerate(graph.waves(edges)) for node in wave}


def _waits(change: Change) -> Sequence[str]:
    if change.locked or "dependencies" not in change.fields:
        return change.bead.dependencies
    waits: Sequence[str] = change.fields["dependencies"][1]
    return waits


# --- only what is missing ---------------------------------------------------------------------------


def add_missing(
    store: Store, fresh: Sequence[Stored], diff: Diff, progress: Progress = silent
) -> tuple[list[str], list[str]]:
    """Insert what the store has not, and let what is there wait for it; all else stays as it is. The ids of
    what was inserted, and of what waits now."""
    created = create(store, fresh, diff.readings, progress)
    new = {*created}
    waiting = []
    for change in diff.changes:
        _, planned = change.fields.get("dependencies", ((), ()))
        edges = [name for name in planned if name in new]
        if edges and _update(store, change.bead, _with_edges(change, edges)):
            waiting.append(change.bead.id)
    return created, waiting


def _with_edges(change: Change, edges: Sequence[str]) -> Changes:
    said = change.bead.metadata.planned
    before = (said or {}).get("dependencies")
    known = {KEY: {**(said or {}), "dependencies": [*before, *edges]}} if isinstance(before, list) else None
    return Changes(dependencies=[*change.bead.dependencies, *edges], metadata=known)

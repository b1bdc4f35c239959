"""An edited plan against the store: what it would add, change or orphan, and how to apply it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from beads_ralph import graph, personas
from beads_ralph.errors import Code, RalphError
from beads_ralph.models import Bead
from beads_ralph.protocols import Changes, Progress, Store, silent

ORPHANED: Final = "orphaned"
AUTHOR: Final = "beads-mason"
CORE_FIELDS: Final = ("title", "description", "priority", "issue_type", "labels", "dependencies")
RUN_FIELDS: Final = frozenset(
    {
        "attempt_count",
        "scrum_master_session_id",
        "dev_agent_session_id",
        "dev_agent_executions",
        "qa_agent_executions",
        "pr_url",
        "pr_number",
        "scrum_result",
    }
)
"""Metadata that the run writes; a plan says nothing about it."""


@dataclass(frozen=True)
class Change:
    """A bead whose plan text was edited: field → (stored, planned)."""

    bead: Bead
    planned: Bead
    fields: Mapping[str, tuple[Any, Any]]

    @property
    def locked(self) -> bool:
        return self.bead.status in ("in_progress", "closed")


@dataclass(frozen=True)
class Diff:
    """Beads to add, to change, and those whose sprint is gone from the plan."""

    added: tuple[Bead, ...]
    changed: tuple[Change, ...]
    orphaned: tuple[Bead, ...]
    unchanged: tuple[Bead, ...]

    @property
    def empty(self) -> bool:
        return not (self.added or self.changed or self.orphaned)

    def to_json(self) -> dict[str, Any]:
        return {
            "added": [_row(bead) for bead in self.added],
            "changed": [
                {
                    **_row(change.bead),
                    "locked": change.locked,
                    "fields": {
                        name: {"stored": old, "planned": new} for name, (old, new) in change.fields.items()
                    },
                }
                for change in self.changed
            ],
            "orphaned": [{**_row(bead), "locked": is_locked(bead)} for bead in self.orphaned],
            "unchanged": [bead.id for bead in self.unchanged],
        }


def _row(bead: Bead) -> dict[str, Any]:
    return {
        "bead_id": bead.id,
        "sprint": bead.metadata.plan_sprint_id,
        "title": bead.title,
        "status": bead.status,
    }


def is_locked(bead: Bead) -> bool:
    """Work that runs or is done is not touched by an edit of the plan."""
    return bead.status in ("in_progress", "closed")


def compare(stored: Iterable[Bead], planned: Iterable[Bead]) -> Diff:
    """`planned` carries the ids of the stored beads of the same sprints already."""
    by_id = {bead.id: bead for bead in stored}
    wanted = list(planned)
    changes = [_change(by_id[bead.id], bead) for bead in wanted if bead.id in by_id]
    sprints = {bead.metadata.plan_sprint_id for bead in wanted}  # one may have more beads: --id-suffix
    gone = [bead for bead in by_id.values() if bead.metadata.plan_sprint_id not in sprints]
    return Diff(
        added=tuple(bead for bead in wanted if bead.id not in by_id),
        changed=tuple(change for change in changes if change.fields),
        orphaned=tuple(bead for bead in gone if ORPHANED not in bead.labels),
        unchanged=tuple(change.bead for change in changes if not change.fields),
    )


def _change(stored: Bead, planned: Bead) -> Change:
    old, new = stored.to_json(), planned.to_json()
    fields = {name: (old.get(name), new.get(name)) for name in CORE_FIELDS if _differs(name, old, new)}
    before, after = (personas.without_sessions(said["metadata"]) for said in (old, new))
    for name in sorted({*before, *after} - RUN_FIELDS):
        if name in after and before.get(name) != after[name]:
            fields[f"metadata.{name}"] = (before.get(name), after[name])
        elif name in PLAN_ONLY and before.get(name) is not None and name not in after:
            fields[f"metadata.{name}"] = (before[name], None)
    return Change(stored, planned, fields)


PLAN_ONLY: Final = frozenset({"dod", "acceptance_criteria", "formula", "template"})
"""Optional keys that only a plan writes: gone from the plan means gone from the bead."""


def _differs(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if name in ("labels", "dependencies"):
        return sorted(old.get(name) or []) != sorted(new.get(name) or [])
    return bool(old.get(name) != new.get(name))


# --- applying it ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Applied:
    created: tuple[str, ...]
    updated: tuple[str, ...]
    orphaned: tuple[str, ...]
    left_alone: tuple[str, ...]

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
    created = store.create(diff.added, progress) if diff.added else []
    done = _Progress(store)
    try:
        for change in sorted(diff.changed, key=lambda change: order.get(change.bead.id, 0)):
            if done.take(change.bead, _changes(change)):
                done.updated.append(change.bead.id)
        for bead in diff.orphaned:
            if done.take(bead, _orphaning(bead)):
                store.comment(
                    bead.id, AUTHOR, f"Sprint {bead.metadata.plan_sprint_id} is no longer in the plan."
                )
                done.orphaned.append(bead.id)
    except RalphError as error:
        error.data |= {"beads_created": created, **done.applied(created).to_json()}
        raise
    return done.applied(created)


class _Progress:
    """What was changed so far, and what was left alone because work on it runs or is done."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.updated: list[str] = []
        self.orphaned: list[str] = []
        self.left_alone: list[str] = []

    def take(self, bead: Bead, changes: Changes) -> bool:
        """Change a bead, unless it is locked or became so since we looked."""
        taken = not is_locked(bead) and self._update(bead, changes)
        if not taken:
            self.left_alone.append(bead.id)
        return taken

    def _update(self, bead: Bead, changes: Changes) -> bool:
        try:
            self.store.update(bead.id, replace(changes, expected_status=bead.status))
        except RalphError as error:
            if error.code != Code.CONFLICT:
                raise
            return False
        return True

    def applied(self, created: Sequence[str]) -> Applied:
        return Applied(tuple(created), tuple(self.updated), tuple(self.orphaned), tuple(self.left_alone))


def _changes(change: Change) -> Changes:
    planned = change.planned.to_json()
    core = {name: planned[name] for name in CORE_FIELDS if name in change.fields}
    metadata = {
        name.removeprefix("metadata."): new
        for name, (_, new) in change.fields.items()
        if name.startswith("metadata.")
    }
    revived = ORPHANED in change.bead.labels and change.bead.status == "blocked"
    return Changes(**core, metadata=metadata or None, status="open" if revived else None)


def _orphaning(bead: Bead) -> Changes:
    """Blocked, not closed: closed would claim that its work was done."""
    return Changes(status="blocked", labels=[*bead.labels, ORPHANED])


def _safe_order(diff: Diff) -> dict[str, int]:
    """An order in which no update closes a cycle for a moment: what a bead will wait for comes first.

    Locked beads keep their old dependencies, which may not fit the edited ones; that is refused.
    """
    edges: dict[str, Sequence[str]] = {
        bead.id: bead.dependencies for bead in (*diff.unchanged, *diff.orphaned)
    }
    edges |= {bead.id: bead.dependencies for bead in diff.added}
    for change in diff.changed:
        chosen = change.bead if change.locked else change.planned
        edges[chosen.id] = chosen.dependencies
    path = graph.cycle(edges)
    if path:
        raise RalphError(
            Code.CYCLE_DETECTED,
            f"Circular dependency: {' → '.join(path)}",
            suggested_action="Beads in progress keep their old dependencies: wait for them, or edit the plan",
        )
    return {node: number for number, wave in enumerate(graph.waves(edges)) for node in wave}

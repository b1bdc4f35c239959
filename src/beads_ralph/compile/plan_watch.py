"""A plan that is edited while a run of it is on: what has not begun is brought to it at the next bead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from beads_ralph.bead.words import several
from beads_ralph.compile.apply import Applied
from beads_ralph.compile.diff import refuse_conflicts
from beads_ralph.compile.reconcile import reconcile
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import RalphError
from beads_ralph.store.protocol import Store

Seen = tuple[int, int, int] | None


@dataclass
class PlanWatch:
    """Looks at the plan's file; nothing is read as long as that has not changed."""

    space: Workspace
    path: Path
    store: Store
    tell: Callable[[str], None]
    seen: Seen = field(init=False)

    def __post_init__(self) -> None:
        self.seen = _look(self.path)

    def take_up(self) -> list[str]:
        """Apply the plan's edits to what has not begun; the beads that are new or ask for something else."""
        now = _look(self.path)
        if now == self.seen:
            return []
        self.seen = now
        try:
            met = reconcile(self.space, self.path, lambda: self.store, agent_check=False)
            applied = met.settled(refuse_conflicts).apply()
        except RalphError as error:
            self.tell(f"the plan was edited, and is not taken up: {error.message}. {error.suggested_action}")
            return []
        if rows := _rows(applied):
            self.tell(f"the plan was edited: {'; '.join(rows)}")
        return [*applied.created, *applied.updated, *applied.orphaned]


def _rows(applied: Applied) -> list[str]:
    told = (
        ("new", applied.created),
        ("changed", applied.updated),
        ("no longer in it, so blocked", applied.orphaned),
        ("begun, so left as they are", applied.left_alone),
    )
    return [f"{what}: {several(ids)}" for what, ids in told if ids]


def _look(path: Path) -> Seen:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

"""What has become of a plan's sprints in the store, and the marks that tell it in the plan's own text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beads_ralph.bead.model import Bead
from beads_ralph.bead.standing import standing
from beads_ralph.compile.reconcile import Reconciled
from beads_ralph.files import text_files
from beads_ralph.plan import marks, parse
from beads_ralph.plan.marks import CLOSED, Mark
from beads_ralph.store.protocol import Stored


@dataclass(frozen=True)
class SprintState:
    """A sprint and what the store has of it."""

    sprint: str
    title: str
    bead: str | None = None
    status: str = "missing"
    """The bead's or the molecule's; `missing` where the store has neither."""
    standing: str | None = None

    @property
    def words(self) -> str:
        if self.status == "closed":
            return f"{CLOSED} ({self.standing})" if self.standing else CLOSED
        return self.status.replace("_", " ")

    @property
    def mark(self) -> Mark | None:
        """None where the plan's own words are left alone."""
        if self.bead is None:
            return None
        return Mark(self.words, closed=self.status == "closed", quiet=self.status == "open")

    def to_json(self) -> dict[str, Any]:
        return {
            "sprint": self.sprint,
            "title": self.title,
            "bead": self.bead,
            "status": self.status,
            "standing": self.standing,
        }


def states(met: Reconciled) -> list[SprintState]:
    """Every sprint of the plan, in its order."""
    found = {name: handle.thing for name, handle in met.stored.matches.items()}
    return [_state(one.id.text, one.title, found.get(one.id.text)) for one in met.built.plan.sprints]


def _state(sprint: str, title: str, thing: Stored | None) -> SprintState:
    if thing is None:
        return SprintState(sprint, title)
    rests_on = standing(thing.to_json()["metadata"]) if isinstance(thing, Bead) else None
    rests_on = rests_on if thing.status == "closed" else None
    return SprintState(sprint, title, thing.id, thing.status, rests_on)


def write(path: Path, found: Sequence[SprintState]) -> tuple[bool, list[str]]:
    """Mark them in the plan, which is read once more: somebody may have edited it. Whether that changed it,
    and the sprints that could not be marked."""
    text = text_files.read_text(path)
    wanted = {state.sprint: state.mark for state in found if state.mark is not None}
    new, left = marks.marked(text, parse(text, str(path)), wanted)
    if new != text:
        text_files.write_text(path, new)
    return new != text, left

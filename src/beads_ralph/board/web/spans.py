"""When who worked on what in a run: stretches of time by bead, read from the journal as it grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

from beads_ralph.board.journal_tail import JournalTail
from beads_ralph.journal.runs import RunFolder

Row: TypeAlias = Mapping[str, Any]
MOST_SPANS: Final = 400
"""Of one bead; older ones are left out."""


@dataclass
class Timeline:
    """The stretches of the run that is looked at; another run begins it anew."""

    folder: RunFolder | None = None
    beads: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _tail: JournalTail | None = None

    def of(self, folder: RunFolder | None) -> dict[str, Any]:
        """All that is known of the run by now."""
        if folder is not None and folder != self.folder:
            self.folder, self.beads, self._tail = folder, {}, JournalTail(folder.journal)
        for row in self._tail.new_rows() if self._tail else ():
            try:
                TAKERS.get(str(row.get("kind")), _nothing)(self, row)
            except (KeyError, TypeError, ValueError):
                continue  # a line that somebody spoiled
        return {"run": folder.run_id if folder else None, "beads": self.beads}

    def add(self, row: Row, kind: str, name: str, seconds: float | None, *, ok: bool | None = None) -> None:
        """A stretch that ends with this line, or one that begins with it."""
        at = _moment(row)
        start, end = (at, None) if seconds is None else (at - seconds, at)
        told = {"kind": kind, "name": name, "start": round(start, 3), "end": end and round(end, 3)}
        spans = self.beads.setdefault(str(row["bead"]), [])
        spans.append({**told, "attempt": row.get("attempt"), "ok": ok})
        del spans[:-MOST_SPANS]

    def end(self, row: Row, *, ok: bool | None) -> None:
        """Every stretch of the bead that still goes on is over."""
        for one in self.beads.get(str(row.get("bead")), ()):
            if one["end"] is None:
                one["end"], one["ok"] = round(_moment(row), 3), ok


def _moment(row: Row) -> float:
    return datetime.fromisoformat(str(row["at"])).timestamp()


def _nothing(_timeline: Timeline, _row: Row) -> None:
    pass


def _claimed(timeline: Timeline, row: Row) -> None:
    timeline.add(row, "prepare", "worktree", None)


def _worktree(timeline: Timeline, row: Row) -> None:
    timeline.end(row, ok=not row.get("conflict"))


def _agent_started(timeline: Timeline, row: Row) -> None:
    timeline.end(row, ok=None)
    timeline.add(row, str(row["role"]), f"{row['role']} {PurePosixPath(str(row['agent'])).stem}", None)


def _agent_ended(timeline: Timeline, row: Row) -> None:
    timeline.end(row, ok=not row.get("problem"))


def _verifier(timeline: Timeline, row: Row) -> None:
    kind = "baseline" if row["stage"] == "baseline" else "verify"
    passed = None if kind == "baseline" else row["ruling"] == "pass"
    timeline.add(row, kind, str(row["name"]), float(row["seconds"]), ok=passed)


def _over(timeline: Timeline, row: Row) -> None:
    timeline.end(row, ok=None)


def _run_over(timeline: Timeline, row: Row) -> None:
    for name in timeline.beads:
        timeline.end({**row, "bead": name}, ok=None)


TAKERS: Final[Mapping[str, Callable[[Timeline, Row], None]]] = {
    "bead_claimed": _claimed,
    "worktree_prepared": _worktree,
    "agent_started": _agent_started,
    "agent_ended": _agent_ended,
    "verifier_ended": _verifier,
    "bead_closed": _over,
    "bead_blocked": _over,
    "bead_released": _over,
    "bead_parked": _over,
    "run_ended": _run_over,
}

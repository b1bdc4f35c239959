"""Taking a bead in bd, keeping it, giving it back. Each step assumes that it is our turn to write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from beads_ralph.bead.names import ASSIGNEE
from beads_ralph.errors import RalphError
from beads_ralph.process.jobs import Exit
from beads_ralph.store import rules
from beads_ralph.store.bd import queries, shape
from beads_ralph.store.bd.cli import Bd, error_text
from beads_ralph.store.bd.shape import Row
from beads_ralph.store.protocol import Claim

LOST_RACE: Final = ("already claimed", "not claimable")  # what bd says to a claim that came too late
NOT_THERE: Final = "no issue found"
LONGEST_AGE: Final = timedelta(days=36500)  # bd counts in nanoseconds, and they end after 292 years
FRESH_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Listed:
    """The rows of a `bd ready`: while it is true, a claim need not ask again what a bead waits for.

    It is true as long as none of our writers has touched dependencies or opened a bead since. Who does so
    with bd itself is not noticed for some seconds; that is as if it had happened just after the claim, and
    bd refuses to close what is blocked.
    """

    rows: Mapping[str, Row] = field(default_factory=dict)
    version: str = ""
    """Of the graph, read before the listing was."""
    wisps: bool = False
    """True where it was asked for them, too."""
    at: float = field(default_factory=time.monotonic)

    def holds(self, version: str) -> bool:
        return self.version == version and time.monotonic() - self.at < FRESH_SECONDS


# --- claiming ---------------------------------------------------------------------------------------


def refusal(bd: Bd, row: Row, actor: str) -> str:
    """Why the actor cannot have the bead; empty where it can, or has it already."""
    held = shape.holder(row)
    if held is not None:
        return "" if held == actor else f"already claimed by {held}"
    if row["status"] != "open":
        return f"status {row['status']}"
    elsewhere = shape.assigned_elsewhere(row)
    return f"assigned to {elsewhere}" if elsewhere else _obstacle(bd, row)


def _obstacle(bd: Bd, row: Row) -> str:
    """The blockers of a bead: bd's `update --claim` does not ask."""
    waiting = queries.not_closed(bd, shape.blockers(row))
    if waiting:
        return f"blocked by {', '.join(waiting)}"
    if shape.waits_otherwise(row):
        listed = queries.unblocked(bd, wisps=shape.is_wisp(row))
        return "" if any(other["id"] == row["id"] for other in listed) else "bd does not list it as ready"
    return ""


def take(bd: Bd, known: Row, actor: str, root: Path) -> Row | Claim:
    """Ask bd for a bead that nothing is known to stand against: its row, or why another has it."""
    bead_id: str = known["id"]
    words = ("update", bead_id, "--claim")
    done = bd.change(words, lambda: shape.holder(queries.one(bd, bead_id)) == actor, actor=actor)
    if not done.ok:
        return _too_late(bd, words, done, actor)
    row = _own(bd, queries.answered(bd, words, done, known), bead_id, actor)
    held = shape.holder(row)
    if held != actor:  # to bd `a-b` and `a_b` are the same worker; to us they are two
        return _refused(row, f"already claimed by {held}")
    try:
        rules.sound(shape.seed(row), root)
    except RalphError:  # changed by hand since it was listed: what cannot be read cannot be worked on
        _undo(bd, row, actor)
        raise
    return row


def _too_late(bd: Bd, words: Sequence[str], done: Exit, actor: str) -> Claim:
    said = error_text(done)
    if not any(phrase in said for phrase in (*LOST_RACE, NOT_THERE)):
        raise bd.failure(words, done)
    row = queries.one(bd, words[1])
    return _refused(row, refusal(bd, row, actor) or said)


def _refused(row: Row, why: str) -> Claim:
    return Claim(None, why, shape.holder(row), row.get("lease_expires_at"))


def _own(bd: Bd, row: Row, bead_id: str, actor: str) -> Row:
    """The row, if it is of the bead that was asked for. Where that one was deleted since it was listed, bd
    takes the only id that begins with the same letters: this is undone at once."""
    if row["id"] == bead_id:
        return row
    if shape.holder(row) == actor:
        _undo(bd, row, actor)
    return queries.one(bd, bead_id)


def _undo(bd: Bd, row: Row, actor: str) -> None:
    """Back to the pool, or to nobody where it is an issue of the user's."""
    bead_id: str = row["id"]
    before = ASSIGNEE if shape.is_ours(row) else ""
    bd.must_change(
        ("update", bead_id, "--status=open", f"--assignee={before}", *_held_by(actor)),
        lambda: queries.by_ids(bd, [bead_id])[bead_id]["status"] == "open",
        actor=actor,
    )


# --- keeping and ending -----------------------------------------------------------------------------


def check_held(row: Row, actor: str) -> None:
    held = shape.holder(row)
    if held is None or held != actor:
        raise rules.not_held(row["id"], row["status"], held, actor)


def handing_over(actor: str, status: str) -> tuple[str, ...]:
    """The words of an update that ends the actor's work, if it is the actor's still: whatever nobody works on
    belongs to the pool."""
    return (f"--status={status}", f"--assignee={ASSIGNEE}", *_held_by(actor))


def _held_by(actor: str) -> tuple[str, ...]:
    return ("--if-status=in_progress", f"--if-assignee={actor}")


def beat(bd: Bd, row: Row, actor: str) -> bool:
    """Extend the lease of a bead that the actor holds; False where it was taken away in this moment.

    A wisp has no lease in bd: who has claimed it holds it.
    """
    if shape.is_wisp(row):
        return True
    bead_id, before = row["id"], row.get("lease_expires_at")
    words = ("heartbeat", bead_id)
    done = bd.change(words, lambda: queries.one(bd, bead_id).get("lease_expires_at") != before, actor=actor)
    if done.ok or any(phrase in error_text(done) for phrase in LOST_RACE):
        return done.ok
    raise bd.failure(words, done)


def reclaim(bd: Bd, ids: Sequence[str], older_than: timedelta) -> list[str]:
    """bd reopens those whose lease ran out that long ago; which, the database tells."""
    if not ids:
        return []

    def reopened() -> list[str]:
        rows = queries.by_ids(bd, ids)
        return [name for name in ids if name in rows and rows[name]["status"] == "open"]

    age = min(max(older_than, timedelta(0)), LONGEST_AGE).total_seconds()
    bd.must_change(
        ("reclaim", f"--older-than={age:.3f}s", *(f"--id={name}" for name in ids)), lambda: bool(reopened())
    )
    return reopened()


def return_to_pool(bd: Bd, ids: Sequence[str]) -> None:
    """bd leaves reclaimed beads without an assignee, and then nobody would find them ready."""
    if not ids:
        return

    def all_back() -> bool:
        return not any(map(shape.is_stray, queries.by_ids(bd, ids).values()))

    words = ("update", *ids, f"--assignee={ASSIGNEE}", "--if-assignee=")
    done = bd.change(words, all_back)
    if not done.ok and not all_back():  # one that somebody took in the meantime is no failure
        raise bd.failure(words, done)

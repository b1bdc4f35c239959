"""Writing to one bead in bd: its fields and dependencies, and its claim: taken, kept, given back.

Each step assumes that it is our turn to write.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead import graph
from beads_ralph.bead.names import ASSIGNEE
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.files import scratch
from beads_ralph.process.jobs import Exit
from beads_ralph.store import rules
from beads_ralph.store.bd import shape
from beads_ralph.store.bd.cli import ANY, OURSELVES, Bd, error_text
from beads_ralph.store.bd.shape import Row
from beads_ralph.store.protocol import Changes, Claim, Findings

LOST_RACE: Final = ("already claimed", "not claimable")  # what bd says to a claim that came too late
NOT_THERE: Final = "no issue found"
LONGEST_AGE: Final = timedelta(days=36500)  # bd counts in nanoseconds, and they end after 292 years
FRESH_SECONDS: Final = 5.0
LONGEST_ARGUMENT: Final = 20_000
FLAGS: Final = {
    "title": "--title",
    "priority": "--priority",
    "issue_type": "--type",
    "status": "--status",
    "external_ref": "--external-ref",
}


# --- fields and dependencies ----------------------------------------------------------------------


def check_changes(bd: Bd, row: Row, changes: Changes, root: Path) -> None:
    """Refuse, before anything is written, what would leave a bead that is not sound."""
    raw = shape.seed(row)
    rules.check_expected(row["id"], raw["status"], changes.expected_status)
    if _new_blockers(row, changes):
        _check_dependencies(bd, row, changes)
    rules.sound(shape.changed(raw, changes), root)
    if changes.status is not None:
        rules.check_status_change(row["id"], raw["status"], shape.holder(row), changes.status)


def edit(bd: Bd, row: Row, changes: Changes) -> Row:
    """Make the changes that were checked; new dependencies first, since bd may refuse them."""
    _depend(bd, row["id"], _new_blockers(row, changes))
    changed = _set_fields(bd, row, changes)
    if changes.dependencies is None:
        return changed
    for other in shape.blockers(row):
        if other not in changes.dependencies:
            _part(bd, row["id"], other)
    return bd.one(row["id"])


def _new_blockers(row: Row, changes: Changes) -> list[str]:
    return sorted(set(changes.dependencies or ()) - set(shape.blockers(row)))


def _check_dependencies(bd: Bd, row: Row, changes: Changes) -> None:
    """bd looks neither for what does not exist nor for a cycle where prefixes differ, so we look."""
    bead_id, others = row["id"], _new_blockers(row, changes)
    known = {bead["id"]: shape.blockers(bead) for bead in bd.ours()}
    around = _around(bd, row)
    there = bd.by_ids([name for name in others if name not in known])
    unknown = [name for name in others if name not in known and name not in there]
    faults = rules.needs_faults(bead_id, others, unknown)
    if faults:
        raise gathered(faults, f"bead {bead_id}")
    edges = known | around | {bead_id: list(changes.dependencies or ())}
    # A new cycle can only run through what the bead depends on.
    rules.refuse_cycle({name: edges.get(name, ()) for name in graph.reachable([bead_id], edges)})


def _around(bd: Bd, row: Row) -> dict[str, list[str]]:
    """The containers around a bead, up to the top: each ends only after what is in it."""
    edges: dict[str, list[str]] = {}
    while (parent := row.get("parent")) and parent not in edges:
        edges[parent] = [row["id"]]
        row = bd.by_ids([parent]).get(parent, {})
    return edges


def _depend(bd: Bd, bead_id: str, others: Sequence[str]) -> None:
    """Add dependencies, all or none."""
    if not others:
        return
    words = ("dep", "add", "--file", "-")
    edges = [shape.dumped({"from": bead_id, "to": name, "type": "blocks"}) for name in others]
    done = bd.change(
        words,
        lambda: _blockers_now(bd, bead_id) >= set(others),
        expected=("create a cycle",),
        stdin="\n".join(edges),
    )
    if not done.ok:
        message = f"{bead_id} cannot depend on {', '.join(others)}: {error_text(done)}"
        raise RalphError(Code.CYCLE_DETECTED, message)


def _part(bd: Bd, bead_id: str, other: str) -> None:
    bd.change(("dep", "remove", bead_id, other), lambda: other not in _blockers_now(bd, bead_id))


def _blockers_now(bd: Bd, bead_id: str) -> set[str]:
    return set(shape.blockers(bd.one(bead_id)))


def _set_fields(bd: Bd, row: Row, changes: Changes) -> Row:
    """All the fields in one call."""
    changes = replace(changes, dependencies=None)  # no field to bd
    if not changes.core and not changes.metadata:
        return row
    # A worker's name that is left on a closed bead would hide it, once it is open again.
    pool = [f"--assignee={ASSIGNEE}"] if changes.status and row["status"] == "closed" else []
    guard = [f"--if-status={row['status']}"] if changes.expected_status else []

    def took_effect() -> bool:
        return shape.shows(shape.seed(bd.one(row["id"])), changes)

    words, done = update(bd, row, changes, took_effect, more=(*pool, *guard))
    return bd.changed(words, done, row)


def update(
    bd: Bd,
    row: Row,
    changes: Changes,
    took_effect: Callable[[], bool],
    *,
    more: Sequence[str],
    expected: Sequence[str] = (),
    actor: str = OURSELVES,
) -> tuple[tuple[str, ...], Exit]:
    """One `bd update`, which bd does as a whole or not at all; the command, and how it ended.

    What may be long goes by file, since an argument has little room.
    """
    directory = scratch.make()  # swept by the next run, should this process be killed
    try:
        words = ("update", row["id"], *_flags(changes.core, changes.metadata, directory), *more)
        return words, bd.change(words, took_effect, expected=expected, actor=actor)
    finally:
        scratch.discard(directory)


def _flags(fields: dict[str, Any], metadata: Any, directory: Path) -> list[str]:
    words = [f"{flag}={fields[key]}" for key, flag in FLAGS.items() if key in fields]
    if "labels" in fields:
        words.append(f"--set-labels={_csv(fields['labels'])}")
    if "description" in fields:
        body = directory / "description"
        body.write_text(fields["description"], encoding="utf-8", errors="backslashreplace", newline="")
        words += [f"--body-file={body}", "--allow-empty-description"]
    if metadata:
        content = directory / "metadata.json"
        content.write_text(shape.dumped(dict(metadata)), encoding="utf-8")
        words.append(f"--metadata=@{content}")
        if "acceptance_criteria" in metadata:
            words.append(f"--acceptance={shape.acceptance_text(metadata)[:LONGEST_ARGUMENT]}")
    return words


def _csv(labels: Sequence[str]) -> str:
    """bd reads its lists as a line of CSV, so a label may hold a comma."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(labels)
    return line.getvalue()


# --- claims ---------------------------------------------------------------------------------------


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
    waiting = bd.not_closed(shape.blockers(row))
    if waiting:
        return f"blocked by {', '.join(waiting)}"
    if shape.waits_otherwise(row):
        listed = bd.unblocked(wisps=shape.is_wisp(row))
        return "" if any(other["id"] == row["id"] for other in listed) else "bd does not list it as ready"
    return ""


def take(bd: Bd, known: Row, actor: str, root: Path) -> Row | Claim:
    """Ask bd for a bead that nothing is known to stand against: its row, or why another has it."""
    bead_id: str = known["id"]
    words = ("update", bead_id, "--claim")
    done = bd.change(
        words, lambda: shape.holder(bd.one(bead_id)) == actor, expected=(*LOST_RACE, NOT_THERE), actor=actor
    )
    if not done.ok:
        row = bd.one(bead_id)
        return refused(row, refusal(bd, row, actor) or error_text(done))
    row = _own(bd, bd.answered(words, done, known), bead_id, actor)
    held = shape.holder(row)
    if held != actor:  # to bd `a-b` and `a_b` are the same worker; to us they are two
        return refused(row, f"already claimed by {held}")
    try:
        rules.sound(shape.seed(row), root)
    except RalphError:  # changed by hand since it was listed: what cannot be read cannot be worked on
        _undo(bd, row, actor)
        raise
    return row


def refused(row: Row, why: str) -> Claim:
    return Claim(None, why, shape.holder(row), row.get("lease_expires_at"))


def _own(bd: Bd, row: Row, bead_id: str, actor: str) -> Row:
    """The row, if it is of the bead that was asked for. Where that one was deleted since it was listed, bd
    takes the only id that begins with the same letters: this is undone at once."""
    if row["id"] == bead_id:
        return row
    if shape.holder(row) == actor:
        _undo(bd, row, actor)
    return bd.one(bead_id)


def _undo(bd: Bd, row: Row, actor: str) -> None:
    """Back to the pool, or to nobody where it is an issue of the user's."""
    bead_id: str = row["id"]
    before = ASSIGNEE if shape.is_ours(row) else ""
    bd.change(
        ("update", bead_id, "--status=open", f"--assignee={before}", *_held_by(actor)),
        lambda: bd.by_ids([bead_id])[bead_id]["status"] == "open",
        actor=actor,
    )


# --- keeping and ending -----------------------------------------------------------------------------


def check_held(row: Row, actor: str) -> None:
    held = shape.holder(row)
    if held is None or held != actor:
        raise rules.not_held(row["id"], row["status"], held, actor)


def check_far_blockers(bd: Bd, row: Row) -> None:
    """bd refuses to close what is blocked, but passes over dependencies of another prefix."""
    waiting = bd.not_closed(shape.far_blockers(row))
    if waiting:
        raise rules.blocked_again(row["id"], waiting)


def hand_over(bd: Bd, row: Row, actor: str, status: str, found: Findings) -> Row:
    """The end of the actor's work and what it found, in one write, if it is the actor's still: there is no
    moment in between. Whatever nobody works on belongs to the pool."""
    words, done = update(
        bd,
        row,
        found.changes,
        lambda: bool(bd.one(row["id"])["status"] == status),
        more=(f"--status={status}", f"--assignee={ASSIGNEE}", *_held_by(actor)),
        expected=("cannot close",),
        actor=actor,
    )
    if not done.ok:
        message = f"bd refuses: {error_text(done)}"
        raise bd.error(Code.CONFLICT, message, words, done, rules.RELEASE_IT)
    return bd.changed(words, done, row)


def _held_by(actor: str) -> tuple[str, ...]:
    return ("--if-status=in_progress", f"--if-assignee={actor}")


def beat(bd: Bd, row: Row, actor: str) -> bool:
    """Extend the lease of a bead that the actor holds; False where it was taken away in this moment.

    A wisp has no lease in bd: who has claimed it holds it.
    """
    if shape.is_wisp(row):
        return True
    bead_id, before = row["id"], row.get("lease_expires_at")

    def extended() -> bool:
        return bool(bd.one(bead_id).get("lease_expires_at") != before)

    return bd.change(("heartbeat", bead_id), extended, expected=LOST_RACE, actor=actor).ok


def reclaim(bd: Bd, ids: Sequence[str], older_than: timedelta) -> list[str]:
    """bd reopens those whose lease ran out that long ago; which, the database tells."""
    if not ids:
        return []

    def reopened() -> list[str]:
        rows = bd.by_ids(ids)
        return [name for name in ids if name in rows and rows[name]["status"] == "open"]

    age = min(max(older_than, timedelta(0)), LONGEST_AGE).total_seconds()
    bd.change(
        ("reclaim", f"--older-than={age:.3f}s", *(f"--id={name}" for name in ids)), lambda: bool(reopened())
    )
    return reopened()


def return_to_pool(bd: Bd, ids: Sequence[str]) -> None:
    """bd leaves reclaimed beads without an assignee, and then nobody would find them ready."""
    if not ids:
        return

    def all_back() -> bool:
        return not any(map(shape.is_stray, bd.by_ids(ids).values()))

    words = ("update", *ids, f"--assignee={ASSIGNEE}", "--if-assignee=")
    done = bd.change(words, all_back, expected=ANY)
    if not done.ok and not all_back():  # one that somebody took in the meantime is no failure
        raise bd.failure(words, done)

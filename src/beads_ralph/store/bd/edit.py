"""Changes to a bead that exists: its fields in one call, its dependencies by what differs."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.model import ASSIGNEE
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.process.jobs import Exit
from beads_ralph.store import rules
from beads_ralph.store.bd import queries, shape
from beads_ralph.store.bd.cli import OURSELVES, Bd, error_text
from beads_ralph.store.bd.shape import Row
from beads_ralph.store.protocol import Changes

LONGEST_ARGUMENT: Final = 20_000
FLAGS: Final = {
    "title": "--title",
    "priority": "--priority",
    "issue_type": "--type",
    "status": "--status",
    "external_ref": "--external-ref",
}


def check(bd: Bd, row: Row, changes: Changes, root: Path) -> None:
    """Refuse, before anything is written, what would leave a bead that is not sound."""
    rules.check_expected(row["id"], shape.seed(row)["status"], changes.expected_status)
    if _new_blockers(row, changes):
        _check_dependencies(bd, row, changes)
    rules.sound(shape.changed(shape.seed(row), changes), root)
    if changes.status is not None:
        current = shape.seed(row)["status"]
        rules.check_status_change(row["id"], current, shape.holder(row), changes.status)


def edit(bd: Bd, row: Row, changes: Changes) -> Row:
    """Make the changes that were checked; new dependencies first, since bd may refuse them."""
    _depend(bd, row["id"], _new_blockers(row, changes))
    changed = _set_fields(bd, row, changes)
    if changes.dependencies is None:
        return changed
    for other in shape.blockers(row):
        if other not in changes.dependencies:
            _part(bd, row["id"], other)
    return queries.one(bd, row["id"])


def _new_blockers(row: Row, changes: Changes) -> list[str]:
    return sorted(set(changes.dependencies or ()) - set(shape.blockers(row)))


def _check_dependencies(bd: Bd, row: Row, changes: Changes) -> None:
    """bd looks neither for what does not exist nor for a cycle where prefixes differ, so we look."""
    bead_id, others = row["id"], _new_blockers(row, changes)
    known = {bead["id"]: shape.blockers(bead) for bead in queries.ours(bd)}
    around = _around(bd, row)
    there = queries.by_ids(bd, [name for name in others if name not in known])
    unknown = [name for name in others if name not in known and name not in there]
    faults = rules.needs_faults(bead_id, others, unknown)
    if faults:
        raise gathered(faults, f"bead {bead_id}")
    rules.refuse_cycle(_below(bead_id, known | around | {bead_id: list(changes.dependencies or ())}))


def _around(bd: Bd, row: Row) -> dict[str, list[str]]:
    """What the bead lies below, up to the top: each of it ends only after what is in it."""
    edges: dict[str, list[str]] = {}
    while (parent := row.get("parent")) and parent not in edges:
        edges[parent] = [row["id"]]
        row = queries.by_ids(bd, [parent]).get(parent, {})
    return edges


def _below(bead_id: str, edges: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The edges of what the bead depends on: a new cycle can only run through these."""
    reached: dict[str, Sequence[str]] = {}
    waiting = [bead_id]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached[name] = edges.get(name, ())
            waiting.extend(reached[name])
    return reached


def _depend(bd: Bd, bead_id: str, others: Sequence[str]) -> None:
    """Add dependencies, all or none."""
    if not others:
        return
    words = ("dep", "add", "--file", "-")
    edges = [shape.dumped({"from": bead_id, "to": name, "type": "blocks"}) for name in others]
    done = bd.change(words, lambda: _blockers_now(bd, bead_id) >= set(others), stdin="\n".join(edges))
    if not done.ok:
        said = error_text(done)
        if "create a cycle" in said:
            raise RalphError(Code.CYCLE_DETECTED, f"{bead_id} cannot depend on {', '.join(others)}: {said}")
        raise bd.failure(words, done)


def _part(bd: Bd, bead_id: str, other: str) -> None:
    bd.must_change(("dep", "remove", bead_id, other), lambda: other not in _blockers_now(bd, bead_id))


def _blockers_now(bd: Bd, bead_id: str) -> set[str]:
    return set(shape.blockers(queries.one(bd, bead_id)))


def _set_fields(bd: Bd, row: Row, changes: Changes) -> Row:
    """All the fields in one call."""
    fields = _fields(changes)
    if not fields and not changes.metadata:
        return row
    # A worker's name that is left on a closed bead would hide it, once it is open again.
    pool = [f"--assignee={ASSIGNEE}"] if changes.status and row["status"] == "closed" else []
    guard = [f"--if-status={row['status']}"] if changes.expected_status else []

    def took_effect() -> bool:
        return shape.shows(shape.seed(queries.one(bd, row["id"])), changes, fields.keys())

    words, done = write(bd, row, changes, took_effect, more=(*pool, *guard))
    if not done.ok:
        raise bd.failure(words, done)
    return queries.changed(bd, words, done, row)


def write(
    bd: Bd,
    row: Row,
    changes: Changes,
    took_effect: Callable[[], bool],
    *,
    more: Sequence[str],
    actor: str = OURSELVES,
) -> tuple[tuple[str, ...], Exit]:
    """One `bd update`, which bd does as a whole or not at all; the command, and how it ended.

    What may be long goes by file, since an argument has little room.
    """
    with tempfile.TemporaryDirectory(prefix="beads-ralph-") as directory:
        words = ("update", row["id"], *_flags(_fields(changes), changes.metadata, Path(directory)), *more)
        return words, bd.change(words, took_effect, actor=actor)


def _fields(changes: Changes) -> dict[str, Any]:
    return {key: value for key, value in shape.core_changes(changes).items() if key != "dependencies"}


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

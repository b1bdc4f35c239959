"""Changes to a bead that exists: its fields in one call, its dependencies by what differs."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.protocols import Changes
from beads_ralph.store import bd_rows, bd_shape
from beads_ralph.store.bd_cli import Bd, error_text
from beads_ralph.store.bd_insert import self_dependency, unresolved
from beads_ralph.store.bd_shape import Row

FLAGS: Final = {
    "title": "--title",
    "priority": "--priority",
    "issue_type": "--type",
    "status": "--status",
    "external_ref": "--external-ref",
}


def check(bd: Bd, row: Row, changes: Changes, root: Path) -> None:
    """Refuse, before anything is written, what would leave a bead that is not sound."""
    faults = _dependency_faults(bd, row["id"], _new_blockers(row, changes))
    if faults:
        raise gathered(faults, f"bead {row['id']}")
    bd_shape.bead_of(bd_shape.changed(bd_shape.seed(row), changes), root)
    _check_status(row, changes.status)


def edit(bd: Bd, row: Row, changes: Changes) -> None:
    """Make the changes that were checked; new dependencies first, since bd alone sees a cycle."""
    _depend(bd, row["id"], _new_blockers(row, changes))
    _set_fields(bd, row["id"], changes)
    if changes.dependencies is not None:
        for other in bd_shape.blockers(row):
            if other not in changes.dependencies:
                _part(bd, row["id"], other)


def _new_blockers(row: Row, changes: Changes) -> list[str]:
    return sorted(set(changes.dependencies or ()) - set(bd_shape.blockers(row)))


def _dependency_faults(bd: Bd, bead_id: str, others: Sequence[str]) -> list[Fault]:
    if bead_id in others:
        return [self_dependency(bead_id)]
    there = bd_rows.by_ids(bd, others)
    return [unresolved(bead_id, name) for name in others if name not in there]


def _check_status(row: Row, wanted: str | None) -> None:
    """Anyone may open, block and reopen what nobody holds; work starts and ends by claim and close."""
    current = bd_shape.seed(row)["status"]
    if wanted is None or wanted == current:
        return
    bead_id, held = row["id"], bd_shape.holder(row)
    if held is not None:
        raise RalphError(
            Code.CONFLICT,
            f"{bead_id} is claimed by {held}, so its status cannot become {wanted}",
            suggested_action="Release the bead first",
        )
    if wanted not in ("open", "blocked") or (current == "closed" and wanted != "open"):
        raise RalphError(
            Code.CONFLICT,
            f"{bead_id} is {current} and cannot simply become {wanted}",
            suggested_action="Claim a bead to start it, close it to end it, set a closed one to open",
        )


def _depend(bd: Bd, bead_id: str, others: Sequence[str]) -> None:
    """Add dependencies, all or none."""
    if not others:
        return
    words = ("dep", "add", "--file", "-")
    edges = [bd_shape.dumped({"from": bead_id, "to": name, "type": "blocks"}) for name in others]
    done = bd.change(words, lambda: _blockers_now(bd, bead_id) >= set(others), stdin="\n".join(edges))
    if not done.ok:
        said = error_text(done)
        if "create a cycle" in said:
            raise RalphError(Code.CYCLE_DETECTED, f"{bead_id} cannot depend on {', '.join(others)}: {said}")
        raise bd.failure(words, done)


def _part(bd: Bd, bead_id: str, other: str) -> None:
    bd.must_change(("dep", "remove", bead_id, other), lambda: other not in _blockers_now(bd, bead_id))


def _blockers_now(bd: Bd, bead_id: str) -> set[str]:
    return set(bd_shape.blockers(bd_rows.one(bd, bead_id)))


def _set_fields(bd: Bd, bead_id: str, changes: Changes) -> None:
    """All the fields in one call; what may be long goes by file, since an argument has little room."""
    fields = {key: value for key, value in bd_shape.core_changes(changes).items() if key != "dependencies"}
    if not fields and not changes.metadata:
        return
    with tempfile.TemporaryDirectory(prefix="beads-ralph-") as directory:
        words = ("update", bead_id, *_flags(fields, changes.metadata, Path(directory)))
        bd.must_change(
            words, lambda: bd_shape.shows(bd_shape.seed(bd_rows.one(bd, bead_id)), changes, fields.keys())
        )


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
        content.write_text(bd_shape.dumped(dict(metadata)), encoding="utf-8")
        words.append(f"--metadata=@{content}")
        if "acceptance_criteria" in metadata:
            words.append(f"--acceptance={bd_shape.acceptance_text(metadata)}")
    return words


def _csv(labels: Sequence[str]) -> str:
    """bd reads its lists as a line of CSV, so a label may hold a comma."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(labels)
    return line.getvalue()

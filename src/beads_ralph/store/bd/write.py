"""Writing to bd: a batch of beads, all or none; a formula that bd pours; changes to a bead that exists."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.names import ASSIGNEE
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.process.jobs import Exit
from beads_ralph.store import rules
from beads_ralph.store.bd import queries, shape
from beads_ralph.store.bd.cli import OURSELVES, Bd, error_text
from beads_ralph.store.bd.shape import Row
from beads_ralph.store.protocol import Changes, Poured, Progress, Stored

# --- new beads --------------------------------------------------------------------------------------


SECONDS_PER_BEAD: Final = 0.1
LIMIT_PER_BEAD: Final = 0.6
COMMAND: Final = ("create", "--graph", "/dev/stdin")
REFUSALS: Final = (
    ("already exists", Code.DUPLICATE_ID),
    ("duplicate explicit id", Code.DUPLICATE_ID),
    ("create a cycle", Code.CYCLE_DETECTED),
    ("self-dependency", Code.SELF_DEP),
    ("not found", Code.UNRESOLVED),
)


def insert(bd: Bd, batch: Sequence[Stored], progress: Progress) -> None:
    """Insert what was checked. The caller holds the writer queue."""
    plan = shape.graph(batch)
    ids = [thing.id for thing in batch]
    progress(f"inserting {len(ids)} beads with bd, about {1 + SECONDS_PER_BEAD * len(ids):.0f} s")
    limit = bd.timeout + LIMIT_PER_BEAD * len(ids)
    late = _Late(bd, ids)
    done = bd.change(COMMAND, late.all_there, stdin=plan, timeout=limit)
    if not done.ok:
        raise _refused(bd, ids, done)
    if not late.asked:
        _compare(bd, ids, done)
    progress(f"{len(ids)} beads inserted")


class _Late:
    """The state of the database after an insert that bd did not end in time."""

    def __init__(self, bd: Bd, ids: Sequence[str]) -> None:
        self._bd, self._ids = bd, ids
        self.asked = False

    def all_there(self) -> bool:
        self.asked = True
        there = queries.by_ids(self._bd, self._ids)
        missing = [name for name in self._ids if name not in there]
        if missing and there:  # bd promises all or none; should it not keep its word, say what is where
            raise _partial("bd was stopped in the midst of an insert", list(there), missing)
        return not missing


# --- before -----------------------------------------------------------------------------------------


def check_new(bd: Bd, batch: Sequence[Stored], root: Path) -> None:
    """Refuse, before anything is written, what would not be sound."""
    commas = [_comma(thing.id) for thing in batch if "," in thing.id]
    if commas:
        raise gathered(commas, f"{len(batch)} beads")
    entries = list(map(rules.Entry.of, batch))
    named = dict.fromkeys(name for entry in entries for name in (entry.id, *entry.named))
    there = queries.by_ids(bd, list(named))
    rules.check_batch(entries, there.__contains__)
    if any(entry.parent in there for entry in entries):  # what is stored may wait for its new member
        stored = [
            rules.Entry(row["id"], shape.blockers(row), row.get("parent")) for row in queries.everything(bd)
        ]
        rules.refuse_cycle(rules.waiting([*stored, *entries]))
    for thing in batch:
        rules.check_new(thing, thing.to_json(), root)


def _comma(bead_id: str) -> Fault:
    return Fault(Code.CONSTRAINT, f"{bead_id}: bd cannot look up an id with a comma in it", field="id")


# --- after ------------------------------------------------------------------------------------------


def _compare(bd: Bd, ids: Sequence[str], done: Exit) -> None:
    """bd names what it made; anything but what we asked for is a failure."""
    answer: Any = bd.parsed(COMMAND, done)
    made = list((answer.get("ids") or {}).values())
    missing = [name for name in ids if name not in set(made)]
    if missing or len(made) != len(ids):
        raise _partial("bd made other beads than it was asked for", made, missing)


def _refused(bd: Bd, ids: Sequence[str], done: Exit) -> RalphError:
    said = error_text(done)
    code = next((code for phrase, code in REFUSALS if phrase in said), Code.INSERT_FAILED)
    return RalphError(
        code,
        f"bd refused the beads, none was inserted: {said}",
        details=bd.account(COMMAND, done),
        suggested_action=f"Mend what bd says, and see whether it is there: bd show {ids[0]} --json",
    )


def _partial(message: str, inserted: Sequence[str], missing: Sequence[str]) -> RalphError:
    return RalphError(
        Code.INSERT_FAILED,
        f"{message}: {len(inserted)} are there, {len(missing)} are missing",
        data={"inserted": list(inserted), "missing": list(missing)},
        suggested_action=f"Look at one of them: bd show {[*inserted, *missing][0]} --json",
    )


# --- a formula --------------------------------------------------------------------------------------


POUR_LIMIT: Final = 4  # time limits of one call that a pour may take: it may make a hundred steps
NOT_FOUND: Final = ("not found as formula", "proto not found", "is not a proto", "loading proto")
"""bd's words for a formula with a fault, as well as for one that is not there."""


def pour(bd: Bd, formula: str, values: Mapping[str, str], *, wisp: bool, assignee: str | None) -> Poured:
    """All the steps, or nothing. The caller holds the writer queue."""
    words = ("mol", "wisp" if wisp else "pour", formula, *(f"--var={k}={v}" for k, v in values.items()))
    assigned = (f"--assignee={assignee}",) if assignee and not wisp else ()
    done = bd.run((*words, *assigned, "--json"), timeout=POUR_LIMIT * bd.timeout)
    if done.timed_out:
        raise _pour_unknown(bd, words, done)
    if not done.ok:
        raise _pour_refused(bd, formula, words, done)
    poured = _poured(bd.parsed(words, done))
    if wisp and assignee:  # `bd mol wisp` has no word for it
        _assign(bd, poured.root, assignee)
    return poured


def _poured(answer: Any) -> Poured:
    root = str(answer["new_epic_id"])
    ids: Mapping[str, str] = answer["id_mapping"]
    name = next(key for key, made in ids.items() if made == root)
    return Poured(root, {key.removeprefix(f"{name}."): made for key, made in ids.items() if made != root})


def _assign(bd: Bd, root: str, assignee: str) -> None:
    bd.must_change(
        ("update", root, f"--assignee={assignee}"),
        lambda: bool(queries.by_ids(bd, [root])[root].get("assignee") == assignee),
    )


def _pour_refused(bd: Bd, formula: str, words: Sequence[str], done: Exit) -> RalphError:
    said = _said(done)
    if any(phrase in said for phrase in NOT_FOUND):  # only `bd cook` says what is wrong with it
        cooked = bd.run(("cook", formula, "--dry-run"), reading=True)
        said = said if cooked.ok else _said(cooked)
    return RalphError(
        Code.POUR_FAILED,
        f"bd does not pour {formula}, and nothing was made: {said}",
        details=bd.account(words, done),
        suggested_action=f"Mend the formula or its variables: beads-ralph formula check {formula}",
    )


def _said(done: Exit) -> str:
    """bd's own words: of several faults it marks only the first line as an error."""
    plain = "" if done.stdout.strip() else done.stderr.strip()
    return plain.removeprefix("Error: ") if plain.startswith("Error: ") else error_text(done)


def _pour_unknown(bd: Bd, words: Sequence[str], done: Exit) -> RalphError:
    return RalphError(
        Code.DATABASE_TIMEOUT,
        f"bd did not end within {done.seconds:.0f} s; it may have poured {words[2]}, or nothing",
        details=bd.account(words, done),
        suggested_action="See whether it is there: bd query type=molecule",
    )


# --- changes ----------------------------------------------------------------------------------------


LONGEST_ARGUMENT: Final = 20_000
FLAGS: Final = {
    "title": "--title",
    "priority": "--priority",
    "issue_type": "--type",
    "status": "--status",
    "external_ref": "--external-ref",
}


def check_changes(bd: Bd, row: Row, changes: Changes, root: Path) -> None:
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
    """The containers around a bead, up to the top: each ends only after what is in it."""
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

    words, done = update(bd, row, changes, took_effect, more=(*pool, *guard))
    if not done.ok:
        raise bd.failure(words, done)
    return queries.changed(bd, words, done, row)


def update(
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

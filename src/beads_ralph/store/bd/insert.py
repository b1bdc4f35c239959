"""A batch of beads into bd: all or none, with one `bd create --graph`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.process.jobs import Exit
from beads_ralph.store import rules
from beads_ralph.store.bd import queries, shape
from beads_ralph.store.bd.cli import Bd, error_text
from beads_ralph.store.protocol import Progress, Stored

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
    """What is in the database after an insert that bd did not end in time."""

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


def check(bd: Bd, batch: Sequence[Stored], root: Path) -> None:
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

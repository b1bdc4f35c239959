"""A journal folded line by line, from plain rows, since a journal can be long.

The fold knows no clock and no file: the same lines give the same state, however they were cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from beads_ralph.board.folding_beads import BEAD_TAKERS
from beads_ralph.board.told import Row, Told

SPOILED: Final = (KeyError, TypeError, ValueError, AttributeError)
"""What a line raises that has the right form and the wrong values in it."""


def apply(told: Told, row: Row) -> Told:
    """Take one line in; the same state, changed."""
    try:
        kind, at = row["kind"], row["at"]
        if type(kind) is not str or type(at) is not str:
            raise TypeError
        told.last_at = at
        take = TAKERS.get(kind)
        if take is not None:
            take(told, row)
        elif kind in CHANGING:
            told.store_changes += 1
    except SPOILED:
        told.spoiled += 1
    return told


def apply_all(told: Told, rows: Iterable[Row]) -> Told:
    for row in rows:
        apply(told, row)
    return told


# --- the run ------------------------------------------------------------------------------------------


def _run_started(told: Told, row: Row) -> None:
    told.run_id, told.started_at = row["run_id"], row["at"]
    told.parallel = told.most = int(row["max_parallel"])
    told.end = None
    told.store_changes += 1


def _paused(told: Told, _row: Row) -> None:
    told.paused = True


def _resumed(told: Told, _row: Row) -> None:
    told.paused = False


def _draining(told: Told, row: Row) -> None:
    told.draining = str(row["reason"])


def _parallelism(told: Told, row: Row) -> None:
    told.parallel, told.most = int(row["parallel"]), int(row["most"])


def _waiting(told: Told, row: Row) -> None:
    told.waiting = tuple(dict(one) for one in row["gates"])


def _ended(told: Told, row: Row) -> None:
    told.end = dict(row)
    told.store_changes += 1
    for bead in told.beads.values():
        if bead.at_work:
            bead.at_work = False
            bead.revision += 1


def _warning(told: Told, row: Row) -> None:
    told.remark(str(row["message"]))


def _unavailable(told: Told, row: Row) -> None:
    told.unavailable[str(row["program"])] = dict(row)


def _recovered(told: Told, row: Row) -> None:
    told.unavailable.pop(str(row["program"]), None)


def _gate_checked(told: Told, row: Row) -> None:
    name = str(row.get("bead") or row.get("source") or "")
    if row["ruling"] == "pass":
        told.red_gates.pop(name, None)
    else:
        told.red_gates[name] = (str(row["message"]), row["at"])
    told.store_changes += 1


def _gates_overridden(told: Told, row: Row) -> None:
    for name in row["gates"]:
        told.red_gates.pop(str(name), None)


def _replaced(told: Told, row: Row) -> None:
    told.remark(f"{row['by']} plays {row['agent']} for {row['program']}: {row['reason']}")


CHANGING: Final = frozenset({"items_settled", "gate_passed", "strays_ended"})
"""Those that only change what the store says."""
TAKERS: Final[Mapping[str, Callable[[Told, Row], None]]] = {
    "run_started": _run_started,
    "run_paused": _paused,
    "run_resumed": _resumed,
    "run_draining": _draining,
    "parallelism_changed": _parallelism,
    "run_waiting": _waiting,
    "run_ended": _ended,
    "warning_given": _warning,
    "program_unavailable": _unavailable,
    "program_recovered": _recovered,
    "program_replaced": _replaced,
    "gate_checked": _gate_checked,
    "gates_overridden": _gates_overridden,
    **BEAD_TAKERS,
}
WANTED: Final = frozenset(name.encode() for name in (*TAKERS, *CHANGING))
"""The kinds that change anything; lines of all others need not be read."""

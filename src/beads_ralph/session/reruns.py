"""A red check is run again on a clean checkout of the same commit, before the agent is blamed for it.

Red again: it is red. Green then: it is flaky, and passes only if a third run is green as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from beads_ralph.bead.evidence import Evidence, Ruling

LABELS: Final = ("", "-again", "-third")
COLOURS: Final[dict[Ruling, str]] = {"pass": "green", "fail": "red", "stop": "red"}

Run = Callable[[str], Awaitable[list[Evidence]]]
"""Runs the checks; what it is given goes behind the name of their stage."""


async def settled(run: Run, *, again: bool) -> list[Evidence]:
    """What the checks say, after as many runs as it takes."""
    rows = [await run(LABELS[0])]
    if again and any(map(_may_differ, rows[0])):
        rows.append(await run(LABELS[1]))
        if _red(rows[0]) != _red(rows[1]):
            rows.append(await run(LABELS[2]))
    return _together(rows)


def flags(evidence: Sequence[Evidence]) -> list[str]:
    """For whoever judges: checks that said red and green of this commit."""
    return [
        f"{row.name} is flaky: on this commit it was {_colours(row.rulings)}"
        for row in evidence
        if row.is_flaky
    ]


def _may_differ(row: Evidence) -> bool:
    """A command that failed by itself. One that took too long would only take as long again."""
    return row.ruling != "pass" and row.kind == "verifier" and bool(row.command) and row.reason is None


def _red(rows: Sequence[Evidence]) -> set[str]:
    return {row.name for row in rows if row.ruling != "pass"}


def _together(runs: Sequence[list[Evidence]]) -> list[Evidence]:
    """The rows that count, each with what every run said of it and the time of all of them."""
    if len(runs) == 1:
        return runs[0]
    last_red = next((rows for rows in reversed(runs[1:]) if _red(rows)), None)
    return [_of_all(row, runs) for row in last_red or runs[-1]]


def _of_all(row: Evidence, runs: Sequence[list[Evidence]]) -> Evidence:
    same = [one for rows in runs for one in rows if (one.name, one.command) == (row.name, row.command)]
    if len(same) < len(LABELS[:2]):
        return row
    rulings = [one.ruling for one in same]
    kept = {**row.details, "rulings": rulings}
    found = replace(row, seconds=sum(one.seconds for one in same), details=kept)
    if not found.is_flaky:
        return found
    said = f"flaky: {_colours(rulings)} on the same commit"
    return replace(found, message=f"{row.message}; {said}")


def _colours(rulings: Sequence[Ruling]) -> str:
    return ", ".join(COLOURS[one] for one in rulings)

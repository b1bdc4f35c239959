"""The attempts of the last run, on one line of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from beads_ralph.report.tally import Stretch

QUIET: Final = timedelta(minutes=30)
"""Records of other programs name no run; a gap like this ends one."""


def last_run(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Those that belong to the run that began an attempt last, in the order of their start."""
    ordered = sorted(stretches, key=lambda stretch: stretch.start)
    if not ordered:
        return []
    run_id = ordered[-1].run_id
    if run_id is not None:
        return [stretch for stretch in ordered if stretch.run_id == run_id]
    return _since_quiet([stretch for stretch in ordered if stretch.run_id is None])


def _since_quiet(ordered: Sequence[Stretch]) -> list[Stretch]:
    found: list[Stretch] = []
    busy: datetime | None = None
    for stretch in ordered:
        if busy is not None and stretch.start - busy > QUIET:
            found.clear()
        found.append(stretch)
        end = stretch.end or stretch.start
        busy = end if busy is None or not found[1:] else max(busy, end)
    return found


def bounds(stretches: Sequence[Stretch], now: datetime) -> tuple[datetime, datetime]:
    """From the first start to the last end; what has no end yet lasts until now."""
    start = min(stretch.start for stretch in stretches)
    return start, max([start, *(end_of(stretch, now) for stretch in stretches)])


def end_of(stretch: Stretch, now: datetime) -> datetime:
    if stretch.end is not None:
        return max(stretch.end, stretch.start)
    return max(now, stretch.start) if stretch.outcome == "running" else stretch.start

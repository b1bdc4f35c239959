"""When a run will probably be done: its beads that are left, rehearsed with the attempts of the past."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from beads_ralph.bead.words import moment_of
from beads_ralph.board.model import BoardBead, BoardState, RunForecast
from beads_ralph.config import workspace
from beads_ralph.config.workspace import RalphPlace
from beads_ralph.errors import RalphError
from beads_ralph.journal import records
from beads_ralph.journal.journal import moment_text
from beads_ralph.report import forecast as forecasting
from beads_ralph.report.forecast import ForecastSprint
from beads_ralph.report.past import ENOUGH, History, Likeness

SPARE: Final = 100.0
"""What took a second is not done again for so many seconds."""
AGAIN_SECONDS: Final = 20.0
DRAWS: Final = 20_000
FEWEST, MOST = 40, 200
"""Rehearsals: a board needs a time of day, not the second decimal."""


@dataclass
class Expecting:
    """The forecast of the run that a board shows, made anew now and then."""

    place: RalphPlace
    found: RunForecast | None = None
    _history: History = field(default_factory=History)
    _history_due: float = float("-inf")
    _due: float = float("-inf")

    def look(self, state: BoardState, now: datetime) -> RunForecast | None:
        """None where nobody knows: the run has ended or is paused, or there is too little past."""
        if state.run.mode != "running":
            self.found = None
        elif (began := time.monotonic()) >= self._due:
            self._read(began)
            self.found = forecast(state, self._history, now)
            self._due = time.monotonic() + max(AGAIN_SECONDS, SPARE * (time.monotonic() - began))
        return self.found

    def _read(self, began: float) -> None:
        if began < self._history_due:
            return
        try:
            self._history = History.of(records.read_all(workspace.find(self.place.root).state))
        except (RalphError, OSError):  # a forecast is not worth a board that does not open
            self._history = History()
        self._history_due = time.monotonic() + SPARE * (time.monotonic() - began)


def forecast(state: BoardState, history: History, now: datetime) -> RunForecast | None:
    left = {bead.id: bead for bead in _able(state.beads)}
    if not left or history.attempts < ENOUGH:
        return None
    sprints = [_sprint(bead, now) for bead in left.values()]
    edges = {name: [one for one in bead.depends_on if one in left] for name, bead in left.items()}
    count = min(max(DRAWS // len(left), FEWEST), MOST)
    width = max(state.run.parallel or 1, len(state.running), 1)
    seconds = forecasting.forecast(sprints, edges, history, width, count).seconds
    early, middle, late = (_rounded(now, at) for at in seconds)
    return RunForecast(middle, early, late, history.attempts)


def _able(beads: Iterable[BoardBead]) -> list[BoardBead]:
    """Those that are left and wait for nothing that only a person can end."""
    stuck, left = set[str](), list[BoardBead]()
    for bead in sorted(beads, key=lambda one: one.wave):
        if bead.status == "blocked" or stuck.intersection(bead.depends_on):
            stuck.add(bead.id)
        elif bead.status != "closed":
            left.append(bead)
    return left


def _sprint(bead: BoardBead, now: datetime) -> ForecastSprint:
    known = bead.program if bead.role == "dev" else ""
    likeness = Likeness(bead.kind, known or None, bead.model or None if known else None)
    at_work = bead.status == "in_progress"
    begun = max(bead.attempt - 1, 0) if at_work else bead.attempt
    most = max(bead.max_attempts, begun + 1)
    elapsed = max((now - _attempt_began(bead, now)).total_seconds(), 1.0) if at_work else 0.0
    own = (bead.id, bead.branch or bead.id, likeness, most, bead.priority, begun)
    return ForecastSprint(*own, team=bead.team, elapsed=elapsed)


def _attempt_began(bead: BoardBead, now: datetime) -> datetime:
    """After the verdict on the one before; the first when the bead was taken up."""
    at = bead.attempts[-1].at if bead.attempts else bead.since
    try:
        return moment_of(at) if at else now
    except ValueError:
        return now


def _rounded(now: datetime, seconds: float) -> str:
    """To the minute, so that it changes no more often than that."""
    at = now + timedelta(seconds=seconds + 30)
    return moment_text(at.replace(second=0, microsecond=0))

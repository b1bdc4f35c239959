"""What a board knows besides the journal and the store: is the run alive, and what do its agents do?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from beads_ralph.board.model import RunForecast


@dataclass(frozen=True)
class Activity:
    """The last that an agent was seen to do."""

    text: str = ""
    at: str | None = None
    silent: bool = False
    """For so long that somebody should look."""


@dataclass(frozen=True)
class RunSigns:
    """All that is known besides the journal and the store."""

    run_id: str | None = None
    alive: bool = False
    """Whether the run's process is there."""
    told_to: str | None = None
    """The order that was left for the run: pause or stop."""
    broken_lines: int = 0
    activity: Mapping[str, Activity] = field(default_factory=dict)
    trusted: frozenset[str] = frozenset()
    """Beads of which the journal knows more than the look at the store did."""
    now: str = ""
    budget: Mapping[str, float | None] = field(default_factory=dict)
    forecast: RunForecast | None = None

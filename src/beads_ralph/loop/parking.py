"""Beads that wait for a limit to lift, and the programs whose limit it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from beads_ralph.models import Bead

UNKNOWN_SECONDS: Final = 60.0
"""The first pause where nobody said when the limit lifts; doubled each time."""
KNOWN_SECONDS: Final = 1.0
"""The same where somebody did, but was wrong before."""
LONGEST: Final = timedelta(hours=1)
MOST: Final = 20
"""So often a bead is parked in one run; then a person should look."""


@dataclass
class Parking:
    """Who waits until when. Nothing in it asks the store, so that waiting costs nothing."""

    beads: dict[str, datetime] = field(default_factory=dict)
    programs: dict[str, datetime] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)

    def park(self, bead_id: str, program: str, retry_at: str | None) -> datetime | None:
        """Until when it waits; None where it has been parked too often to go on like this."""
        turn = self.turns[bead_id] = self.turns.get(bead_id, 0) + 1
        if turn > MOST:
            return None
        said, now = moment_of(retry_at), datetime.now(UTC)
        first = UNKNOWN_SECONDS if said is None else KNOWN_SECONDS if turn > 1 else 0.0
        least = now + min(timedelta(seconds=first * 2 ** (turn - 1)), LONGEST)
        until = least if said is None else max(said, least)
        self.beads[bead_id] = until
        if program:
            self.programs[program] = max(until, self.programs.get(program, until))
        return until

    def remember(self, bead: Bead) -> None:
        """Parked by an earlier run."""
        said: Any = bead.metadata.to_json().get("parked") or {}
        until = moment_of(said.get("until"))
        if until is not None and until > datetime.now(UTC) and bead.id not in self.turns:
            self.turns[bead.id] = 1
            self.beads[bead.id] = until

    def lift(self) -> bool:
        """Forget what has passed; whether something has."""
        now, before = datetime.now(UTC), len(self.beads) + len(self.programs)
        self.beads = {name: until for name, until in self.beads.items() if until > now}
        self.programs = {name: until for name, until in self.programs.items() if until > now}
        return len(self.beads) + len(self.programs) < before

    def holds(self, bead_id: str, programs: Iterable[str]) -> bool:
        return bead_id in self.beads or any(name in self.programs for name in programs)

    def __bool__(self) -> bool:
        return bool(self.beads)

    def __str__(self) -> str:
        rows = sorted((until, name) for name, until in self.beads.items())
        return "; ".join(f"{name} waits until {until:%Y-%m-%dT%H:%M:%SZ}" for until, name in rows[:3])


def moment_of(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

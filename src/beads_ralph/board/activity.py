"""The last that agents were seen to do: the end of what each has printed, and since when it is silent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from beads_ralph.bead.words import moment_of, shortened, visible
from beads_ralph.board.signs import Activity
from beads_ralph.board.told import ToldBead
from beads_ralph.errors import RalphError
from beads_ralph.journal.journal import moment_text

END_BYTES: Final = 8192
"""So much of the end of a transcript is looked at."""
SILENT: Final = timedelta(minutes=5)
WORDS: Final = re.compile(r"\w")
"""A line of rules or fences alone tells nothing."""


@dataclass
class Watched:
    """The transcripts of what is at work; one that has not grown is not read again."""

    seen: dict[str, tuple[str, int, Activity]] = field(default_factory=dict)
    """Bead → its transcript, how large that was, and what was read off it."""

    def look(self, at_work: Mapping[str, ToldBead], now: datetime) -> dict[str, Activity]:
        found = {name: self._one(name, bead, now) for name, bead in at_work.items() if bead.transcript}
        self.seen = {name: self.seen[name] for name in found if name in self.seen}
        return found

    def _one(self, name: str, bead: ToldBead, now: datetime) -> Activity:
        path = str(bead.transcript)
        try:
            stat = Path(path).stat()
        except (OSError, ValueError):
            return Activity(at=bead.stage_since)
        old = self.seen.get(name)
        if old is not None and old[:2] == (path, stat.st_size):
            found = old[2]
        else:
            at = moment_text(datetime.fromtimestamp(stat.st_mtime, UTC))
            found = Activity(last_line(Path(path), bead.program), max(at, bead.stage_since))
            self.seen[name] = (path, stat.st_size, found)
        silent = _is_agents(bead) and _is_silent(found.at, now)
        return found if silent == found.silent else Activity(found.text, found.at, silent)


def _is_agents(bead: ToldBead) -> bool:
    """While checks run, nobody expects a word of the agent."""
    return any(step.state == "now" for step in bead.steps)


def _is_silent(at: str | None, now: datetime) -> bool:
    try:
        return at is not None and now - moment_of(at) > SILENT
    except ValueError:
        return False


def last_line(path: Path, program: str) -> str:
    """The last that can be read in a transcript, on one line; nothing in it that a terminal would obey."""
    from beads_ralph.agents.bead_outputs import OutputReader
    from beads_ralph.agents.transcript import as_text

    try:
        said = [
            as_text(line, 1)
            for line in OutputReader(path, path.with_suffix(".err"), program, END_BYTES).end()
        ]
    except (OSError, RalphError):
        return ""
    return next((visible(shortened(text)) for text in reversed(said) if WORDS.search(text)), "")

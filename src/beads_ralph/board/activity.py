"""The last that agents were seen to do: the end of what each has printed, and since when it is silent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.words import moment_of, shortened, visible
from beads_ralph.board.signs import Activity
from beads_ralph.board.told import ToldBead
from beads_ralph.journal.journal import moment_text

END_BYTES: Final = 8192
"""So much of the end of a transcript is looked at."""
SILENT: Final = timedelta(minutes=5)


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
            found = Activity(last_line(Path(path)), max(at, bead.stage_since))
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


def last_line(path: Path) -> str:
    """The last that can be read in a transcript, on one line; nothing in it that a terminal would obey."""
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, 2) - END_BYTES, 0))
            lines = file.read(END_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    told = (_told(line) for line in reversed(lines))
    return next((visible(shortened(text)) for text in told if text), "")


def _told(line: str) -> str:
    """The words in a line; of an event of a stream, the first text or tool in it."""
    text = line.strip()
    if not text.startswith("{"):
        return text
    try:
        return _words(json.loads(text))
    except (ValueError, RecursionError):
        return ""


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        if isinstance(value.get("name"), str) and isinstance(value.get("input"), Mapping):
            said = next((one for one in value["input"].values() if isinstance(one, str)), "")
            return f"{value['name']} {said}".strip()
        for key in ("text", "message", "content", "item", "part", "result", "command"):
            if found := _words(value.get(key)):
                return found
        return ""
    if isinstance(value, list):
        return next((found for one in value if (found := _words(one))), "")
    return value.strip() if isinstance(value, str) else ""

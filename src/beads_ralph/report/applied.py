"""Advice that was applied, and what became of it: the attempts before each change of a setting, and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.words import moment_of, utc_text
from beads_ralph.files import text_files
from beads_ralph.journal.records import Attempt
from beads_ralph.report.figures import RunGroup, money_text
from beads_ralph.report.tuning import Proposal

FILE: Final = "applied-advice.jsonl"
"""In the folder of the records: one line for each setting that was changed on advice."""
TOLD: Final = ("at", "key", "from", "to", "why")
FIGURES: Final = (
    *("first_attempts", "first_passed", "first_pass_rate"),
    *("cost_per_closed_usd", "attempts_per_closed"),
)


@dataclass
class AppliedAdvice:
    """One change of a setting, with the attempts that began before and after it."""

    at: datetime
    said: dict[str, Any]
    before: RunGroup = field(default_factory=RunGroup)
    after: RunGroup = field(default_factory=RunGroup)

    def add(self, attempt: Attempt) -> None:
        if attempt.started_at is not None:
            (self.after if attempt.started_at >= self.at else self.before).charge(attempt)

    def to_json(self) -> dict[str, Any]:
        sides = {"before": self.before.account(), "after": self.after.account()}
        return self.said | {name: {key: side[key] for key in FIGURES} for name, side in sides.items()}

    @property
    def text(self) -> str:
        """For people, in a line."""
        change = f"{self.said['key']}: {self.said['from']} → {self.said['to']} at {self.said['at']}"
        return f"{change}: before {_passed(self.before)}, after {_passed(self.after)}"


def _passed(side: RunGroup) -> str:
    rate, cost = side.first_pass, money_text(side.cost_per_closed)
    return f"{rate.hits} of {rate.of} passed at first, {cost} a closed bead"


def note(state: Path, found: Sequence[Proposal]) -> None:
    """Write down what is applied now."""
    place = state / FILE
    known = text_files.read_text(place) if place.is_file() else ""
    at = utc_text(datetime.now(UTC))
    rows = [{"at": at, "key": one.key, "from": one.now, "to": one.proposed, "why": one.why} for one in found]
    text_files.make_folder(place.parent, private=True)
    text_files.write_text(place, known + "".join(json.dumps(row) + "\n" for row in rows))


def applied(state: Path) -> list[AppliedAdvice]:
    """Everything that was applied, the oldest first; attempts are to be added."""
    place = state / FILE
    return list(_rows(text_files.read_text(place))) if place.is_file() else []


def adding(changes: Sequence[AppliedAdvice]) -> Callable[[Attempt], None]:
    """Adds an attempt to all of them."""

    def add(attempt: Attempt) -> None:
        for change in changes:
            change.add(attempt)

    return add


def _rows(text: str) -> Iterator[AppliedAdvice]:
    for line in text.splitlines():
        try:
            row = json.loads(line)
            yield AppliedAdvice(moment_of(row["at"]), {key: row.get(key) for key in TOLD})
        except (ValueError, KeyError, TypeError):
            continue

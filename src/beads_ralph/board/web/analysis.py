"""What the records of past runs teach, as `analyze` tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beads_ralph.bead.words import utc_text
from beads_ralph.config import workspace
from beads_ralph.journal import records
from beads_ralph.report import advice, tallied


def of(root: Path) -> dict[str, Any]:
    """The keys of `analyze --json`, without the rows behind them."""
    unreadable: list[dict[str, str]] = []

    def note(path: Path, why: str) -> None:
        unreadable.append({"file": str(path), "problem": why})

    tally = tallied(records.read_all(workspace.find(root).state, note), None)
    return {
        "generated_at": utc_text(datetime.now(UTC)),
        "statistics": tally.to_json(),
        "recommendations": [piece.to_json() for piece in advice.advice(tally)],
        "unreadable": unreadable,
    }

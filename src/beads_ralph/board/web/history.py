"""The runs of a repository, the newest first: how each ended, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from beads_ralph.journal import runs
from beads_ralph.journal.runs import RunFolder

END_BYTES: Final = 1 << 20
"""A run tells its end in one line, the last; with hundreds of beads it is long."""
MOST_RUNS: Final = 200


def runs_of(home: Path) -> list[dict[str, Any]]:
    folders = runs.folders(home)[-MOST_RUNS:]
    holder = runs.holder(home) if runs.is_running(home) else None
    now = holder.run_id if holder else None
    return [_told(folder, going=folder.run_id == now) for folder in reversed(folders)]


def _told(folder: RunFolder, *, going: bool) -> dict[str, Any]:
    first, last = _ends(folder.journal)
    over = last if last.get("kind") == "run_ended" else {}
    usage = _object(over.get("usage"))
    return {
        "id": folder.run_id,
        "started_at": first.get("at"),
        "ended_at": over.get("at"),
        "ended": over.get("ended") or ("running" if going else "killed"),
        "reason": over.get("reason") or ("" if going else "it told no end"),
        "closed": _length(over.get("closed")),
        "blocked": _length(over.get("blocked")),
        "attempts": over.get("attempts"),
        "seconds": over.get("duration_seconds"),
        "cost_usd": usage.get("cost_usd"),
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "pull_requests": _length(over.get("pull_requests")),
        "max_parallel": first.get("max_parallel"),
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, list) else None


def _ends(journal: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The first line and the last whole one, without reading what lies between."""
    try:
        with journal.open("rb") as file:
            first = file.readline(END_BYTES)
            file.seek(max(file.seek(0, 2) - END_BYTES, 0))
            lines = [line for line in file.read(END_BYTES).split(b"\n") if line.strip()]
    except OSError:
        return {}, {}
    return _row(first), _row(lines[-1]) if lines else {}


def _row(line: bytes) -> Mapping[str, Any]:
    try:
        return _object(json.loads(line))
    except (ValueError, RecursionError):
        return {}

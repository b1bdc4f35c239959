"""Attempts to analyse, made without any file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from beads_ralph.journal.records import Attempt

START = datetime(2026, 2, 11, 10, tzinfo=UTC)


def attempt(bead: str = "bd-1", **said: Any) -> Attempt:
    """One that succeeded in five minutes, unless it is said otherwise."""
    seconds = said.get("seconds", 300.0)
    started = said.pop("started_at", START)
    ended = started + timedelta(seconds=seconds) if started and seconds is not None else None
    values: dict[str, Any] = {
        "bead": bead,
        "attempt": 1,
        "status": "done",
        "agent": "claude",
        "model": "sonnet",
        "template": "feature",
        "started_at": started,
        "finished_at": None if said.get("status") == "running" else ended,
        "seconds": seconds,
        "max_retries": 3,
        "exit_code": 0,
        "failure_reason": None,
        "output_summary": "all green",
        "prompt": "Build the parser.",
        "will_retry": None if said.get("status") == "running" else False,
        "reason": "every check passed",
        "latest": True,
        "file": f"state/runs/{bead}.json",
        "extra": {},
    }
    return Attempt(**values | said)


def failed(bead: str = "bd-1", **said: Any) -> Attempt:
    given = {"status": "failed", "exit_code": 1, "failure_reason": "verifier-failed", "reason": "gave up"}
    return attempt(bead, **given | said)


def several(made: Any, count: int, prefix: str = "bd", **said: Any) -> list[Attempt]:
    return [made(f"{prefix}-{number}", **said) for number in range(count)]


def check(ruling: str, commit: str | None = "c0ffee", name: str = "unit tests") -> dict[str, Any]:
    return {"name": name, "kind": "verifier", "ruling": ruling, "command": "make test", "commit": commit}

"""How things stand, as a journal tells it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from beads_ralph.journal.events import Event

ENDS = ("bead_closed", "bead_blocked", "bead_released", "bead_parked")


def at_work(told: list[Event]) -> list[dict[str, Any]]:
    """The beads that were claimed and have not ended, each with its latest stage."""
    rows: dict[str, dict[str, Any]] = {}
    for event in told:
        if event.kind == "run_ended":
            rows.clear()
        if event.bead is None:
            continue
        if event.kind in ENDS:
            rows.pop(event.bead, None)
        elif event.kind == "bead_claimed":
            rows[event.bead] = {"bead": event.bead, "team": event.team, "since": event.at}
        if event.kind == "lease_taken" and event.bead in rows:
            lease = {key: event.data.get(key) for key in ("ports", "files", "setup")}
            rows[event.bead]["lease"] = lease
        elif event.bead in rows:
            rows[event.bead] |= {
                "stage": event.kind,
                "attempt": event.attempt or rows[event.bead].get("attempt"),
            }
            if event.kind == "agent_started":
                rows[event.bead] |= {"role": event.data.get("role"), "agent": event.data.get("agent")}
    return list(rows.values())


def parallel(told: list[Event]) -> dict[str, Any] | None:
    """How many beads may be at work at once, and how many where no program is at a limit."""
    found: dict[str, Any] | None = None
    for event in told:
        if event.kind == "run_started":
            most = event.data.get("max_parallel")
            found = {"now": most, "most": most}
        elif event.kind == "parallelism_changed":
            found = {"now": event.data.get("parallel"), "most": event.data.get("most")}
    return found


def unavailable(told: list[Event], now: str) -> list[dict[str, Any]]:
    """The programs that are not asked at the moment, and why."""
    rows: dict[Any, dict[str, Any]] = {}
    for event in told:
        program = event.data.get("program")
        if event.kind == "program_unavailable":
            rows[program] = {key: event.data.get(key) for key in ("program", "trouble", "until", "reason")}
        elif event.kind == "program_recovered":
            rows.pop(program, None)
    return [row for row in rows.values() if str(row["until"]) > now]


def lent(lease: Mapping[str, Any]) -> str:
    """What a worktree was lent, in a line."""
    ports, files, setup = lease["ports"], lease["files"], lease["setup"]
    last = ports["first"] + ports["count"] - 1 if ports else 0
    parts = [
        f"ports {ports['first']}-{last}" if ports else "",
        f"files {', '.join(files)}" if files else "",
        f"setup {setup}" if setup else "",
    ]
    return "lent: " + "; ".join(part for part in parts if part)


def elapsed(since: str) -> str:
    return f"{max((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds(), 0.0):.0f} s"

"""How things stand, as a journal tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from beads_ralph.bead.words import utc_text
from beads_ralph.cli.board import stage_of
from beads_ralph.journal.events import (
    AgentStarted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadParked,
    BeadReleased,
    Event,
    LeaseTaken,
    ParallelismChanged,
    ProgramRecovered,
    ProgramUnavailable,
    RunDraining,
    RunEnded,
    RunStarted,
    TeamAwaited,
    WorktreePrepared,
)
from beads_ralph.process import process_table, process_tree
from beads_ralph.process.jobs import RUN_ID

BEAD = "BEADS_RALPH_BEAD"
ENDS = {BeadClosed.kind: "completed", BeadBlocked.kind: "failed", BeadReleased.kind: "broken off"}


def at_work(told: Iterable[Event]) -> list[dict[str, Any]]:
    """The beads that were claimed and have not ended, each with its latest stage."""
    rows: dict[str, dict[str, Any]] = {}
    for event in told:
        match event:
            case RunEnded():
                rows.clear()
            case BeadClosed() | BeadBlocked() | BeadReleased() | BeadParked():
                rows.pop(event.bead or "", None)
            case BeadClaimed():
                rows[event.bead or ""] = {"bead": event.bead, "team": event.team, "since": event.at}
        if event.bead in rows:
            rows[event.bead] |= _stage(event, rows[event.bead])
    return list(rows.values())


def _stage(event: Event, row: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(event, LeaseTaken):
        lease = event.to_json()
        return {"lease": {key: lease[key] for key in ("ports", "files", "setup")}}
    stage = {"stage": event.kind, "attempt": event.attempt or row.get("attempt")}
    if isinstance(event, WorktreePrepared) and event.host:
        return stage | {"host": event.host}
    if isinstance(event, AgentStarted):
        call = event.call
        told = {"program": call.program, "session_of": call.session_of}
        return stage | {"role": call.role, "agent": call.agent} | told
    return stage


def awaiting_team(told: Iterable[Event]) -> list[dict[str, Any]]:
    """The beads that wait until another one of their team has ended."""
    rows: dict[str, dict[str, Any]] = {}
    for event in told:
        match event:
            case RunEnded():
                rows.clear()
            case TeamAwaited(by=other):
                rows[event.bead or ""] = {"bead": event.bead, "team": event.team, "by": other}
            case BeadClaimed():
                rows.pop(event.bead or "", None)
            case BeadClosed() | BeadBlocked() | BeadReleased() | BeadParked():
                rows = {name: row for name, row in rows.items() if row["by"] != event.bead}
    return list(rows.values())


def parallel(told: Iterable[Event]) -> dict[str, Any] | None:
    """How many beads may be at work at once, and how many where no program is at a limit."""
    found: dict[str, Any] | None = None
    for event in told:
        match event:
            case RunStarted(max_parallel=most):
                found = {"now": most, "most": most}
            case ParallelismChanged(parallel=now, most=most):
                found = {"now": now, "most": most}
    return found


def draining(told: Iterable[Event]) -> str | None:
    """Why nothing more is started, while what runs is finished."""
    found: str | None = None
    for event in told:
        match event:
            case RunDraining(reason=reason):
                found = reason
            case RunEnded():
                found = None
    return found


def orphans(run_id: str) -> list[dict[str, Any]]:
    """The processes of a dead run that are alive: agents and checks, each without what it started itself."""
    return [
        {
            "pid": one.pid,
            "run_id": run_id,
            "bead": process_table.variable_of(one.pid, BEAD) or None,
            "program": process_table.name_of(one.pid),
            "since": utc_text(datetime.fromtimestamp(one.began, UTC)),
        }
        for one in process_tree.topmost(RUN_ID, run_id)
    ]


def unavailable(told: Iterable[Event], now: str) -> list[dict[str, Any]]:
    """The programs that are not asked at the moment, and why."""
    rows: dict[str, ProgramUnavailable] = {}
    for event in told:
        match event:
            case ProgramUnavailable():
                rows[event.program] = event
            case ProgramRecovered():
                rows.pop(event.program, None)
    return [event.facts() for event in rows.values() if event.until > now]


def execution(bead: str, told: Sequence[Event], *, running: bool) -> dict[str, Any] | None:
    """How an execution stands; None for one that only looked. One that was killed has no end: it goes on
    when it is executed again."""
    if not any(isinstance(event, BeadClaimed) for event in told):
        return None
    if running and (now := at_work(told)):
        return now[0]
    last, attempt = told[-1], max(event.attempt or 0 for event in told)
    match last:
        case BeadClosed(reason=reason) | BeadBlocked(reason=reason) | BeadReleased(reason=reason):
            return {"bead": bead, "ended": ENDS[last.kind], "reason": reason, "attempt": attempt}
        case _:
            return {"bead": bead, "ended": None, "reason": None, "attempt": attempt}


def progress(row: Mapping[str, Any]) -> str:
    """What a bead is at, and for how long."""
    doing = stage_of(row["stage"], row.get("role"), row.get("agent"), row.get("program")) or row["stage"]
    seconds = (datetime.now(UTC) - datetime.fromisoformat(row["since"])).total_seconds()
    goes_on = f", in the session of {row['session_of']}" if row.get("session_of") else ""
    return f"attempt {row['attempt']}  {doing}{goes_on}  {max(seconds, 0.0):.0f} s"


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

"""The account of a run, from its journal alone: also of one that was killed, and of one that goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.usage import UNKNOWN, ProgramUse, Usage
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import journal, runs
from beads_ralph.journal.events import (
    AgentEnded,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadParked,
    BeadReleased,
    Event,
    ProposedBead,
    PullRequestOpened,
    RunEnded,
    RunStarted,
    VerdictGiven,
)
from beads_ralph.journal.runs import RunFolder

LATEST: Final = "latest"
RUNNING: Final = "running"
KILLED: Final = "killed"
"""How a run ended that could not tell."""
RESULTS: Final = {
    BeadClosed.kind: "closed",
    BeadBlocked.kind: "blocked",
    BeadReleased.kind: "released",
    BeadParked.kind: "parked",
}
LAST_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class BeadAccount:
    """What a run did with a bead."""

    id: str
    title: str = ""
    sprint: str = ""
    branch: str = ""
    result: str = "at work"
    """`closed`, `blocked`, `released`, `parked` or `at work`."""
    reason: str = ""
    attempts: int = 0
    usage: Usage = UNKNOWN
    pull_request: str = ""
    """Its address, or its branch."""


@dataclass(frozen=True)
class RunAccount:
    """What a run did, and how it ended."""

    run_id: str
    started_at: str = ""
    ended_at: str = ""
    """When its last event happened."""
    ended: str = KILLED
    """A word of docs/explanation/what-done-means.md, `running` or `killed`."""
    reason: str = ""
    beads: Mapping[str, BeadAccount] = field(default_factory=dict)
    attempts: int = 0
    usage: Usage = UNKNOWN
    programs: tuple[ProgramUse, ...] = ()
    pull_requests: tuple[ProposedBead, ...] = ()
    remarks: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        if not self.started_at:
            return 0.0
        begin, end = (datetime.fromisoformat(at) for at in (self.started_at, self.ended_at))
        return max((end - begin).total_seconds(), 0.0)

    def with_result(self, result: str) -> list[BeadAccount]:
        return [bead for bead in self.beads.values() if bead.result == result]

    def to_json(self) -> dict[str, Any]:
        """One row of `runs list`."""
        return {
            **{name: getattr(self, name) for name in ("run_id", "started_at", "ended_at", "ended", "reason")},
            "duration_seconds": round(self.seconds, 3),
            "closed": len(self.with_result("closed")),
            "blocked": len(self.with_result("blocked")),
            "attempts": self.attempts,
            "usage": vars(self.usage),
        }


# --- from the journal ---------------------------------------------------------------------------------


def account_of(folder: RunFolder) -> RunAccount:
    """Read the whole journal of a run."""
    return account(folder.run_id, journal.read(folder.journal), running=is_running(folder))


def is_running(folder: RunFolder) -> bool:
    """Tell whether it is this run that goes on now."""
    return runs.is_running(folder.home) and folder == runs.latest(folder.home)


def account(run_id: str, told: Iterable[Event], *, running: bool = False) -> RunAccount:
    """Put the events of a run together; what a later run derived of one that was killed is not its own."""
    found = RunAccount(run_id, ended=RUNNING if running else KILLED)
    beads: dict[str, BeadAccount] = {}
    used: dict[tuple[str, str], ProgramUse] = {}
    pulls: list[ProposedBead] = []
    for event in told:
        found = replace(found, started_at=found.started_at or event.at, ended_at=event.at)
        if isinstance(event, RunEnded):
            found = _ended(found, event)
        elif event.bead is not None and event.derived is None:
            beads[event.bead] = _bead(beads.get(event.bead) or BeadAccount(event.bead), event)
            if isinstance(event, AgentEnded):
                _count(used, event)
            elif isinstance(event, PullRequestOpened):
                pulls.append(_pull(event))
    whole = sum((bead.usage for bead in beads.values()), UNKNOWN)
    return replace(
        found,
        beads=beads,
        attempts=found.attempts or sum(bead.attempts for bead in beads.values()),
        usage=found.usage if found.usage != UNKNOWN else whole,
        programs=found.programs or tuple(used.values()),
        pull_requests=found.pull_requests or tuple(pulls),
    )


def _ended(found: RunAccount, event: RunEnded) -> RunAccount:
    return replace(
        found,
        ended=event.ended,
        reason=event.reason,
        attempts=event.attempts,
        usage=event.usage or UNKNOWN,
        programs=event.programs,
        pull_requests=event.pull_requests,
        remarks=event.remarks,
        next=event.next,
    )


def _bead(bead: BeadAccount, event: Event) -> BeadAccount:
    match event:
        case BeadClaimed(title=title, sprint=sprint, branch=branch):
            begun = replace(bead, title=title, sprint=sprint or "", branch=branch)
            return replace(begun, result="at work", reason="")
        case BeadClosed() | BeadBlocked() | BeadReleased() | BeadParked():
            return replace(bead, result=RESULTS[event.kind], reason=event.reason)
        case PullRequestOpened(url=url, branch=branch):
            return replace(bead, pull_request=url or branch)
        case AgentEnded() | VerdictGiven():
            used = event.call.usage if isinstance(event, AgentEnded) else UNKNOWN
            attempts = max(bead.attempts, event.attempt or 0)
            return replace(bead, usage=bead.usage + used, attempts=attempts)
        case _:
            return bead


def _count(used: dict[tuple[str, str], ProgramUse], event: AgentEnded) -> None:
    call = event.call
    before = used.get((call.program, call.model)) or ProgramUse(call.program, call.model)
    used[call.program, call.model] = replace(
        before,
        calls=before.calls + 1,
        usage=before.usage + call.usage,
        cost_computed=before.cost_computed or call.cost_computed,
    )


def _pull(event: PullRequestOpened) -> ProposedBead:
    facts = (event.number, event.url, event.branch, event.target, event.commit)
    return ProposedBead(event.bead or "", *facts)


# --- many runs ----------------------------------------------------------------------------------------


def summaries(home: Path) -> Iterator[dict[str, Any]]:
    """A row for each run, oldest first. Of a run that told its end only the ends of its journal are read."""
    for folder in runs.folders(home):
        first, last = _first(folder.journal), _last(folder.journal)
        if isinstance(last, RunEnded) and isinstance(first, RunStarted):
            known = _ended(RunAccount(folder.run_id, first.at, last.at), last)
            yield known.to_json() | {"closed": len(last.closed), "blocked": len(last.blocked)}
        else:
            yield account_of(folder).to_json()


def _first(path: Path) -> Event | None:
    return next(journal.read(path), None)


def _last(path: Path) -> Event | None:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - LAST_BYTES, 0))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return None
    return journal.parsed(lines[-1].decode("utf-8", "replace")) if lines else None


# --- by name ------------------------------------------------------------------------------------------


def run_named(home: Path, name: str) -> RunFolder:
    """The run of that id, the only one whose id begins so, or `latest`."""
    if name == LATEST:
        return runs.require_latest(home)
    found = [folder for folder in runs.folders(home) if folder.run_id.startswith(name)]
    exact = [folder for folder in found if folder.run_id == name]
    if len(exact or found) == 1 and name:
        return (exact or found)[0]
    ids = ", ".join(folder.run_id for folder in found[:5])
    message = f"{len(found)} runs begin with {name}: {ids}" if found else f"there is no run {name}"
    raise RalphError(
        Code.FILE_NOT_FOUND, message, suggested_action="See what there is: beads-ralph runs list"
    )

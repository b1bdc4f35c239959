"""What can happen in a run: one frozen dataclass per kind of event.

A line of the journal has `kind`, `at` and `run_id`, then `bead`, `team` and `attempt` where they apply, then
the fields of its class under their own names. A field that an older version did not write gets its default;
kinds and fields of a later version are kept as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Self, TypeAlias, get_args

from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import BEGUN, UNTOLD, AgentCall
from beads_ralph.bead.evidence import Evidence, Ruling
from beads_ralph.bead.json_fields import FieldError, seldom, unwritten
from beads_ralph.bead.names import ItemBrief
from beads_ralph.journal.base_event import STAMP, WHOSE, BaseEvent
from beads_ralph.process.ports import LentPorts

CALL: Final = frozenset(one.name for one in fields(AgentCall))


# --- the run ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunStarted(BaseEvent):
    kind = "run_started"
    max_parallel: int
    actor: str


@dataclass(frozen=True, kw_only=True)
class StraysEnded(BaseEvent):
    kind = "strays_ended"
    pids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RunPaused(BaseEvent):
    kind = "run_paused"


@dataclass(frozen=True, kw_only=True)
class RunResumed(BaseEvent):
    kind = "run_resumed"


@dataclass(frozen=True, kw_only=True)
class RunDraining(BaseEvent):
    kind = "run_draining"
    reason: str
    running: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ParallelismChanged(BaseEvent):
    kind = "parallelism_changed"
    parallel: int
    most: int


@dataclass(frozen=True)
class WaitingFor:
    """A gate or a person's step that holds beads up."""

    id: str
    type: str
    gate: str | None
    title: str
    state: str
    reason: str
    beads: tuple[str, ...]
    command: str | None


@dataclass(frozen=True, kw_only=True)
class RunWaiting(BaseEvent):
    kind = "run_waiting"
    gates: tuple[WaitingFor, ...]


@dataclass(frozen=True, kw_only=True)
class ItemsSettled(BaseEvent):
    kind = "items_settled"
    closed: tuple[ItemBrief, ...]
    reopened: tuple[ItemBrief, ...]


@dataclass(frozen=True)
class BlockedId:
    id: str
    reason: str


@dataclass(frozen=True)
class ProposedBead:
    """A bead and its pull request."""

    bead: str
    number: int | None
    url: str | None
    branch: str
    target: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class RunEnded(BaseEvent):
    kind = "run_ended"
    ended: str
    reason: str
    closed: tuple[str, ...]
    blocked: tuple[BlockedId, ...]
    waiting_for: tuple[WaitingFor, ...]
    finished: tuple[ItemBrief, ...]
    left_for_people: tuple[ItemBrief, ...]
    pull_requests: tuple[ProposedBead, ...]
    attempts: int
    duration_seconds: float


@dataclass(frozen=True, kw_only=True)
class WarningGiven(BaseEvent):
    kind = "warning_given"
    message: str
    commit: str | None = seldom(None)


# --- a bead -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BeadClaimed(BaseEvent):
    kind = "bead_claimed"
    title: str
    bead_kind: str
    sprint: str | None = seldom(None)
    plan_file: str
    branch: str
    template: str | None = None
    max_attempts: int


@dataclass(frozen=True, kw_only=True)
class AttemptInterrupted(BaseEvent):
    kind = "attempt_interrupted"
    holder: str


@dataclass(frozen=True, kw_only=True)
class WorktreePrepared(BaseEvent):
    kind = "worktree_prepared"
    underway = True
    path: str
    branch: str
    conflict: str


@dataclass(frozen=True, kw_only=True)
class LeaseTaken(BaseEvent):
    kind = "lease_taken"
    ports: LentPorts | None
    files: tuple[str, ...]
    setup: str | None
    seconds: float | None = seldom(None)


@dataclass(frozen=True, kw_only=True)
class BaselineTaken(BaseEvent):
    kind = "baseline_taken"
    underway = True
    red: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ConflictForeseen(BaseEvent):
    kind = "conflict_foreseen"
    underway = True
    other: str
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PullRequestOpened(BaseEvent):
    kind = "pull_request_opened"
    number: int | None
    url: str | None
    branch: str
    target: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class BeadClosed(BaseEvent):
    kind = "bead_closed"
    reason: str


@dataclass(frozen=True, kw_only=True)
class BeadBlocked(BaseEvent):
    kind = "bead_blocked"
    reason: str
    failure_reason: str | None = seldom(None)


@dataclass(frozen=True, kw_only=True)
class BeadReleased(BaseEvent):
    kind = "bead_released"
    reason: str
    cancelled: bool = seldom(False)


@dataclass(frozen=True, kw_only=True)
class BeadParked(BaseEvent):
    kind = "bead_parked"
    reason: str
    until: str


# --- agents and their programs ------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CallEvent(BaseEvent):
    """An event whose fields are those of a call."""

    told: ClassVar[frozenset[str]]
    underway = True
    call: AgentCall

    def facts(self) -> dict[str, Any]:
        said = json_fields.to_json(self.call)
        return {key: value for key, value in said.items() if key in self.told} | dict(self.extra)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        call = {key: value for key, value in row.items() if key in CALL}
        rest = {key: value for key, value in row.items() if key not in CALL or key in WHOSE}
        return super().from_row({**rest, "call": call})


@dataclass(frozen=True, kw_only=True)
class AgentStarted(CallEvent):
    kind = "agent_started"
    told = BEGUN - {"attempt"}
    prompt: str = unwritten("")
    """Too long for a line of the journal."""


@dataclass(frozen=True, kw_only=True)
class AgentEnded(CallEvent):
    kind = "agent_ended"
    told = CALL - UNTOLD - {"attempt"}


@dataclass(frozen=True, kw_only=True)
class ProgramUnavailable(BaseEvent):
    kind = "program_unavailable"
    program: str
    trouble: str
    until: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ProgramReplaced(BaseEvent):
    kind = "program_replaced"
    role: str
    agent: str
    program: str
    by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ProgramRecovered(BaseEvent):
    kind = "program_recovered"
    program: str


# --- checks and gates ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class VerifierEnded(BaseEvent):
    kind = "verifier_ended"
    underway = True
    name: str
    ruling: Ruling
    exit_code: int | None
    seconds: float
    commit: str
    stage: str


@dataclass(frozen=True, kw_only=True)
class VerdictGiven(BaseEvent):
    kind = "verdict_given"
    program: str | None = seldom(None)
    role: str | None = seldom(None)
    ruling: Ruling
    message: str
    flags: tuple[str, ...]
    will_retry: bool
    checks: tuple[Evidence, ...]

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "checks": [one.summary() for one in self.checks]}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        checks = row.get("checks") or ()
        return super().from_row({**row, "checks": [Evidence.of_summary(one) for one in checks]})


@dataclass(frozen=True, kw_only=True)
class GateChecked(BaseEvent):
    kind = "gate_checked"
    ruling: Ruling
    message: str
    commit: str
    source: str


@dataclass(frozen=True, kw_only=True)
class GatesOverridden(BaseEvent):
    kind = "gates_overridden"
    gates: tuple[str, ...]
    by: str


@dataclass(frozen=True, kw_only=True)
class GatePassed(BaseEvent):
    kind = "gate_passed"
    gate: str
    title: str
    reason: str
    beads: tuple[str, ...]


# --- all of them --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class UnknownEvent(BaseEvent):
    """An event of a later version, or one that somebody spoiled; `extra` has all of its fields."""

    kind: str  # type: ignore[misc]

    def facts(self) -> dict[str, Any]:
        return dict(self.extra)


Known: TypeAlias = (
    RunStarted | StraysEnded | RunPaused | RunResumed | RunDraining | ParallelismChanged | RunWaiting
    | ItemsSettled | RunEnded | WarningGiven
    | BeadClaimed | AttemptInterrupted | WorktreePrepared | LeaseTaken | BaselineTaken | ConflictForeseen
    | PullRequestOpened | BeadClosed | BeadBlocked | BeadReleased | BeadParked
    | AgentStarted | AgentEnded | ProgramUnavailable | ProgramReplaced | ProgramRecovered
    | VerifierEnded | VerdictGiven | GateChecked | GatesOverridden | GatePassed
)  # fmt: skip
Event: TypeAlias = Known | UnknownEvent
KINDS: Final[Mapping[str, type[Known]]] = {one.kind: one for one in get_args(Known)}


def event_of(row: Mapping[str, Any]) -> Event:
    """A line of the journal, read back; without its kind or its stamp it is none."""
    for name in STAMP:
        if not isinstance(row.get(name), str):
            raise FieldError(name, "is not a text")
    known = KINDS.get(row["kind"])
    try:
        return known.from_row(row) if known else _unknown(row)
    except FieldError:
        return _unknown(row)


def _unknown(row: Mapping[str, Any]) -> UnknownEvent:
    whose = {name: row[name] for name in WHOSE if name in row and isinstance(row[name], TYPES[name])}
    stamp = {name: row[name] for name in STAMP}
    rest = {key: value for key, value in row.items() if key not in stamp and key not in whose}
    return UnknownEvent(**stamp, **whose, extra=rest)


TYPES: Final[Mapping[str, type]] = {"bead": str, "team": str, "attempt": int}

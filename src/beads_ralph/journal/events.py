"""What can happen in a run: one frozen dataclass per kind of event.

A line of the journal has `kind`, `at` and `run_id`, then `bead`, `team` and `attempt` where they apply, then
the fields of its class under their own names. A field that an older version did not write gets its default;
kinds and fields of a later version are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Self, TypeAlias, dataclass_transform, get_args

from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import BEGUN, UNTOLD, AgentCall
from beads_ralph.bead.evidence import Evidence, Ruling
from beads_ralph.bead.json_fields import FieldError, seldom, unwritten
from beads_ralph.bead.names import ItemBrief
from beads_ralph.bead.standing import Standing
from beads_ralph.bead.usage import ProgramUse, Usage
from beads_ralph.process.ports import LentPorts

CALL: Final = frozenset(one.name for one in fields(AgentCall))
STAMP: Final = ("kind", "at", "run_id")
WHOSE: Final[Mapping[str, type]] = {"bead": str, "team": str, "attempt": int}


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Frozen:
    """Makes a frozen dataclass of every class below it, whose kind is its name in small letters."""

    kind: ClassVar[str]
    underway: ClassVar[bool] = False
    """Whether it lies between two changes of a bead; the next change takes it to the disk with it."""

    def __init_subclass__(cls, *, underway: bool | None = None) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.underway = cls.underway if underway is None else underway
        cls.__doc__ = cls.__doc__ or cls.__name__  # or its signature is written out, which takes a while
        dataclass(frozen=True, kw_only=True, repr=False, eq=False)(cls)

    # As a dataclass has them, but once for all kinds: making them is a good part of every start.

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({said})"


class BaseEvent(Frozen):
    """What every event says."""

    at: str = ""
    """The journal says when it is written, unless somebody elsewhere has said it already."""
    run_id: str = ""
    bead: str | None = None
    team: str | None = None
    attempt: int | None = None
    derived: str | None = seldom(None)
    """The run that was killed before it could tell this; a later one has derived it from the store."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a later version."""

    def to_json(self) -> dict[str, Any]:
        """A line of the journal."""
        whose = {name: getattr(self, name) for name in WHOSE if getattr(self, name) is not None}
        return {"kind": self.kind, "at": self.at, "run_id": self.run_id, **whose, **self.facts()}

    def facts(self) -> dict[str, Any]:
        """The fields of its own."""
        said = json_fields.to_json(self)
        return {key: value for key, value in said.items() if key not in (*STAMP, *WHOSE)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return json_fields.from_json(cls, {key: value for key, value in row.items() if key != "kind"})


# --- the run ------------------------------------------------------------------------------------------


class RunStarted(BaseEvent):
    max_parallel: int
    actor: str
    sandbox: str = seldom("")
    """What agents and checks are sandboxed with, `none` for nothing; empty in journals of older versions."""
    sandbox_note: str = seldom("")
    """Why there is no sandbox, what that means, and how to get one; empty where there is one."""
    check_rooms: str = seldom("")
    """What checks get rooms of their own by; `none` where they get none."""
    pushes_to: str = seldom("")
    """The remote and its address that finished branches are pushed to; empty where nothing is pushed."""


class StraysEnded(BaseEvent):
    pids: tuple[int, ...]


class RunPaused(BaseEvent):
    pass


class RunResumed(BaseEvent):
    pass


class RunDraining(BaseEvent):
    reason: str
    running: tuple[str, ...]


class ParallelismChanged(BaseEvent):
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


class RunWaiting(BaseEvent):
    gates: tuple[WaitingFor, ...]


class ItemsSettled(BaseEvent):
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


@dataclass(frozen=True)
class RedGate:
    """A gate of the repository whose checks fail."""

    id: str
    reason: str
    overridden_by: str | None = None
    """Who let features start all the same."""


@dataclass(frozen=True)
class PullConflict:
    """Two pull requests that cannot both be merged as they are."""

    beads: tuple[str, ...]
    branches: tuple[str, ...]
    files: tuple[str, ...]


class RunEnded(BaseEvent):
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
    standing: Mapping[str, str] | None = seldom(None)
    """By bead that was closed."""
    flags: Mapping[str, Any] | None = seldom(None)
    """By bead that was closed, what a person should know of it."""
    remarks: tuple[str, ...] = seldom(())
    """What a person should look at, besides beads."""
    red_gates: tuple[RedGate, ...] = seldom(())
    usage: Usage | None = seldom(None)
    """Tokens and money, as far as the programs tell; None in journals of older versions."""
    programs: tuple[ProgramUse, ...] = seldom(())
    """The same by program and model."""
    conflicts: tuple[PullConflict, ...] = seldom(())
    next: tuple[str, ...] = seldom(())
    """The commands that go on from there."""


class WarningGiven(BaseEvent):
    message: str
    commit: str | None = seldom(None)


# --- a bead -------------------------------------------------------------------------------------------


class BeadClaimed(BaseEvent):
    title: str
    bead_kind: str
    sprint: str | None = seldom(None)
    plan_file: str
    branch: str
    template: str | None = None
    max_attempts: int
    asks: str = seldom("")
    """A hash of what the bead asks for; empty in journals of older versions, and of `exec`."""


class TeamAwaited(BaseEvent):
    by: str
    """The bead that its team is at work on."""


class AttemptInterrupted(BaseEvent):
    holder: str


class WorktreePrepared(BaseEvent, underway=True):
    path: str
    branch: str
    conflict: str
    host: str = seldom("")
    """The machine where it is, if that is not the loop's."""


class LeaseTaken(BaseEvent):
    ports: LentPorts | None
    files: tuple[str, ...]
    setup: str | None
    seconds: float | None = seldom(None)


class BaselineTaken(BaseEvent, underway=True):
    red: tuple[str, ...]
    opened: int | None = seldom(None)
    read: tuple[str, ...] = seldom(())
    unwatched: str | None = seldom(None)
    taken_for: str | None = seldom(None)


class ConflictForeseen(BaseEvent, underway=True):
    other: str
    files: tuple[str, ...]


class PullRequestOpened(BaseEvent):
    number: int | None
    url: str | None
    branch: str
    target: str
    commit: str


class BeadClosed(BaseEvent):
    reason: str
    standing: Standing | None = seldom(None)


class BeadBlocked(BaseEvent):
    reason: str
    failure_reason: str | None = seldom(None)


class BeadReleased(BaseEvent):
    reason: str
    cancelled: bool = seldom(False)


class BeadReopened(BaseEvent):
    reason: str


class BeadParked(BaseEvent):
    reason: str
    until: str


# --- agents and their programs ------------------------------------------------------------------------


class CallEvent(BaseEvent, underway=True):
    """An event whose fields are those of a call."""

    told: ClassVar[frozenset[str]]
    call: AgentCall

    def facts(self) -> dict[str, Any]:
        said = {key: value for key, value in json_fields.to_json(self.call).items() if key in self.told}
        late = {} if self.derived is None else {"derived": self.derived}
        return said | late | dict(self.extra)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        call = {key: value for key, value in row.items() if key in CALL}
        rest = {key: value for key, value in row.items() if key not in CALL or key in WHOSE}
        return super().from_row({**rest, "call": call})


class AgentStarted(CallEvent):
    told = BEGUN - {"attempt"}
    prompt: str = unwritten("")
    """Too long for a line of the journal."""


class AgentEnded(CallEvent):
    told = CALL - UNTOLD - {"attempt"}


class ProgramUnavailable(BaseEvent):
    program: str
    trouble: str
    until: str
    reason: str
    todo: str = seldom("")
    """The one thing that a person can do, told when it is met for the first time."""
    gives_up_at: str | None = seldom(None)
    """When the patience with an outage ends, and the run with it."""


class ProgramReplaced(BaseEvent):
    role: str
    agent: str
    program: str
    by: str
    reason: str


class ProgramRecovered(BaseEvent):
    program: str


# --- checks and gates ---------------------------------------------------------------------------------


class VerifierEnded(BaseEvent, underway=True):
    name: str
    ruling: Ruling
    exit_code: int | None
    seconds: float
    commit: str
    stage: str


class ReviewGiven(BaseEvent, underway=True):
    seat: int
    told: str
    check: Evidence
    flags: tuple[str, ...] = ()


class VerdictGiven(BaseEvent):
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


class GateChecked(BaseEvent):
    ruling: Ruling
    message: str
    commit: str
    source: str


class GatesOverridden(BaseEvent):
    gates: tuple[str, ...]
    by: str


class GatePassed(BaseEvent):
    gate: str
    title: str
    reason: str
    beads: tuple[str, ...]


# --- all of them --------------------------------------------------------------------------------------


class UnknownEvent(BaseEvent):
    """An event of a later version, or one that somebody spoiled; `extra` has all of its fields."""

    kind: str  # type: ignore[misc]

    def facts(self) -> dict[str, Any]:
        return dict(self.extra)


Known: TypeAlias = (
    RunStarted | StraysEnded | RunPaused | RunResumed | RunDraining | ParallelismChanged | RunWaiting
    | ItemsSettled | RunEnded | WarningGiven
    | BeadClaimed | TeamAwaited | AttemptInterrupted | WorktreePrepared | LeaseTaken | BaselineTaken
    | ConflictForeseen | PullRequestOpened | BeadClosed | BeadBlocked | BeadReleased | BeadReopened
    | BeadParked
    | AgentStarted | AgentEnded | ProgramUnavailable | ProgramReplaced | ProgramRecovered
    | VerifierEnded | ReviewGiven | VerdictGiven | GateChecked | GatesOverridden | GatePassed
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
    whose = {name: row[name] for name in WHOSE if name in row and isinstance(row[name], WHOSE[name])}
    stamp = {name: row[name] for name in STAMP}
    rest = {key: value for key, value in row.items() if key not in stamp and key not in whose}
    return UnknownEvent(**stamp, **whose, extra=rest)

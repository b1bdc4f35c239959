"""What a board shows: one run and its beads, as plain values that become JSON.

Times are written as the journal writes them, never as ages: a value changes only when something happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from beads_ralph.bead import json_fields

StageName = Literal["developed", "checked", "reviewed", "proposed", "closed"]
PIPELINE: Final[tuple[StageName, ...]] = ("developed", "checked", "reviewed", "proposed", "closed")
StageState = Literal["waits", "now", "done", "failed"]
Lane = Literal["running", "next", "done"]
RunMode = Literal["none", "running", "paused", "draining", "ended", "dead"]
"""none: nothing ran here yet. dead: it has told no end, and its process is gone."""
AttentionKind = Literal[
    "interrupted", "stalled", "budget", "person", "gate_red", "blocked", "failed_twice", "limited",
    "plan_differs", "unreadable", "flagged",
]  # fmt: skip
URGENCY: Final[tuple[AttentionKind, ...]] = (
    "interrupted",
    "stalled",
    "budget",
    "person",
    "gate_red",
    "blocked",
    "failed_twice",
    "limited",
    "plan_differs",
    "unreadable",
    "flagged",
)
"""What needs a person first."""
WaitKind = Literal["bead", "gate", "person", "limit", "team", "missing", "run"]


@dataclass(frozen=True)
class SubStep:
    """One thing done for a stage: an agent's call, a check, a worktree."""

    name: str
    state: StageState
    at: str
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True)
class StageLine:
    """A stage of the pipeline in the present attempt."""

    name: StageName
    state: StageState
    seconds: float | None = None
    steps: tuple[SubStep, ...] = ()


@dataclass(frozen=True)
class AttemptLine:
    """An attempt of this run that is over."""

    attempt: int
    ruling: str
    message: str
    at: str
    checks: tuple[str, ...] = ()
    """Those that failed."""


@dataclass(frozen=True)
class WaitLine:
    """A reason why a bead has not begun."""

    kind: WaitKind
    text: str
    ids: tuple[str, ...] = ()
    until: str | None = None
    command: str | None = None


@dataclass(frozen=True)
class BoardBead:
    """A bead as a board shows it."""

    id: str
    number: str
    """The sprint's id in the plan, such as `1.2a`."""
    title: str
    phase: str
    status: str
    lane: Lane
    team: str = ""
    branch: str = ""
    depends_on: tuple[str, ...] = ()
    wave: int = 0
    """Counted from 1; 0 of one that hangs on a circle."""
    critical: bool = False
    priority: int = 1
    kind: str = "work"
    stage: str = ""
    """What it is at, in a word or two."""
    pipeline: tuple[StageLine, ...] = ()
    attempt: int = 0
    max_attempts: int = 0
    attempts: tuple[AttemptLine, ...] = ()
    last_failure: str = ""
    role: str = ""
    agent: str = ""
    program: str = ""
    model: str = ""
    host: str = ""
    """The machine that it is worked on, where that is another one."""
    transcript: str | None = None
    since: str | None = None
    """When it was taken up."""
    stage_since: str | None = None
    ended_at: str | None = None
    last_activity: str = ""
    last_activity_at: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    waits: tuple[WaitLine, ...] = ()
    pull_request: str | None = None
    standing: str | None = None
    flags: tuple[str, ...] = ()
    reason: str = ""
    """Why it was closed, blocked or given back."""


@dataclass(frozen=True)
class Attention:
    """One thing that a person should look at, the most urgent first."""

    kind: AttentionKind
    text: str
    bead: str | None = None
    since: str | None = None
    until: str | None = None
    command: str | None = None
    """What to type about it."""
    orders: tuple[str, ...] = ()
    """The actions that may settle it, the likeliest first."""


@dataclass(frozen=True)
class RunProgram:
    """A program that is not asked now."""

    program: str
    reason: str
    until: str


@dataclass(frozen=True)
class RunForecast:
    """When what can go on without a person will probably be done."""

    done_at: str
    earliest: str
    latest: str
    """Eight of ten times it is between these two."""
    attempts: int
    """Of the past, from which that was drawn."""


@dataclass(frozen=True)
class BoardRun:
    """The run that a board looks at."""

    id: str | None
    mode: RunMode
    words: str
    """Its state for people: `running`, `paused`, `done: every bead is closed`."""
    store: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    end: str | None = None
    seconds: float | None = None
    workers: int = 0
    parallel: int | None = None
    most: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    budget_minutes: float | None = None
    counts: dict[str, int] | None = None
    """Beads by status."""
    programs: tuple[RunProgram, ...] = ()
    pull_requests: tuple[str, ...] = ()
    next_commands: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    forecast: RunForecast | None = None
    """While it runs, and where the past says enough."""
    broken_lines: int = 0
    """Lines of the journal that nobody can read."""
    problem: str = ""
    """Why the store cannot be read, where it cannot."""


@dataclass(frozen=True)
class BoardState:
    """All of it. `running`, `next` and `done` are the ids of `beads`, each in the order to show them in."""

    seq: int
    run: BoardRun
    attention: tuple[Attention, ...] = ()
    running: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    beads: tuple[BoardBead, ...] = ()

    def bead(self, bead_id: str) -> BoardBead | None:
        return next((bead for bead in self.beads if bead.id == bead_id), None)

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = json_fields.to_json(self)
        return found

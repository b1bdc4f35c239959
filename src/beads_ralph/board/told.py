"""What a journal has told so far: a run and its beads, as they grow line by line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from beads_ralph.board.model import AttemptLine, StageName

Row: TypeAlias = Mapping[str, Any]
"""A line of a journal, as it was written."""
REMARKS_KEPT: Final = 50


@dataclass(slots=True)
class ToldStep:
    """One thing done in the present attempt."""

    stage: StageName
    name: str
    state: str
    at: str
    seconds: float | None = None
    note: str = ""


@dataclass(slots=True)
class ToldBead:
    """A bead, as far as this run has told of it."""

    id: str
    revision: int = 0
    """Counts its changes."""
    title: str = ""
    number: str = ""
    kind: str = ""
    team: str = ""
    branch: str = ""
    host: str = ""
    at_work: bool = False
    since: str = ""
    stage: str = ""
    stage_since: str = ""
    attempt: int = 0
    max_attempts: int = 0
    role: str = ""
    agent: str = ""
    program: str = ""
    model: str = ""
    transcript: str | None = None
    steps: list[ToldStep] = field(default_factory=list)
    attempts: list[AttemptLine] = field(default_factory=list)
    failures: int = 0
    last_failure: str = ""
    trouble: str = ""
    ended: str = ""
    ended_at: str = ""
    reason: str = ""
    failure_reason: str = ""
    until: str | None = None
    awaits: str | None = None
    pull_request: str | None = None
    standing: str | None = None
    flags: tuple[str, ...] = ()
    tokens: int | None = None
    cost_usd: float | None = None
    interrupted: str = ""


@dataclass(slots=True)
class Told:
    """All that a journal has told."""

    beads: dict[str, ToldBead] = field(default_factory=dict)
    run_id: str = ""
    started_at: str = ""
    last_at: str = ""
    paused: bool = False
    draining: str = ""
    parallel: int | None = None
    most: int | None = None
    waiting: tuple[Mapping[str, Any], ...] = ()
    unavailable: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    red_gates: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Gate → why it is red, and since when."""
    end: Mapping[str, Any] | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    remarks: list[str] = field(default_factory=list)
    store_changes: int = 0
    """Counts what may have changed the store."""
    spoiled: int = 0

    def remark(self, text: str) -> None:
        self.remarks.append(text)
        del self.remarks[:-REMARKS_KEPT]

"""What a plan says, each value with the line it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from beads_ralph.errors import Fault
from beads_ralph.models import AgentSpec, TemplateName
from beads_ralph.sprints import SprintId

T = TypeVar("T")


@dataclass(frozen=True)
class At(Generic[T]):
    """A value and its line number, counted from 1."""

    value: T
    line: int


@dataclass(frozen=True)
class Check:
    """A command that proves the sprint."""

    name: str
    command: str


@dataclass(frozen=True)
class Sprint:
    """One `### Sprint` section. A field that the section does not have is None or empty."""

    id: SprintId
    title: str
    heading: str
    line: int
    annotation: At[str] | None = None
    description: str = ""
    notes: tuple[str, ...] = ()
    worktree: At[str] | None = None
    branch: At[str] | None = None
    source_branch: At[str] | None = None
    dev_agents: tuple[At[AgentSpec], ...] = ()
    qa_agents: tuple[At[AgentSpec], ...] = ()
    tasks: tuple[At[str], ...] = ()
    criteria: tuple[At[str], ...] = ()
    team: At[str] | None = None
    bead_name: At[str] | None = None
    type: At[str] | None = None
    branches_to_merge: tuple[At[str], ...] = ()
    depends_on: tuple[At[str], ...] = ()
    labels: tuple[At[str], ...] = ()
    priority: At[int] | None = None
    verify: tuple[At[Check], ...] = ()
    formula: At[str] | None = None
    template: At[TemplateName] | None = None
    status: At[str] | None = None


@dataclass(frozen=True)
class Struck:
    """A sprint that its author struck out: not compiled, but known by name."""

    id: SprintId
    line: int


@dataclass(frozen=True)
class Phase:
    """A `## Phase` heading."""

    phase: str
    title: str
    line: int


@dataclass(frozen=True)
class Plan:
    """A parsed plan: its sprints in the order written, and everything wrong with it."""

    file: str
    sprints: tuple[Sprint, ...] = ()
    struck: tuple[Struck, ...] = ()
    phases: tuple[Phase, ...] = ()
    front_matter: At[Mapping[str, Any]] | None = None
    front_matter_lines: Mapping[str, int] = field(default_factory=dict)
    faults: tuple[Fault, ...] = field(default=())
    warnings: tuple[Fault, ...] = field(default=())

    def sprint(self, sprint_id: str) -> Sprint | None:
        return next((sprint for sprint in self.sprints if sprint.id.text == sprint_id), None)

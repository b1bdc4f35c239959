"""A parsed plan: every value with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from beads_ralph.bead.model import AgentSpec, TemplateName
from beads_ralph.bead.names import SprintId
from beads_ralph.errors import Fault

T = TypeVar("T")


class LabelError(Exception):
    """A value that a field cannot have; becomes a Fault at the field's place."""

    def __init__(self, message: str, line: int, action: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.action = action


@dataclass(frozen=True)
class At(Generic[T]):
    """A value and its line number, counted from 1."""

    value: T
    line: int


@dataclass(frozen=True)
class SprintCheck:
    """A command that proves the sprint."""

    name: str
    command: str


Given = str | tuple[str, ...]
"""A plan's value for a variable: always texts, since `1.10` is a sprint and not a number."""


@dataclass(frozen=True)
class Pour:
    """A **Pour** block: values for the variables of the sprint's formula, and perhaps its name."""

    line: int
    formula: At[str] | None = None
    values: Mapping[str, At[Given]] = field(default_factory=dict)
    unread: bool = False
    """True where it could not be read, which is a fault of its own: such a sprint misses nothing else."""

    def named_by_template(self) -> Pour:
        """`template:` names the formula where nothing else does; otherwise it is a variable like any."""
        said = self.values.get("template")
        if self.formula is not None or said is None or not isinstance(said.value, str):
            return self
        rest = {name: value for name, value in self.values.items() if name != "template"}
        return replace(self, formula=At(said.value, said.line), values=rest)


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
    without_qa: bool = False
    """True where it says that no QA agent shall judge it: **QA Agents**: none."""
    tasks: tuple[At[str], ...] = ()
    criteria: tuple[At[str], ...] = ()
    team: At[str] | None = None
    bead_name: At[str] | None = None
    type: At[str] | None = None
    branches_to_merge: tuple[At[str], ...] = ()
    depends_on: tuple[At[str], ...] = ()
    labels: tuple[At[str], ...] = ()
    runs_on: tuple[At[str], ...] = ()
    """What the machine that it is done on must have."""
    priority: At[int] | None = None
    verify: tuple[At[SprintCheck], ...] = ()
    may_change: tuple[At[str], ...] = ()
    formula: At[str] | None = None
    """The formula poured in its place, named by **Formula** or by **Pour**."""
    pour: Pour | None = None
    template: At[TemplateName] | None = None
    status: At[str] | None = None
    struck: bool = False
    """True where its heading is struck out and such sprints were asked for."""
    unread: frozenset[str] = frozenset()
    """Fields whose values could not be read, which is a fault of its own: they are not missing."""

    @property
    def is_poured(self) -> bool:
        """True where a formula defines the work, not the sprint's own tasks."""
        return self.formula is not None or self.pour is not None


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
    goal: str = ""
    """The text below the heading, before the first sprint."""


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
    introduction: str = ""
    """The text before the first phase and the first sprint, as it is written."""

    def sprint(self, sprint_id: str) -> Sprint | None:
        return next((sprint for sprint in self.sprints if sprint.id.text == sprint_id), None)

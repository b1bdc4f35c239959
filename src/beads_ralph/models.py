"""The values that travel along the line: sprint ids, agents, verifiers, executions, beads, jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import total_ordering
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

ASSIGNEE: Final = "beads-ralph-scrum-master"
WORK: Final = "beads-ralph-work"
MERGE: Final = "beads-ralph-merge"
ISSUE_TYPES: Final = (WORK, MERGE)
CLAUDE: Final = "claude"
MODELS: Final = ("haiku", "sonnet", "opus")

PHASE_PATTERN: Final = r"^\d+[a-z]*$"
SPRINT_PATTERN: Final = r"^\d+[a-z]*\.\d+[a-z]*$"
BRANCH_PATTERN: Final = r"^[a-zA-Z0-9/_-]+$"

MAX_DIGITS: Final = 9  # larger numbers are slips of the keyboard, and Python refuses to parse huge ones
MAX_ID_LENGTH: Final = 200  # ids become file names and database keys


def pattern_fault(pattern: str) -> PydanticCustomError:
    return PydanticCustomError("pattern", "must match pattern {pattern}", {"pattern": pattern})


def constraint_fault(message: str, field: str = "") -> PydanticCustomError:
    """A broken rule; `field` is added to the path where a rule of the whole model blames one field."""
    return PydanticCustomError("constraint", "{message}", {"message": message, "field": field})


def _matching(pattern: str) -> Any:
    """A string that matches all of `pattern`, with `\\d` meaning the ten ASCII digits."""
    compiled = re.compile(pattern.removeprefix("^").removesuffix("$"), re.ASCII)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise pattern_fault(pattern)
        return value

    return (AfterValidator(check), WithJsonSchema({"type": "string", "pattern": pattern}))


def _filled(value: str) -> str:
    if not value.strip():
        raise constraint_fault("must not be empty")
    return value


def _safe_id(value: str) -> str:
    """Ids become file names and command arguments, so they must not be able to leave their place."""
    if not value.strip():
        raise constraint_fault("must not be empty")
    if any(part in value for part in ("/", "\\", "..")) or value.startswith("-"):
        raise constraint_fault("must not contain '/', '\\' or '..' nor start with '-'")
    if len(value) > MAX_ID_LENGTH or any(char.isspace() or not char.isprintable() for char in value):
        raise constraint_fault(f"must be at most {MAX_ID_LENGTH} printable characters without spaces")
    return value


def _git_branch(value: str) -> str:
    if value.startswith(("-", "/")) or value.endswith("/") or "//" in value:
        raise constraint_fault("is not a name that git accepts for a branch")
    return value


def _absolute(value: str) -> str:
    if not (PurePosixPath(value).is_absolute() or PureWindowsPath(value).is_absolute()):
        raise constraint_fault("must be an absolute path")
    return value


def _timestamp(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise constraint_fault("must be an ISO 8601 time such as 2026-02-07T10:00:00Z") from None
    return value


_PHASE, _SPRINT, _BRANCH = _matching(PHASE_PATTERN), _matching(SPRINT_PATTERN), _matching(BRANCH_PATTERN)

Filled = Annotated[str, AfterValidator(_filled), Field(min_length=1)]
BeadId = Annotated[str, AfterValidator(_safe_id), Field(min_length=1, max_length=MAX_ID_LENGTH)]
PhaseText = Annotated[str, _PHASE[0], _PHASE[1]]
SprintText = Annotated[str, _SPRINT[0], _SPRINT[1]]
BranchName = Annotated[str, _BRANCH[0], AfterValidator(_git_branch), _BRANCH[1]]
SourceBranch = Annotated[str, AfterValidator(_filled), AfterValidator(_git_branch), Field(min_length=1)]
AbsolutePath = Annotated[str, AfterValidator(_filled), AfterValidator(_absolute)]
Timestamp = Annotated[str, AfterValidator(_timestamp), Field(json_schema_extra={"format": "date-time"})]
Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


def utc_text(moment: datetime) -> str:
    """The one way we write a time: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- sprint ids -------------------------------------------------------------------------------------


@total_ordering
@dataclass(frozen=True)
class SprintId:
    """`3a.2b`: phase number 3, track a, sprint number 2, parallel sprint b."""

    phase_number: int
    phase_suffix: str
    sprint_number: int
    sprint_suffix: str
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The id, or None where the text is not one."""
        match = re.fullmatch(r"(\d+)([a-z]*)\.(\d+)([a-z]*)", text, re.ASCII)
        if match is None or max(len(match[1]), len(match[3])) > MAX_DIGITS:
            return None
        return cls(int(match[1]), match[2], int(match[3]), match[4], text)

    @property
    def phase(self) -> str:
        return self.text.partition(".")[0]

    @property
    def sprint_part(self) -> str:
        return self.text.partition(".")[2]

    @property
    def sprint_base(self) -> str:
        return f"{self.phase}.{self.sprint_part.rstrip('abcdefghijklmnopqrstuvwxyz')}"

    @property
    def dashed(self) -> str:
        return self.text.replace(".", "-")

    @property
    def track(self) -> tuple[int, str]:
        """What orders phases: 1 < 2 < 3a < 3b < 4."""
        return (self.phase_number, self.phase_suffix)

    @property
    def key(self) -> tuple[int, str, int, str]:
        return (self.phase_number, self.phase_suffix, self.sprint_number, self.sprint_suffix)

    def __lt__(self, other: Self) -> bool:
        return self.key < other.key

    def __str__(self) -> str:
        return self.text


# --- agents -----------------------------------------------------------------------------------------


class Record(BaseModel):
    """Strictly typed and frozen; keys it does not know are kept, never dropped."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")

    def to_json(self) -> dict[str, Any]:
        """Exactly the keys that were given, so that reading and writing changes nothing."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)


Role = Literal["polecat", "witness", "mayor"]
QAStatus = Literal["pass", "fail", "stop"]

OUTPUT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "status": {"enum": ["pass", "fail", "stop"], "description": "Validation result"},
        "message": {"type": "string", "description": "Human-readable result message"},
    },
    "required": ["status", "message"],
}


def check_output_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A QA answer always has a status out of pass, fail, stop, and a message."""
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise constraint_fault("must have 'properties' and 'required'")
    for name in ("status", "message"):
        if name not in properties or name not in required:
            raise constraint_fault(f"must define '{name}' and list it in 'required'")
    status = properties["status"]
    if not isinstance(status, dict) or status.get("enum") != ["pass", "fail", "stop"]:
        raise constraint_fault("properties.status must have the enum [pass, fail, stop]")
    return schema


OutputSchema = Annotated[dict[str, Any], AfterValidator(check_output_schema)]


class AgentSpec(Record):
    """A persona for one role, and the program that plays it."""

    role: Role
    agent: Filled
    executable: Filled = CLAUDE  # before model, whose rule looks at it
    model: Filled | None = None
    options: list[str] | None = None
    context: str | None = None
    agent_id: str | None = None
    env: dict[str, str] | None = None
    output_schema: OutputSchema | None = None

    @field_validator("model")
    @classmethod
    def _claude_models(cls, model: str | None, info: ValidationInfo) -> str | None:
        """Claude's models are fixed words; other programs name theirs as they like."""
        if info.data.get("executable") == CLAUDE and model is not None and model not in MODELS:
            raise constraint_fault(f"must be one of {', '.join(MODELS)}, not {model!r}")
        return model


class QAOutput(Record):
    """What a QA agent answers."""

    status: QAStatus
    message: str
    details: dict[str, Any] | None = None


# --- definition of done -----------------------------------------------------------------------------


class Expectation(Record):
    exit_code: int = 0
    stdout_contains: str | None = None
    stderr_contains: str | None = None


class Verifier(Record):
    """A shell command that proves one thing."""

    name: Filled
    command: Filled
    expect: Expectation = Expectation()
    timeout_seconds: Positive = 300
    on_failure: Literal["stop", "continue"] = "stop"


class Dod(Record):
    """The Definition of Done: the commands that must succeed before a bead may close."""

    verifiers: Annotated[list[Verifier], Field(min_length=1)]
    evidence_required: bool = False


# --- executions and results -------------------------------------------------------------------------


class DevExecution(Record):
    attempt: Positive
    session_id: str | None = None
    agent_path: str
    model: str | None = None
    started_at: Timestamp
    completed_at: Timestamp | None = None
    status: Literal["completed", "failed", "timeout"]
    feedback_from_qa: str | None = None


class QAExecution(Record):
    attempt: Positive
    session_id: str | None = None
    agent_path: str
    model: str | None = None
    started_at: Timestamp
    completed_at: Timestamp | None = None
    status: QAStatus
    message: str
    details: dict[str, Any] | None = None


class QAResult(Record):
    agent_path: str
    status: QAStatus
    message: str | None = None
    details: dict[str, Any] | None = None


class ScrumResult(Record):
    bead_id: str
    success: bool
    pr_url: str | None = None
    pr_number: int | None = None
    bead_updated: bool = False
    attempt_count: Count = 0
    qa_results: list[QAResult] = Field(default_factory=list)
    error: str | None = None
    fatal: bool = False


# --- beads ------------------------------------------------------------------------------------------


class ResourceLimits(Record):
    cpus: float | int | None = None
    memory_mb: Positive | None = None


class WorkPlace(Record):
    """What every bead's metadata says of its place in the repository and in the plan."""

    rig: Filled
    branch: BranchName
    source_branch: SourceBranch
    phase: PhaseText
    sprint: SprintText
    plan_file: Filled
    plan_section: Filled
    plan_sprint_id: Filled
    branches_to_merge: list[SourceBranch] | None = None
    dev_prompts: Annotated[list[Filled], Field(min_length=1)]
    max_retry_attempts: Positive = 3
    attempt_count: Count = 0
    scrum_master_session_id: str | None = None
    dev_agent_session_id: str | None = None
    dev_agent_executions: list[DevExecution] | None = None
    qa_agent_executions: list[QAExecution] | None = None
    pr_url: str | None = None
    pr_number: int | None = None

    @model_validator(mode="after")
    def _sprint_lies_in_its_phase(self) -> Self:
        if not self.sprint.startswith(f"{self.phase}."):
            raise constraint_fault(f"{self.sprint} does not lie in phase {self.phase}", "sprint")
        return self


class Metadata(WorkPlace):
    """The metadata of schema 4.1a."""

    worktree_path: AbsolutePath
    team_name: Filled
    scrum_master_agent: AgentSpec
    dev_agents: Annotated[list[AgentSpec], Field(min_length=1)]
    qa_agents: Annotated[list[AgentSpec], Field(min_length=1)]
    scrum_result: ScrumResult | None = None
    dod: Dod | None = None
    acceptance_criteria: list[str] | None = None
    formula: str | None = None
    # Announced by the schema for later; typed already so that a wrong value is seen today.
    docker_image: Filled | None = None
    resource_limits: ResourceLimits | None = None
    timeout_minutes: Positive | None = None
    notification_config: dict[str, Any] | None = None
    rollback_strategy: str | dict[str, Any] | None = None
    approval_required: bool | None = None
    cost_estimate: float | int | dict[str, Any] | None = None


class Core(Record):
    """The fields that every bead has, whatever its schema."""

    id: BeadId
    title: Annotated[Filled, Field(max_length=500)]
    description: str = ""
    status: Literal["open", "in_progress", "closed", "blocked"]
    priority: Annotated[int, Field(ge=0, le=4)] = 1
    issue_type: Literal["beads-ralph-work", "beads-ralph-merge"]
    assignee: Literal["beads-ralph-scrum-master"]
    owner: str | None = None
    dependencies: list[BeadId] = Field(default_factory=list)
    labels: list[Filled] = Field(default_factory=list)
    comments: list[dict[str, Any] | str] = Field(default_factory=list)
    external_ref: str | None = None
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    closed_at: Timestamp | None = None


def check_merge_rule(issue_type: str, branches: list[str] | None) -> None:
    """Merge beads name what they merge; work beads merge nothing."""
    if issue_type == MERGE and not branches:
        raise constraint_fault("must name at least one branch in a merge bead", "metadata.branches_to_merge")
    if issue_type == WORK and branches:
        raise constraint_fault("must be null in a work bead", "metadata.branches_to_merge")


class Bead(Core):
    """One sprint as a work item: the seed's bead, schema 4.1a."""

    metadata: Metadata

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if self.id in self.dependencies:
            raise constraint_fault(f"{self.id} depends on itself", "dependencies")
        check_merge_rule(self.issue_type, self.metadata.branches_to_merge)
        return self


# --- processes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One process to run."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] | None = None
    stdin: str | None = None
    timeout: float = 30.0
    grace: float = 2.0


@dataclass(frozen=True)
class Exit:
    """How the process ended. A signal or a time-out is an exit too, never an exception."""

    code: int
    stdout: str
    stderr: str
    timed_out: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out

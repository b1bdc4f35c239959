"""Beads and their parts: agents, verifiers, executions, results, metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from beads_ralph.bead import json_rules
from beads_ralph.bead.evidence import Ruling
from beads_ralph.bead.field_types import (
    AbsolutePath,
    BeadId,
    BranchName,
    Filled,
    FrozenModel,
    PhaseText,
    Positive,
    SourceBranch,
    SprintText,
    Timestamp,
    constraint_fault,
    one_of,
    require_storable,
    storable_fault,
)
from beads_ralph.bead.json_rules import JsonRule
from beads_ralph.bead.names import MERGE, WORK
from beads_ralph.bead.run_state import RunState

TemplateName = Literal["bug-fix", "feature", "refactor", "docs", "script", "code-review", "refine", "custom"]
"""The prompt templates."""
CLAUDE: Final = "claude"
MODELS: Final = ("haiku", "sonnet", "opus")

# --- agents -----------------------------------------------------------------------------------------


Role = Literal["polecat", "witness", "mayor"]

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


OutputSchema = Annotated[
    dict[str, Any], AfterValidator(check_output_schema), JsonRule(**json_rules.OUTPUT_SCHEMA)
]


PLAYER_PATTERN: Final = (
    rf"^({CLAUDE}(:({'|'.join(MODELS)}))?|(?!{CLAUDE}(:|$))[^\s:]+(:\S+)?)$"  # claude's models are fixed
)


def is_player(value: str) -> bool:
    return re.fullmatch(PLAYER_PATTERN, value) is not None and not value.endswith("\n")


def _player(value: str) -> str:
    if not is_player(value):
        raise constraint_fault(
            f"must be PROGRAM or PROGRAM:MODEL, and for {CLAUDE} a model out of {', '.join(MODELS)}"
        )
    return value


Player = Annotated[
    str, AfterValidator(_player), JsonRule(pattern=PLAYER_PATTERN.removesuffix("$") + json_rules.END)
]
"""A program that stands in for another one, such as `codex` or `claude:opus`."""


class AgentSpec(FrozenModel):
    """A persona for one role, and the program that plays it."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"executable": {"enum": [CLAUDE, None]}}},
            "then": {"properties": {"model": {"enum": [*MODELS, None]}}},
        }
    )

    role: Role
    agent: Filled
    executable: Filled | None = CLAUDE  # before model, whose rule looks at it; null means the default too
    model: Filled | None = None
    options: list[str] | None = None
    context: str | None = None
    agent_id: str | None = None
    env: dict[str, str] | None = None
    output_schema: OutputSchema | None = None
    fallback: list[Player] | None = None
    """Who plays it while the program cannot, in order; null means what the configuration says."""

    @field_validator("model")
    @classmethod
    def _claude_models(cls, model: str | None, info: ValidationInfo) -> str | None:
        """Claude's models are fixed words; other programs name theirs as they like."""
        if info.data.get("executable") in (None, CLAUDE) and model is not None and model not in MODELS:
            raise constraint_fault(f"must be one of {', '.join(MODELS)}, not {model!r}")
        return model


class QAOutput(FrozenModel):
    """What a QA agent answers."""

    status: Ruling
    message: str
    details: dict[str, Any] | None = None


# --- definition of done -----------------------------------------------------------------------------


class Expectation(FrozenModel):
    exit_code: int = 0
    stdout_contains: str | None = None
    stderr_contains: str | None = None


class Verifier(FrozenModel):
    """A shell command that proves one thing."""

    name: Filled
    command: Filled
    expect: Expectation = Expectation.model_construct()
    timeout_seconds: Positive = 300
    on_failure: Literal["stop", "continue"] = "stop"


class Dod(FrozenModel):
    """The Definition of Done: the commands that must succeed before a bead may close."""

    verifiers: Annotated[list[Verifier], Field(min_length=1)]
    evidence_required: bool = False


# --- beads ------------------------------------------------------------------------------------------


AboveZero = Annotated[
    float | int,
    one_of("a number above 0"),
    Field(gt=0),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0}),
]


class ResourceLimits(FrozenModel):
    cpus: Annotated[float | int, one_of("a number")] | None = None
    memory_mb: Positive | None = None


class WorkPlace(FrozenModel):
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
    dev_prompts: list[Filled]
    """The tasks; a merge bead without any is done by git alone."""
    max_retry_attempts: Positive = 3

    @model_validator(mode="after")
    def _sprint_lies_in_its_phase(self) -> Self:
        if not self.sprint.startswith(f"{self.phase}."):
            raise constraint_fault(f"{self.sprint} does not lie in phase {self.phase}", "sprint")
        return self


JUDGED_RULE: Final[dict[str, JsonValue]] = {
    "anyOf": [
        {"properties": {"qa_agents": {"minItems": 1}}},
        {"properties": {"dod": {"type": "object"}}, "required": ["dod"]},
    ]
}
"""Somebody judges the work, or verifiers prove it."""


class Metadata(RunState, WorkPlace):
    """The metadata of schema 4.1a."""

    model_config = ConfigDict(json_schema_extra=JUDGED_RULE)

    worktree_path: AbsolutePath
    team_name: Filled
    scrum_master_agent: AgentSpec
    dev_agents: Annotated[list[AgentSpec], Field(min_length=1)]
    qa_agents: list[AgentSpec]
    """Who judges the work; nobody, where verifiers prove it."""
    dod: Dod | None = None
    acceptance_criteria: list[str] | None = None
    may_change: list[Filled] | None = None
    """Patterns of files that decide what passes and that this work may change."""
    formula: str | None = None
    molecule: Filled | None = None
    """The root of the pour that made it."""
    step: Filled | None = None
    """Which step of the formula it is."""
    template: TemplateName | None = None
    # Announced by the schema for later; typed already so that a wrong value is seen today.
    docker_image: Filled | None = None
    resource_limits: ResourceLimits | None = None
    timeout_minutes: Positive | None = None
    budget_usd: AboveZero | None = None
    budget_tokens: Positive | None = None
    notification_config: dict[str, Any] | None = None
    rollback_strategy: Annotated[str | dict[str, Any], one_of("a text or an object")] | None = None
    approval_required: bool | None = None
    cost_estimate: Annotated[float | int | dict[str, Any], one_of("a number or an object")] | None = None
    deadline: Timestamp | None = None
    """By when it must be done."""
    ralph: dict[str, Any] | None = None
    """The bead file that it came from."""

    @model_validator(mode="after")
    def _somebody_or_something_judges(self) -> Self:
        if not self.qa_agents and self.dod is None:
            message = "should have at least 1 item where no verifier proves the work"
            raise constraint_fault(message, "qa_agents")
        return self

    @model_validator(mode="after")
    def _others_keys_can_be_kept(self) -> Self:
        """Keys that others put there are theirs, but what no store can keep would end a run."""
        for key, value in (self.model_extra or {}).items():
            try:
                require_storable(value)
            except ValueError as problem:
                raise storable_fault(problem, key) from None
        return self


def _metadata_rule(**fields: JsonValue) -> dict[str, JsonValue]:
    return {"properties": {"metadata": {"properties": fields}}}


MERGE_RULE: Final[dict[str, JsonValue]] = {
    "if": {"properties": {"issue_type": {"const": MERGE}}},
    "then": {
        "allOf": [
            {"properties": {"metadata": {"required": ["branches_to_merge"]}}},
            _metadata_rule(branches_to_merge={"type": "array", "minItems": 1}),
        ]
    },
    "else": _metadata_rule(branches_to_merge={"maxItems": 0}, dev_prompts={"minItems": 1}),
}
"""Merge beads name what they merge; work beads merge nothing, and have tasks. `maxItems` says nothing of
null."""


class Core(FrozenModel):
    """What every bead has, whatever its schema."""

    model_config = ConfigDict(json_schema_extra=MERGE_RULE)

    id: BeadId
    title: Annotated[Filled, Field(max_length=500)]
    description: str = ""
    status: Literal["open", "in_progress", "closed", "blocked"]
    priority: Annotated[int, Field(ge=0, le=4)] = 1
    issue_type: Literal["beads-ralph-work", "beads-ralph-merge"]
    assignee: Literal["beads-ralph-scrum-master"]
    owner: str | None = None
    parent: BeadId | None = None
    """The molecule or epic that it was poured with."""
    ephemeral: bool | None = None
    """True if it is a wisp, which a run takes up only where it is asked to."""
    dependencies: list[BeadId] = Field(default_factory=list)
    labels: list[Filled] = Field(default_factory=list)
    comments: list[Annotated[dict[str, Any] | str, one_of("an object or a text")]] = Field(
        default_factory=list
    )
    external_ref: str | None = None
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    closed_at: Timestamp | None = None
    metadata: WorkPlace

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if self.id in self.dependencies:
            raise constraint_fault(f"{self.id} depends on itself", "dependencies")
        branches, field = self.metadata.branches_to_merge, "metadata.branches_to_merge"
        if self.issue_type == MERGE and not branches:
            raise constraint_fault("must name at least one branch in a merge bead", field)
        if self.issue_type == WORK and branches:
            raise constraint_fault("must be null in a work bead", field)
        if self.issue_type == WORK and not self.metadata.dev_prompts:
            raise constraint_fault("should have at least 1 item in a work bead", "metadata.dev_prompts")
        return self


class Bead(Core):
    """One sprint as a work item: the seed's bead, schema 4.1a."""

    metadata: Metadata

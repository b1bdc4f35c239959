"""What lies in a store beside the beads: the roots of pours, people's tasks, gates, convoys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from beads_ralph.bead.field_types import BeadId, Filled, FrozenModel, Timestamp, constraint_fault
from beads_ralph.bead.names import GATE, ISSUE_TYPES, ItemBrief

ALONE: Final = ("timer", "bead", "gh:pr", "gh:run")
"""The types of gates that a run watches; a person opens the others."""


class GateRule(FrozenModel):
    """What a gate waits for; kept in the gate's metadata under `gate`."""

    type: Filled
    """One of `ALONE`, or another, such as `human`."""
    await_id: str | None = None
    """The run, the pull request or the bead that is waited for."""
    timeout: str | None = None
    """How long a timer runs, such as 30m, 2h or 1h30m."""
    repo: str | None = None


@dataclass(frozen=True)
class Standing:
    """How far that has come which a gate waits for."""

    state: Literal["passed", "waits", "failed", "person"]
    """Whether the gate may pass; whether waiting helps; or who must do something."""
    text: str


def _no_bead(kind: str) -> str:
    if kind in ISSUE_TYPES:
        raise constraint_fault(f"{kind} is the type of a bead, which agents work on")
    return kind


class Item(FrozenModel):
    """One thing in the store that no agent works on."""

    id: BeadId
    title: Annotated[Filled, Field(max_length=500)]
    issue_type: Annotated[Filled, AfterValidator(_no_bead)]
    description: str = ""
    notes: str = ""
    status: Literal["open", "in_progress", "closed", "blocked"] = "open"
    priority: Annotated[int, Field(ge=0, le=4)] = 2
    assignee: str | None = None
    owner: str | None = None
    parent: BeadId | None = None
    ephemeral: bool | None = None
    """True if it is a wisp: outside of exports and runs, until somebody removes it."""
    dependencies: list[BeadId] = Field(default_factory=list)
    tracks: list[BeadId] = Field(default_factory=list)
    """What a convoy follows; unlike a dependency it holds nothing up."""
    labels: list[Filled] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    created_at: Timestamp | None = None
    updated_at: Timestamp | None = None
    closed_at: Timestamp | None = None
    close_reason: str | None = None

    @model_validator(mode="after")
    def _a_gate_can_be_read(self) -> Self:
        try:
            self.gate  # noqa: B018  reading it is what checks it
        except ValidationError as problem:
            fault = problem.errors(include_url=False)[0]
            place = ".".join(map(str, ("metadata.gate", *fault["loc"])))
            raise constraint_fault(f"is not a gate rule: {fault['msg']}", place) from None
        return self

    @property
    def gate(self) -> GateRule | None:
        """The rule of a gate; None of anything else."""
        said = self.metadata.get("gate")
        return GateRule.model_validate(said) if self.issue_type == GATE and said else None

    @property
    def brief(self) -> ItemBrief:
        """In an event or an answer: what a person knows it by."""
        return ItemBrief(self.id, self.issue_type, self.title)

"""Run and result records: what the files hold, as models that are their JSON Schemas, too."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    WithJsonSchema,
    model_validator,
)

from beads_ralph.bead.field_types import constraint_fault
from beads_ralph.bead.words import moment_of

VERSION: Final = 1
PROMPT_LENGTH: Final = 200
SUMMARY_LENGTH: Final = 500
ID: Final = r"^(?!-)(?!.*\.\.)[^/\\\s\x00-\x1f\x7f]{1,200}$"
HASH: Final = r"^[a-f0-9]{64}$"
MOMENT: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"([.,][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?$"
)
ABSOLUTE: Final = r"^(/|[A-Za-z]:[/\\]|\\\\)[^\x00]*$"

Status = Literal["running", "done", "failed", "timeout"]


# --- why an attempt came to nothing: a fixed list of words, so that they can be counted -------------


Reason = Literal[
    "agent-timeout", "agent-crash", "agent-limit", "agent-auth", "agent-server",
    "agent-credit", "agent-configuration", "agent-refused", "agent-too-long", "agent-stalled",
    "agent-unfinished", "agent-output-limit", "agent-memory",
    "verifier-failed", "verifier-timeout", "evidence-missing", "qa-failed", "qa-stop", "qa-no-verdict",
    "scrum-master-failed",
    "nothing-changed", "branch-changed", "merge-conflict", "lost-changes", "proposal-failed",
    "budget-used-up", "deadline-passed", "interrupted", "disk-full", "infrastructure", "other",
]  # fmt: skip
"""docs/reference/records.md says what each of them means."""
FOREIGN: Final = (
    *("session-exited-without-markers", "watcher-signal-interrupted", "disk-space-exhausted"),
    *("tmux-launch-failed", "max-retries-reached"),
)
"""What dispatchers that write the same records say besides, and `watch-timeout-<seconds>s`."""
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
REASON: Final = rf"^({'|'.join((*REASONS, *FOREIGN, 'watch-timeout-[0-9]+s'))})$"
UNJUDGED: Final[frozenset[str | None]] = frozenset(
    (
        *("agent-limit", "agent-auth", "agent-server", "agent-credit", "agent-configuration"),
        *("agent-stalled", "agent-refused", "agent-too-long"),
        *("proposal-failed", "interrupted", "disk-full", "infrastructure"),
    )
)
"""Ends that say nothing of the work, where no result says otherwise: the same attempt begins again."""
EXHAUSTED: Final[tuple[Reason, ...]] = ("budget-used-up", "deadline-passed")
"""Ends of a bead, not only of an attempt: it may not have another one."""


# --- kinds of values --------------------------------------------------------------------------------


def _found(pattern: str, wrong: str) -> AfterValidator:
    """A string in which the pattern is found, as JSON Schema means it."""
    compiled = re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)

    def check(value: str) -> str:
        if compiled.search(value) is None:
            raise constraint_fault(wrong)
        return value

    return AfterValidator(check)


def _shape(pattern: str, **more: JsonValue) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, **more})


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 2.0 is 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _ours(value: int) -> int:
    if value != VERSION:
        raise constraint_fault(f"must be {VERSION}: this is a record of another version")
    return value


def _moment(value: str) -> str:
    try:
        moment_of(value)
    except ValueError:
        raise constraint_fault(NO_MOMENT) from None
    return value


NO_ID: Final = "must be a bead's id: no spaces, '/', '\\' or '..'"
NO_MOMENT: Final = "must be an ISO 8601 time such as 2026-02-07T10:00:00Z"
NO_REASON: Final = "must be one of the known reasons; beads-ralph help records lists them"
BeadName = Annotated[str, _found(ID, NO_ID), _shape(ID)]
Said = Annotated[str, _found(r"\S", "must not be empty"), _shape(r"\S")]
Sha256 = Annotated[str, _found(HASH, "must be a SHA-256 in 64 small hexadecimal digits"), _shape(HASH)]
FailureReason = Annotated[str, _found(REASON, NO_REASON), _shape(REASON)]
Moment = Annotated[
    str, _found(MOMENT, NO_MOMENT), AfterValidator(_moment), _shape(MOMENT, format="date-time")
]
Root = Annotated[str, _found(ABSOLUTE, "must be an absolute path"), _shape(ABSOLUTE)]
WHOLE: Final = BeforeValidator(_whole)
Whole = Annotated[int, WHOLE]
AtLeastOne = Annotated[int, Field(ge=1), WHOLE]
Count = Annotated[int, Field(ge=0), WHOLE]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Version = Annotated[int, AfterValidator(_ours), WHOLE, WithJsonSchema({"type": "integer", "const": VERSION})]
Prompt = Annotated[str, Field(max_length=PROMPT_LENGTH)]
Summary = Annotated[str, Field(max_length=SUMMARY_LENGTH)]
NOT_STRICT: Final = Field(default=(), strict=False)
"""JSON has lists and no tuples."""


class Part(BaseModel):
    # Frozen and strict; what a later version says besides is kept.
    model_config = ConfigDict(frozen=True, strict=True, extra="allow")


# --- what the seed has no field for -----------------------------------------------------------------


class Spent(Part):
    """What agents reported; null means unknown, not nothing."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_tokens: Count | None = None
    cost_usd: Amount | None = None


class Called(Part):
    """One call of an agent within the attempt."""

    role: str
    agent: str
    program: str | None = None
    model: str | None = None
    seat: Count = 1
    started_at: Moment | None = None
    seconds: Amount | None = None
    exit_code: Whole | None = None
    problem: str = ""
    trouble: str = ""
    session_id: str | None = None
    usage: Spent = Spent()
    cost_computed: bool = False
    """Whether the cost is of the price table, since the program told none."""
    transcript: str | None = None
    cut_short: str = ""
    """Which limit it was ended for: `timeout`, `output` or `memory`."""


class Checked(Part):
    """One check of the attempt's commit: a verifier, a QA agent, a merge, the branch itself."""

    name: str
    kind: str
    ruling: Literal["pass", "fail", "stop"]
    message: str = ""
    command: str | None = None
    commit: str | None = None
    seconds: Amount = 0.0
    exit_code: Whole | None = None
    red_before: bool | None = None
    rulings: tuple[Literal["pass", "fail", "stop"], ...] = NOT_STRICT
    """What each run of it said, where it was run more than once on the commit."""


class Broken(Part):
    """An earlier beginning of the same attempt, which was not judged."""

    started_at: Moment
    finished_at: Moment | None = None
    failure_reason: FailureReason | None = None
    run_id: str | None = None
    calls: tuple[Called, ...] = NOT_STRICT


class Extra(Part):
    """What the analysis needs besides. The other fields are as in the seed, so it has a place of its own."""

    run_id: str | None = None
    program_version: str | None = None
    source: str | None = None
    """What made the record: `run` or `exec`."""
    team: str | None = None
    role: str | None = None
    persona: str | None = None
    kind: str | None = None
    """The bead's kind: `work`, `merge`, `gate` or `dod`."""
    title: str | None = None
    sprint: str | None = None
    plan_file: str | None = None
    branch: str | None = None
    commit: str | None = None
    parallel: Count | None = None
    """Beads at work when the attempt began, itself among them."""
    ruling: Literal["pass", "fail", "stop"] | None = None
    usage: Spent = Spent()
    agent_seconds: Amount | None = None
    """By the agents that worked, without checks and QA agents."""
    calls: tuple[Called, ...] = NOT_STRICT
    checks: tuple[Checked, ...] = NOT_STRICT
    broken_off: tuple[Broken, ...] = NOT_STRICT
    failure_detail: str | None = None


class Verification(Part):
    """The seed's summary of the checks."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    lint: Literal["pass", "fail", "skipped"] = "skipped"
    tests: Literal["pass", "fail", "skipped"] = "skipped"
    ubs: Literal["clean", "issues", "skipped"] = "skipped"
    overall: Literal["pass", "fail", "partial", "skipped"] = "skipped"


# --- the records ------------------------------------------------------------------------------------

RUNNING_RULE: Final[dict[str, JsonValue]] = {
    "if": {"properties": {"status": {"const": "running"}}, "required": ["status"]},
    "then": {"properties": {"finished_at": {"type": "null"}}},
}


class StateRecord(BaseModel):
    """What run and result records share."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", json_schema_extra=RUNNING_RULE)

    schema_version: Version = VERSION
    bead: BeadName
    status: Status
    agent: Said
    started_at: Moment
    finished_at: Moment | None
    duration_seconds: Amount | None
    attempt: AtLeastOne
    max_retries: AtLeastOne
    """The most attempts, in all."""
    exit_code: Whole | None
    output_summary: Summary | None

    @model_validator(mode="after")
    def _not_finished_while_running(self) -> StateRecord:
        if self.status == "running" and self.finished_at is not None:
            raise constraint_fault("must be null while the status is running", "finished_at")
        return self

    extra: Extra | None = None

    @property
    def ours(self) -> Extra:
        """What `extra` says; a record of another program says nothing there."""
        return self.extra or Extra()

    def to_json(self) -> dict[str, Any]:
        """Every field; of what only some records have, what this one has."""
        row = self.model_dump(mode="json", exclude={"extra"})
        said = self.extra.model_dump(mode="json", exclude_defaults=True) if self.extra else None
        return row if self.extra is None else row | {"extra": said}


class RunRecord(StateRecord):
    """One attempt at a bead: written when its first agent starts, and again when it ends."""

    model: Said
    repo: Root
    prompt: Prompt
    prompt_full: str
    prompt_hash: Sha256
    failure_reason: FailureReason | None
    template_name: Said | None
    session_name: Said | None = None
    result_file: Said | None = None
    verification: Verification | None = None


class ResultRecord(StateRecord):
    """How the last attempt at a bead that was judged ended."""

    will_retry: bool
    reason: Said
    verification: Verification | None = None


Kind = Literal["run", "result"]
MODELS: Final[dict[Kind, type[RunRecord | ResultRecord]]] = {"run": RunRecord, "result": ResultRecord}
R = TypeVar("R", RunRecord, ResultRecord)


def changed(record: R, **fields: Any) -> R:
    """The record with other values, checked as a whole."""
    return type(record).model_validate({**dict(record), **fields})


def json_schema(kind: Kind) -> dict[str, Any]:
    """The published schema (draft 2020-12); what it allows is what the models take."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **MODELS[kind].model_json_schema()}

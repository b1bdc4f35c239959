"""What runs keep about a bead in its metadata: the one place that spells these keys.

A key that is missing or null means that no run has said anything yet. A value of the wrong type makes the
bead unreadable, with the field named; `bead/healing.py` gives what is left of such a state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Self, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from beads_ralph.bead import json_fields
from beads_ralph.bead.agent_call import DevCall, KeptCall, QACall
from beads_ralph.bead.evidence import Evidence, Ruling, Verdict
from beads_ralph.bead.field_types import (
    FrozenModel,
    Prose,
    Timestamp,
    Word,
    is_text,
    one_of,
    require_storable,
    storable_fault,
)
from beads_ralph.bead.findings import Finding, open_after
from beads_ralph.bead.json_fields import EXTRA, LISTS, Argument, FieldError, Moment
from beads_ralph.bead.redaction import redacted
from beads_ralph.bead.stages import Reached, Review
from beads_ralph.bead.standing import Standing, standing
from beads_ralph.bead.usage import COUNTS, Usage

LARGEST: Final = 1e300
MOST_ATTEMPTS: Final = 10**9
DEEPEST: Final = 50


def _storable(value: dict[str, Any]) -> dict[str, Any]:
    try:
        require_storable(value)
    except ValueError as problem:
        raise storable_fault(problem) from None
    return value


Number = Annotated[
    float | int,
    one_of("a number"),
    Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False),
    WithJsonSchema({"type": "number", "minimum": -LARGEST, "maximum": LARGEST}),
]
Attempts = Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)]
AttemptNumber = Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)]
Details = Annotated[dict[str, Any], AfterValidator(_storable)]


# --- parts that are written down elsewhere, too -----------------------------------------------------


class Kept(FrozenModel):
    """A part of the state that is made of what agents and commands say."""

    @model_validator(mode="after")
    def _storable_besides(self) -> Self:
        _storable(self.model_extra or {})
        return self

    @classmethod
    def made(cls, **said: Any) -> Self:
        """Of texts that may hold what no store can keep."""
        return cls.model_validate(_cleaned(said))


def _cleaned(value: Any, room: int = DEEPEST) -> Any:
    match value:
        case str():
            return value if is_text(value) else value.encode("utf-8", "replace").decode()
        case Mapping() | list() | tuple() if room == 0:
            return "…"
        case Mapping():
            return {_cleaned(key): _cleaned(inner, room - 1) for key, inner in value.items()}
        case list() | tuple():
            return [_cleaned(inner, room - 1) for inner in value]
        case _:
            return value


def _row_of(kind: type, required: Collection[str] = (), /, **own: Any) -> dict[str, Any]:
    """The fields of a dataclass, as a row of the state has them: of the same types, but only such values as a
    store can keep; and each may be missing or null that is not `required`. `own` are those of the row alone,
    or with a rule of its own."""
    hints = get_type_hints(kind, include_extras=True)
    checked = {name: _checked(hint) for name, hint in hints.items() if name != EXTRA} | own
    return {
        name: hint if name in required else Annotated[hint | None, Field(default=None)]
        for name, hint in checked.items()
    }


def _checked(hint: Any) -> Any:
    """The type that values of a dataclass's field are held to."""
    if hint in CHECKED:
        return CHECKED[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (hint,) = (_checked(one) for one in inner if one is not NoneType)
        return hint
    if origin in LISTS:
        return list[_checked(inner[0])]  # type: ignore[misc]
    return Details if origin is Mapping else hint


CHECKED: Final[dict[Any, Any]] = {str: Prose, float: Number, Argument: Word, Moment: Timestamp}
"""By the type of a dataclass's field; the rows of other dataclasses join it below."""


class TokenCounts(Kept):
    """Tokens and money; None where the agent does not say."""

    __annotations__ = _row_of(Usage)


CHECKED[Usage] = TokenCounts


def _row_of_call(kind: type[KeptCall], *required: str) -> dict[str, Any]:
    """Two keys are older than the fields: `agent_path`, and the cost, which stands beside the usage, too."""
    needed = ("attempt", "agent_path", "started_at", "status", *required)
    row = _row_of(kind, needed, attempt=AttemptNumber, agent_path=Word, cost_usd=Number)
    return {name: hint for name, hint in row.items() if name != "agent"}


class DevExecution(Kept):
    """A row of `dev_agent_executions`: a DevCall, as the bead keeps it."""

    __annotations__ = _row_of_call(DevCall)


class QAExecution(Kept):
    """A row of `qa_agent_executions`: a QACall, as the bead keeps it."""

    __annotations__ = _row_of_call(QACall, "message")


class CheckResult(Kept):
    """Evidence, as the bead keeps it; the kinds of checks of a later version are known to that one."""

    __annotations__ = _row_of(Evidence, kind=Prose)


CHECKED[Evidence] = CheckResult


class LastVerdict(Kept):
    """The verdict on the last attempt, and everything it rests on, as the bead keeps it."""

    __annotations__ = _row_of(Verdict)


class OpenFinding(Kept):
    """A Finding, as the bead keeps it."""

    __annotations__ = _row_of(Finding, ("by", "kind", "attempt", "words"), attempt=Attempts)


class KeptReview(Kept):
    """A Review, as the bead keeps it."""

    __annotations__ = _row_of(Review, ("seat", "told", "check"), seat=AttemptNumber)


CHECKED[Review] = KeptReview


class StageReached(Kept):
    """How far the attempt came that has no verdict yet, as the bead keeps it."""

    __annotations__ = _row_of(Reached, ("attempt", "of"), attempt=AttemptNumber, developers=Attempts)


class QAResult(Kept):
    agent_path: Word
    status: Ruling
    message: Prose | None = None
    details: Details | None = None


class ScrumResult(Kept):
    bead_id: Prose
    success: bool
    pr_url: Word | None = None
    pr_number: int | None = None
    bead_updated: bool = False
    attempt_count: Attempts = 0
    qa_results: list[QAResult] = Field(default_factory=list)
    error: Prose | None = None
    fatal: bool = False


# --- what else a run remembers ----------------------------------------------------------------------


class Proof(Kept):
    """The commit that passed every check, and a hash of what the bead asked for then."""

    commit: Word | None = None
    of: Word | None = None


class Acceptance(FrozenModel):
    """A person's word that the bead is done, where no run has proven it."""

    by: Prose | None = None
    at: Timestamp | None = None
    reason: Prose | None = None


class Spending(TokenCounts):
    """What the bead has cost since it was last opened again by hand."""

    seconds: Number | None = None


class ParkedUntil(Kept):
    """Until when the bead waits, for which programs, and the commit that only the reviewers have not seen."""

    until: Timestamp | None = None
    reason: Prose | None = None
    programs: dict[Word, Timestamp] | None = None
    commit: Word | None = None


class Interruption(Kept):
    """An attempt that ended because its run was killed."""

    run_id: Word | None = None
    attempt: Attempts | None = None
    noticed_at: Timestamp | None = None
    at_work: bool | None = None
    """True if an agent of the bead was at work when the run was killed, and the machine went on."""
    blocked: bool | None = None
    """True if the bead was blocked for it: those before it do not count any more."""


class PlanContext(Kept):
    """What a plan says around its sprints, as far as those who work on one should know it."""

    introduction: Prose | None = None
    phase: Prose | None = None
    """The title of the sprint's phase."""
    goal: Prose | None = None
    """The text below that."""


class GateOverride(Kept):
    """Who lets features start although the gate is red, and since when."""

    by: Prose | None = None
    at: Prose | None = None
    reason: Prose | None = None


class RunState(FrozenModel):
    """Everything that a run keeps about a bead. One with a few fields set is a change: only those are
    written."""

    attempt_count: Attempts = 0
    scrum_master_session_id: Word | None = None
    dev_agent_session_id: Word | None = None
    dev_agent_executions: list[DevExecution] | None = None
    qa_agent_executions: list[QAExecution] | None = None
    pr_url: Word | None = None
    pr_number: int | None = None
    scrum_result: ScrumResult | None = None
    attempts_forgiven: Attempts | None = None
    """So many attempts do not count any more: somebody has opened the bead again since."""
    last_verdict: LastVerdict | None = None
    open_findings: list[OpenFinding] | None = None
    """What checks and reviewers hold against the work; None where no version that keeps it has looked."""
    unreviewed: Word | None = None
    """The commit that passed every other check while a reviewer gave no verdict on it."""
    reached: StageReached | None = None
    """The stages of the attempt without a verdict that ended well; None where none has begun, or all have."""
    proven: Proof | None = None
    accepted: Acceptance | None = None
    red_before: dict[Prose, bool] | None = None
    """Which verifiers failed before any work was done; None where nobody has looked yet."""
    tests_before: Details | None = None
    """By verifier and runner, how many tests ran then."""
    read_by_checks: list[Prose] | None = None
    """Files that the verifiers opened then and that are theirs, not the work's."""
    spent: Spending | None = None
    parked: ParkedUntil | None = None
    interruptions: list[Interruption] | None = None
    gate_results: list[CheckResult] | None = None
    gate_override: GateOverride | None = None
    plan_context: PlanContext | None = None
    """The plan around the sprint; kept, since the plan's file may be gone when somebody works on it."""
    planned: Details | None = None
    """The plan as it was last compiled into the bead, so that a person's edit is told from the plan's."""

    def to_metadata(self) -> dict[str, Any]:
        """The keys that are set, as the bead's metadata has them, without secrets."""
        told = self.to_json()
        clean = {key: redacted(told[key]) for key in KEYS_IN_ORDER if key in told}
        # By their names verifiers and files are found again; whoever planned it wrote those.
        return clean | {key: told[key] for key in NAMES if key in told}

    def changed(self, change: RunState) -> Self:
        """This state with the fields that `change` sets."""
        fields = {name: getattr(change, name) for name in change.model_fields_set}
        return self.model_copy(update=fields)

    @property
    def dev_calls(self) -> list[DevCall]:
        return [DevCall.from_row(row.to_json()) for row in self.dev_agent_executions or ()]

    @property
    def qa_calls(self) -> list[QACall]:
        return [QACall.from_row(row.to_json()) for row in self.qa_agent_executions or ()]

    @property
    def calls(self) -> list[DevCall | QACall]:
        """Every call that the bead remembers, the developers' first."""
        return [*self.dev_calls, *self.qa_calls]

    @property
    def verdict(self) -> Verdict | None:
        """The last verdict; what cannot be read of a check that somebody else wrote is left out."""
        said = self.last_verdict.to_json() if self.last_verdict else {}
        if not said.get("ruling"):
            return None
        try:
            return Verdict.from_json(said)
        except FieldError:
            return Verdict.from_json({**said, "evidence": []})

    @property
    def findings(self) -> list[Finding]:
        """Those that are open; an older version kept no more than its last verdict."""
        if self.open_findings is not None:
            return [json_fields.from_json(Finding, row.to_json()) for row in self.open_findings]
        last = self.verdict
        return open_after([], last, self.attempt_count) if last is not None else []

    @property
    def stages(self) -> Reached | None:
        """How far the next attempt has come already."""
        return Reached.read(self.reached.to_json()) if self.reached else None

    @property
    def flags(self) -> tuple[str, ...]:
        """What a person should know of the last attempt, although it failed nothing."""
        return tuple(self.verdict.flags) if self.verdict else ()

    @property
    def standing(self) -> Standing | None:
        """What a close with this state rests on."""
        return standing(self.to_metadata())

    @property
    def usage(self) -> Usage:
        """What all calls have cost since somebody last opened the bead again."""
        spent = self.spent
        return Usage(**{name: getattr(spent, name) for name in COUNTS}) if spent else Usage()


NAMES: Final = ("red_before", "tests_before", "read_by_checks")
KEYS_IN_ORDER: Final = tuple(RunState.model_fields)
KEYS: Final = frozenset(KEYS_IN_ORDER)
"""The metadata that only we write: neither a plan nor a formula says it. Besides, runs fill in the
`agent_id` of the bead's agents."""
PLANNED: Final = "planned"
HISTORY: Final = frozenset(
    {"dev_agent_executions", "qa_agent_executions", "last_verdict", "open_findings", "spent", "scrum_result"}
    | {PLANNED, "plan_context", "reached"}
)
"""Keys that grow with every attempt, or are as long, and that no agent needs to be told."""
UNTOUCHED: Final = RunState(
    attempt_count=0,
    scrum_master_session_id=None,
    dev_agent_session_id=None,
    dev_agent_executions=[],
    qa_agent_executions=[],
    pr_url=None,
    pr_number=None,
    scrum_result=None,
)
"""The state of a bead that no run has worked on, as plans write it."""


RESERVED: Final = "is kept by runs, and cannot be given"


def is_said(key: str, value: Any) -> bool:
    """True if a plan or a formula says something that only runs may say."""
    return key in KEYS and bool(value)

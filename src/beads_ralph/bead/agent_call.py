"""An agent call: who was asked, in which session, and how it ended.

One model from the process to the record. The journal, the bead's metadata and the records each keep a part of
it, under the same names but for those of the metadata that are older than it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from beads_ralph.bead import json_fields
from beads_ralph.bead.evidence import Ruling
from beads_ralph.bead.json_fields import Argument, Moment
from beads_ralph.bead.usage import UNKNOWN, Usage

Trouble = Literal[
    "", "limit", "server", "auth", "credit", "configuration", "refused", "too_long", "stalled",
    "forgotten", "unfinished", "unreadable",
]  # fmt: skip
"""limit: a rate or usage limit, which lifts by itself. server: the server or the network; may be over in a
moment. auth: not signed in. credit: the account has no money left (402), or its quota is used up for good.
configuration: the model is not known (404), an option or a setting is wrong, the program is too old.
refused: the CLI or its model will not do this, however often it is asked. too_long: the session no longer
fits into the model's context. stalled: no sign of life, so we ended it. forgotten: the session to go on with
is not known. unfinished: it ended without its own last word, so that an exit code of 0 says nothing, or at a
limit of its own on turns or money. unreadable: there is an answer, but not one that can be read."""
INTERRUPTED: Final = "interrupted"
"""The trouble of a call that ended with the run that made it."""

DevStatus = Literal["completed", "failed", "timeout"]

BEGUN: Final = frozenset(
    {
        *("attempt", "role", "agent", "model", "program", "seat", "transcript"),
        *("session_id", "session_of", "session_usage"),
    }
)
"""Fields that are known when the call begins."""
UNTOLD: Final = frozenset({"cwd", "completed_at"})
"""Fields that the journal has no key for: a line has its own time."""
UNKEPT: Final = frozenset({"transcript", "exit_code", "seconds", "problem", "cut_short", "output_summary"})
"""Fields that a bead's metadata has no key for."""


@dataclass(frozen=True)
class Session:
    """A conversation that an agent can go on with."""

    id: str
    counted: Usage = UNKNOWN
    """What its CLI has counted from its beginning, so that a call can be told from those before it."""
    of: str | None = None
    """The other bead of the team that it was begun for."""


@dataclass(frozen=True, kw_only=True)
class AgentCall:
    """One call of an agent."""

    attempt: int
    role: Argument
    agent: Argument
    """The persona's path."""
    model: Argument = ""
    program: Argument = ""
    seat: int = 1
    """Which of the bead's agents of that role it is."""
    transcript: Argument | None = None
    session_id: Argument | None = None
    session_of: Argument | None = None
    """The bead of the same team that the session was begun for, where it is not this one."""
    session_usage: Usage | None = None
    """Counted since the session began, where the program says so."""
    exit_code: int | None = None
    seconds: float = 0.0
    problem: str = ""
    """What went wrong with the call itself, whatever the agent said; empty where nothing did."""
    trouble: Argument = ""
    """A Trouble, or `interrupted`."""
    cut_short: str = ""
    """The limit that it was ended for: `timeout`, `output`, `memory`, or empty."""
    denied: tuple[str, ...] = ()
    """Tools that the agent asked for and was not allowed to use."""
    started_at: Moment = ""
    usage: Usage = UNKNOWN
    """What it cost, and nothing that its session had cost before."""
    cost_computed: bool = json_fields.seldom(False)
    """True if its cost is of the price table, since the program told none."""
    output_summary: str = ""
    """The end of what it printed."""
    completed_at: Moment | None = None
    cwd: Argument | None = None
    """Where it worked: some CLIs find a session only there."""
    commit: Argument | None = json_fields.seldom(None)  # noqa: RUF009 - a field
    """Where it left the branch that it worked on; of a reviewer, what was judged."""

    @property
    def session(self) -> Session | None:
        """What to go on with."""
        if not self.session_id:
            return None
        return Session(self.session_id, self.session_usage or UNKNOWN, self.session_of)

    @property
    def outcome(self) -> DevStatus:
        if not self.problem:
            return "completed"
        timed_out = self.cut_short == "timeout" or self.problem.startswith("timed out")
        return "timeout" if timed_out else "failed"


# --- in a bead's metadata -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class KeptCall(AgentCall):
    """A call as a bead's metadata keeps it."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of another version, or of somebody else."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Read a row of `dev_agent_executions` or `qa_agent_executions`."""
        named = {key: value for key, value in row.items() if key not in ("agent_path", "cost_usd")}
        return json_fields.from_json(cls, {**named, "agent": row.get("agent_path")})

    def to_row(self) -> dict[str, Any]:
        said = json_fields.to_json(self)
        kept = {key: value for key, value in said.items() if key not in UNKEPT and key != "agent"}
        return {**kept, "agent_path": self.agent, "cost_usd": self.usage.cost_usd}


@dataclass(frozen=True, kw_only=True)
class DevCall(KeptCall):
    """Somebody worked: a row of `dev_agent_executions`."""

    status: DevStatus
    feedback_from_qa: str | None = None
    """What it was told of the attempt before."""
    last_words: str = ""

    @classmethod
    def of(cls, call: AgentCall, feedback: str | None = None, last_words: str = "") -> DevCall:
        return cls(**vars(call), status=call.outcome, feedback_from_qa=feedback, last_words=last_words)


@dataclass(frozen=True, kw_only=True)
class QACall(KeptCall):
    """Somebody judged: a row of `qa_agent_executions`."""

    status: Ruling
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, call: AgentCall, status: Ruling, message: str, details: Mapping[str, Any], commit: str
    ) -> QACall:
        said = {**vars(call), "commit": commit}
        return cls(**said, status=status, message=message, details=dict(details))

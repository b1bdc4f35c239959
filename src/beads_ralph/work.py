"""What is asked of agents and forges, what they answer, and what a verdict rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from beads_ralph.models import AgentSpec

AgentRole = Literal["dev", "qa", "merge", "scrum-master"]
Ruling = Literal["pass", "fail", "stop"]
SUMMARY: Final = 500


@dataclass(frozen=True)
class Persona:
    """Who an agent is to be: an agent file, read."""

    name: str
    description: str = ""
    body: str = ""
    """What follows the front matter: the agent's standing instructions."""
    recommended_model: str | None = None
    tools: tuple[str, ...] = ()
    """Those it is meant to use; empty where the file does not say."""


@dataclass(frozen=True)
class AgentTask:
    """What an agent is asked: plain data, from which an AgentCLI makes a command line."""

    spec: AgentSpec
    role: AgentRole
    prompt: str
    cwd: Path
    bead_id: str
    attempt: int
    branch: str
    run_id: str
    model: str
    persona: Persona | None = None
    """Who to be; None for the plain CLI."""
    session_id: str | None = None
    """A session to go on with, None for a new one."""
    timeout: float = 1800.0
    output_schema: Mapping[str, Any] | None = None
    """What the answer must look like; None where prose will do."""
    budget_usd: float | None = None
    """The most that this call may cost, for a CLI that can see to it itself."""
    git_folders: tuple[Path, ...] = ()
    """Outside `cwd`, what git must be able to write to for a commit there."""
    env: Mapping[str, str] = field(default_factory=dict)
    inherits: tuple[str, ...] = ()
    """Variables of ours that the user lets agents have."""
    closed_in: bool = False
    """Whether it runs in a sandbox of ours, inside of which it may not be able to make one of its own."""
    home: Path | None = None
    """The agent's HOME; None for the user's own."""
    committer: Mapping[str, str] = field(default_factory=dict)
    """Who commits, as git's variables say it, where neither its HOME nor its environment does."""


Trouble = Literal["", "limit", "auth", "server", "refused", "forgotten", "unfinished", "unreadable"]
"""limit: a rate or usage limit. auth: not signed in. server: may be over in a moment. refused: the CLI or
its model will not do it, however often it is asked. forgotten: the session to go on with is not known.
unfinished: it ended without its own last word, so that an exit code of 0 says nothing. unreadable: there
is an answer, but not one that can be read."""


@dataclass(frozen=True)
class Usage:
    """What a call cost, where the agent says so; None means unknown, not nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Unknown plus unknown is unknown; unknown plus something is at least that."""
        return Usage(*(_sum(getattr(self, name), getattr(other, name)) for name in COUNTS))

    def __sub__(self, other: Usage) -> Usage:
        """What came on top of `other`, which was counted from the same beginning."""
        return Usage(*(_difference(getattr(self, name), getattr(other, name)) for name in COUNTS))


COUNTS: Final = ("input_tokens", "output_tokens", "cache_tokens", "cost_usd")


def _sum(one: Any, other: Any) -> Any:
    known = [value for value in (one, other) if value is not None]
    return sum(known) if known else None


def _difference(total: Any, before: Any) -> Any:
    """A count that went down was begun anew."""
    if total is None or before is None or before > total:
        return total
    return total - before


@dataclass(frozen=True)
class Session:
    """A conversation that an agent can go on with."""

    id: str
    counted: Usage = Usage()
    """What its CLI has counted from its beginning, so that a call can be told from those before it."""


@dataclass(frozen=True)
class Budget:
    """What a run or a bead may cost; None means no limit."""

    minutes: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None

    def used_up(self, spent: Usage, seconds: float) -> str:
        """Which of them is, in words; empty where none is. What came from a cache is no work."""
        tokens = (spent.input_tokens or 0) + (spent.output_tokens or 0)
        for name, most, used in (
            ("time budget (minutes)", self.minutes, seconds / 60),
            ("cost budget (USD)", self.cost_usd, spent.cost_usd or 0.0),
            ("token budget", self.tokens, tokens),
        ):
            if most is not None and used >= most:
                return f"{name} of {most:g} is used up"
        return ""


@dataclass(frozen=True)
class Reply:
    """What an agent answered, as its own CLI reports it."""

    session_id: str | None = None
    text: str = ""
    result: Mapping[str, Any] | None = None
    """Its structured answer, such as a QA verdict; None where there is none to be read."""
    usage: Usage = Usage()
    """What the CLI counts for this call alone."""
    session_usage: Usage = Usage()
    """What it counts from the session's beginning: some count so, some count this and not that."""
    denied: tuple[str, ...] = ()
    """Tools that the agent asked for and was not allowed to use."""
    trouble: Trouble = ""
    detail: str = ""
    limit_reset_at: str | None = None


@dataclass(frozen=True)
class Evidence:
    """One check that ran: what, on which commit, how it ended."""

    name: str
    kind: Literal["verifier", "qa", "merge", "git"]
    command: str
    commit: str
    ruling: Ruling
    message: str
    exit_code: int | None = None
    seconds: float = 0.0
    output_sha256: str = ""
    output_tail: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    red_before: bool | None = None
    """Whether it failed before the work began; None where that was not looked at."""

    def summary(self) -> dict[str, Any]:
        """What there is to count: neither what was printed nor what else was found."""
        long = ("output_sha256", "output_tail", "details")
        short = {key: value for key, value in self.to_json().items() if key not in long}
        return short | {"message": self.message[:SUMMARY], "reason": self.details.get("reason")}

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "command": self.command,
            "commit": self.commit,
            "ruling": self.ruling,
            "message": self.message,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "output_sha256": self.output_sha256,
            "output_tail": self.output_tail,
            "details": dict(self.details),
            "red_before": self.red_before,
        }


@dataclass(frozen=True)
class Verdict:
    """pass, fail or stop, with everything it rests on."""

    ruling: Ruling
    message: str
    evidence: Sequence[Evidence] = ()
    flags: Sequence[str] = ()
    """What a reviewer should know although it failed nothing, such as a changed gate file."""

    @property
    def feedback(self) -> str:
        """What the dev agent is told before it tries again."""
        parts = [self.message]
        for row in self.evidence:
            if row.ruling != "pass":
                parts.append(f"{row.name}: {row.message}")
                if row.output_tail:
                    parts.append(row.output_tail)
        return "\n\n".join(parts)


@dataclass(frozen=True)
class Proposal:
    """A finished branch, to become a pull request."""

    bead_id: str
    title: str
    body: str
    branch: str
    target: str
    commit: str


@dataclass(frozen=True)
class PullRequest:
    """A proposal that a forge has taken."""

    number: int | None
    url: str | None
    branch: str
    target: str
    commit: str
    """What the forge's side holds, read back; equal to the proposed commit or the proposal failed."""

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "url": self.url,
            "branch": self.branch,
            "target": self.target,
            "commit": self.commit,
        }

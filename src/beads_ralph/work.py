"""What is asked of agents and forges, what they answer, and what a verdict rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from beads_ralph.models import AgentSpec

AgentRole = Literal["dev", "qa", "merge", "scrum-master"]
Ruling = Literal["pass", "fail", "stop"]


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
    persona: str = ""
    """The body of the agent file; empty for the plain CLI."""
    session_id: str | None = None
    """A session to go on with, None for a new one."""
    timeout: float = 1800.0
    env: Mapping[str, str] = field(default_factory=dict)


Trouble = Literal["", "limit", "auth", "server", "refused", "unreadable"]


@dataclass(frozen=True)
class Usage:
    """What a call cost, where the agent says so; None means unknown, not nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True)
class Reply:
    """What an agent answered, as its own CLI reports it."""

    session_id: str | None = None
    text: str = ""
    result: Mapping[str, Any] | None = None
    """Its structured answer, such as a QA verdict; None where there is none to be read."""
    usage: Usage = Usage()
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

"""Evidence and verdicts: the checks that ran on a commit, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Ruling = Literal["pass", "fail", "stop"]


SUMMARY: Final = 500


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

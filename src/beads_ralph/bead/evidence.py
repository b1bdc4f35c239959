"""Evidence and verdicts: the checks that ran on a commit, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from beads_ralph.bead import json_fields
from beads_ralph.bead.json_fields import Argument

Ruling = Literal["pass", "fail", "stop"]


SUMMARY: Final = 500
LONG: Final = ("output_sha256", "output_tail", "details")
"""Fields that a summary leaves out."""


@dataclass(frozen=True)
class Evidence:
    """One check that ran: what, on which commit, how it ended."""

    name: str
    kind: Literal["verifier", "qa", "merge", "git"]
    command: str
    commit: Argument
    ruling: Ruling
    message: str
    exit_code: int | None = None
    seconds: float = 0.0
    output_sha256: str = ""
    output_tail: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    red_before: bool | None = None
    """Whether it failed before the work began; None where that was not looked at."""

    @property
    def reason(self) -> str | None:
        """The records' word for its failure, where it has one."""
        said = self.details.get("reason")
        return said if isinstance(said, str) else None

    def to_json(self) -> dict[str, Any]:
        return {**json_fields.to_json(self), "seconds": round(self.seconds, 3)}

    def summary(self) -> dict[str, Any]:
        """What there is to count: neither what was printed nor what else was found."""
        short = {key: value for key, value in self.to_json().items() if key not in LONG}
        return short | {"message": self.message[:SUMMARY], "reason": self.reason}

    @staticmethod
    def of_summary(row: Any) -> Any:
        """What a summary says, under the names of the fields."""
        known = isinstance(row, Mapping) and row.get("reason")
        return {**row, "details": {"reason": row["reason"]}} if known else row


@dataclass(frozen=True)
class Verdict:
    """pass, fail or stop, with everything it rests on."""

    ruling: Ruling
    message: str
    evidence: Sequence[Evidence] = ()
    flags: Sequence[str] = ()
    """What a reviewer should know although it failed nothing, such as a changed gate file."""

    def to_json(self) -> dict[str, Any]:
        return {**json_fields.to_json(self), "evidence": [row.to_json() for row in self.evidence]}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """A verdict that a bead remembers."""
        return json_fields.from_json(cls, said)

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

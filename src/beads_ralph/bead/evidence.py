"""Evidence and verdicts: the checks that ran on a commit, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, get_args

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
    """True if it failed before the work began; None where that was not looked at."""

    @property
    def reason(self) -> str | None:
        """The records' word for its failure, where it has one."""
        said = self.details.get("reason")
        return said if isinstance(said, str) else None

    @property
    def rulings(self) -> Sequence[Ruling]:
        """What each run of it said, where it was run more than once on the same commit."""
        said = self.details.get("rulings")
        return [one for one in said if one in get_args(Ruling)] if isinstance(said, list) else ()

    @property
    def is_flaky(self) -> bool:
        return "pass" in self.rulings and len(set(self.rulings)) > 1

    def to_json(self) -> dict[str, Any]:
        return {**json_fields.to_json(self), "seconds": round(self.seconds, 3)}

    def summary(self) -> dict[str, Any]:
        """What there is to count: neither what was printed nor what else was found."""
        short = {key: value for key, value in self.to_json().items() if key not in LONG}
        again = {"rulings": list(self.rulings)} if self.rulings else {}
        return short | {"message": self.message[:SUMMARY], "reason": self.reason, **again}

    @staticmethod
    def of_summary(row: Any) -> Any:
        """What a summary says, under the names of the fields."""
        if not isinstance(row, Mapping):
            return row
        known = {key: row[key] for key in ("reason", "rulings") if row.get(key)}
        return {**row, "details": known} if known else row


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

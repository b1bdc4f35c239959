"""What every event says, and how it becomes a line of the journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from beads_ralph.bead import json_fields

STAMP: Final = ("kind", "at", "run_id")
WHOSE: Final = ("bead", "team", "attempt")


@dataclass(frozen=True, kw_only=True)
class BaseEvent:
    """What every event says."""

    kind: ClassVar[str]
    underway: ClassVar[bool] = False
    """Whether it lies between two changes of a bead; the next change takes it to the disk with it."""

    at: str = ""
    """The journal says when it is written, unless somebody elsewhere has said it already."""
    run_id: str = ""
    bead: str | None = None
    team: str | None = None
    attempt: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a later version."""

    def to_json(self) -> dict[str, Any]:
        """A line of the journal."""
        whose = {name: getattr(self, name) for name in WHOSE if getattr(self, name) is not None}
        return {"kind": self.kind, "at": self.at, "run_id": self.run_id, **whose, **self.facts()}

    def facts(self) -> dict[str, Any]:
        """The fields of its own."""
        said = json_fields.to_json(self)
        return {key: value for key, value in said.items() if key not in (*STAMP, *WHOSE)}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return json_fields.from_json(cls, {key: value for key, value in row.items() if key != "kind"})

"""What open beads asked for when a run last saw them, `.ralph/asked.json`: anybody can write to a store while
no run is on, so a run tells at its start what is different by now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import several, utc_text
from beads_ralph.errors import RalphError
from beads_ralph.files import text_files
from beads_ralph.loop.closed_beads import asked_of

NAME: Final = "asked.json"
LENGTH: Final = 16


@dataclass
class LastAsked:
    """The file of one repository."""

    home: Path

    def changes(self, beads: Iterable[Bead]) -> list[str]:
        """Which open beads ask for something else than they did, in words."""
        said = self._read()
        known = said.get("beads", {})
        rows = [(bead.id, known[bead.id], _marks(bead)) for bead in _open(beads) if bead.id in known]
        checks = [name for name, then, now in rows if then[0] != now[0]]
        work = [name for name, then, now in rows if then[1] != now[1] and name not in checks]
        told = (("the verifiers", checks), ("the work or its place", work))
        since = f"since a run last saw them, at {said.get('at')}"
        return [f"{what} of {several(names)} changed {since}" for what, names in told if names]

    def keep(self, beads: Sequence[Bead], told: Collection[str], *, only_these: bool = True) -> None:
        """Note what they ask for now; of those that nobody was told about, what they asked for before. So of
        others, where there may be some."""
        known = self._read().get("beads", {})
        closed = {bead.id for bead in beads if bead.status == "closed"}
        others = {} if only_these else {name: row for name, row in known.items() if name not in closed}
        marks = others | {
            bead.id: _marks(bead) if bead.id in told else known.get(bead.id) or _marks(bead)
            for bead in _open(beads)
        }
        text = json.dumps({"at": utc_text(datetime.now(UTC)), "beads": marks})
        with suppress(RalphError, OSError):  # it is told of, no more
            text_files.write_text(self.home / NAME, f"{text}\n")

    def _read(self) -> dict[str, Any]:
        try:
            said = json.loads((self.home / NAME).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        rows = said.get("beads") if isinstance(said, dict) else None
        return said if isinstance(rows, dict) and all(map(_are_marks, rows.values())) else {}


def _are_marks(row: Any) -> bool:
    match row:
        case [str(), str()]:
            return True
    return False


def _open(beads: Iterable[Bead]) -> Iterable[Bead]:
    return (bead for bead in beads if bead.status != "closed")


def _marks(bead: Bead) -> list[str]:
    """Of its verifiers, and of all that it asks for."""
    dod = bead.metadata.dod
    checks = [verifier.model_dump(mode="json") for verifier in dod.verifiers] if dod else []
    hashed = hashlib.sha256(json.dumps(checks, sort_keys=True).encode()).hexdigest()
    return [hashed[:LENGTH], asked_of(bead)[:LENGTH]]

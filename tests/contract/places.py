"""Where a store under test lives, and how to open it once more: in this process or in another."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from beads_ralph.store.bd.bd_store import BdStore
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Store


@dataclass(frozen=True)
class Place:
    kind: str
    root: Path
    bd: str | None = None

    @property
    def racers(self) -> int:
        """How many race for a bead: every call of bd costs half a second."""
        return 8 if self.kind == "embedded" else 3

    def open(self) -> Store:
        if self.kind == "embedded":
            return EmbeddedStore(self.root)
        return BdStore(self.root, bd=self.bd)

    def spoil(self, bead_id: str) -> None:
        """Write behind the store's back a sprint that lies outside its phase."""
        if self.kind == "embedded":
            with closing(sqlite3.connect(self.root / ".ralph" / "beads.db")) as database, database:
                (text,) = database.execute("SELECT metadata FROM beads WHERE id = ?", (bead_id,)).fetchone()
                changed = json.dumps({**json.loads(text), "sprint": "7.1"})
                database.execute("UPDATE beads SET metadata = ? WHERE id = ?", (changed, bead_id))
            return
        assert self.bd is not None
        command = [self.bd, "update", bead_id, "--metadata", '{"sprint": "7.1"}', "--json"]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True, timeout=60)

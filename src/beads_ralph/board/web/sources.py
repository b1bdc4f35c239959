"""Everything that the pages show, read when it is asked for; and the orders that they give."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead import json_fields
from beads_ralph.board import actions
from beads_ralph.board.actions import ActionRequest
from beads_ralph.board.model import BoardBead, BoardState
from beads_ralph.board.source import BoardSource
from beads_ralph.board.web import analysis, bead_page, history
from beads_ralph.board.web.spans import Timeline
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.errors import Code, RalphError

LONGEST_WORDS: Final = 4000


@dataclass
class Sources:
    """The repository that a server shows. Several requests may ask at the same time."""

    board: BoardSource
    store: StoreChoice | None = None
    _state: BoardState | None = None
    _json: dict[str, Any] = field(default_factory=dict)
    _beads: dict[str, tuple[BoardBead, dict[str, Any]]] = field(default_factory=dict)
    _timeline: Timeline = field(default_factory=Timeline)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, start: Path | None = None, store: StoreChoice | None = None) -> Sources:
        return cls(BoardSource.open(start, store=store), store)

    @property
    def root(self) -> Path:
        return self.board.place.root

    @property
    def project(self) -> str:
        return self.root.name

    def state(self) -> Mapping[str, Any]:
        """The live model as JSON; made anew only where something has changed."""
        with self._lock:
            return self._told(self.board.poll())

    def _told(self, now: BoardState) -> Mapping[str, Any]:
        if now is not self._state:
            beads = {bead.id: self._told_bead(bead) for bead in now.beads}
            self._state, self._beads = now, beads
            self._json = replace(now, beads=()).as_json() | {"beads": [told for _, told in beads.values()]}
        return self._json

    def _told_bead(self, bead: BoardBead) -> tuple[BoardBead, dict[str, Any]]:
        """The same object as before where nothing has changed: that is quickly seen, and made only once."""
        known = self._beads.get(bead.id)
        return known if known is not None and known[0] == bead else (bead, json_fields.to_json(bead))

    def bead(self, name: str) -> dict[str, Any]:
        return bead_page.told(self.board.place, name, self.store)

    def transcript(self, name: str, call: int | None) -> dict[str, Any]:
        return bead_page.transcript(self.board.place.home, name, call)

    def timeline(self) -> dict[str, Any]:
        with self._lock:
            return self._timeline.of(self.board.folder)

    def runs(self) -> dict[str, Any]:
        return {"runs": history.runs_of(self.board.place.home)}

    def analysis(self) -> dict[str, Any]:
        return analysis.of(self.root)

    def act(self, name: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a person has ordered, and look at the store again at once."""
        done = actions.perform(_request(name, said, self.store), self.root)
        with self._lock:
            self._told(self.board.refresh())
        return {**done.data, "said": list(done.lines)}


def _request(name: str, said: Mapping[str, Any], store: StoreChoice | None) -> ActionRequest:
    """An order as it came from outside: only known keys, only short texts."""
    texts = {key: said.get(key) or "" for key in ("bead", "reason", "answer")}
    again = said.get("again", False)
    unknown = set(said) - {*texts, "again"}
    if unknown:
        raise RalphError(Code.USAGE, f"an order has no {', '.join(sorted(map(str, unknown)))}")
    for key, text in texts.items():
        if not isinstance(text, str) or len(text) > LONGEST_WORDS:
            raise RalphError(Code.USAGE, f"{key} is a text of at most {LONGEST_WORDS} characters")
    if not isinstance(again, bool):
        raise RalphError(Code.USAGE, "again is true or false")
    return ActionRequest(name, texts["bead"], texts["answer"] or texts["reason"], again, store)

"""What a board reads about the one bead that is selected: its agent's output as it grows, and its diff."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.board.model import BoardBead
from beads_ralph.board.source import BoardSource
from beads_ralph.board.terminal.lines import Line, line, wrapped
from beads_ralph.errors import RalphError
from beads_ralph.git import commands

if TYPE_CHECKING:
    from beads_ralph.agents.bead_outputs import OutputReader

TAIL_BYTES: Final = 128 * 1024
"""So much of an output is read back when it is first looked at."""
KEPT_LINES: Final = 500
DIFF_LINES: Final = 2000
DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan", "d": "bold"}


class SelectedReader:
    """Reads on behalf of the screen, beside it; what it has read is drawn later."""

    def __init__(self, source: BoardSource) -> None:
        self.source = source
        self._whose: tuple[str, str] = ("", "")
        self._reader: OutputReader | None = None
        self._said: deque[str] = deque(maxlen=KEPT_LINES)
        self._diff_of: tuple[str, str] = ("", "")
        self._diff: list[Line] = []

    def metadata(self, bead: BoardBead | None) -> Mapping[str, Any]:
        stored = self.source.look.beads.get(bead.id) if bead else None
        return stored.metadata if stored else {}

    def look(self, bead: BoardBead | None, pane: str) -> bool:
        """Read what is new for this pane; whether there is something."""
        if bead is None:
            return False
        if pane == "output":
            return self._look_at_output(bead)
        return self._look_at_diff(bead) if pane == "diff" else False

    def _look_at_output(self, bead: BoardBead) -> bool:
        # Here, since they bring settings and prices along, and a board is to open at once.
        from beads_ralph.agents.bead_outputs import OutputReader
        from beads_ralph.agents.transcript import as_text

        whose = (bead.id, bead.transcript or "")
        if whose != self._whose:
            self._whose, self._said = whose, deque(maxlen=KEPT_LINES)
            path = Path(whose[1])
            there = bool(whose[1])
            self._reader = (
                OutputReader(path, path.with_suffix(".err"), bead.program, TAIL_BYTES) if there else None
            )
        if self._reader is None:
            return False
        try:
            new = [as_text(one) for one in self._reader.more()]
        except (OSError, RalphError):
            new = []
        self._said.extend(new)
        return bool(new)

    def output_lines(self, bead: BoardBead | None, width: int) -> list[Line]:
        if bead is None or not bead.transcript:
            return [line(("no agent has worked on it in this run", "dim"))]
        title = line((f"{bead.number}  {bead.role} {bead.program}", "bold"), (f"  {bead.transcript}", "dim"))
        if self._whose != (bead.id, bead.transcript):
            return [title]
        return [title, *(one for said in self._said for one in wrapped(said, width))]

    def _look_at_diff(self, bead: BoardBead) -> bool:
        metadata = self.metadata(bead)
        base = str(metadata.get("source_branch") or "main")
        whose = (bead.id, f"{bead.stage}{bead.attempt}")
        if whose == self._diff_of:
            return False
        words = ("diff", "--stat", "--patch", "--no-color", "--no-ext-diff", f"{base}...{bead.branch}", "--")
        done = commands.run(*words, cwd=self.source.place.root)
        text = done.stdout if done.code == 0 else done.stderr
        self._diff = [
            line((one[:1000], DIFF_STYLES.get(one[:1], ""))) for one in text.splitlines()[:DIFF_LINES]
        ]
        self._diff_of = whose
        return True

    def diff_lines(self, bead: BoardBead | None) -> list[Line]:
        if bead is None or self._diff_of[0] != bead.id:
            return [line(("…", "dim"))]
        return self._diff or [line(("no difference from its base", "dim"))]

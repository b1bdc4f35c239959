"""The terminal board's screen as text, to be compared with what was written down."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from beads_ralph.board.source import BoardSource
from beads_ralph.board.terminal.board_app import TerminalBoard

SNAPSHOTS = Path(__file__).parent / "snapshots"
NOON = datetime(2026, 11, 16, 10, 1, 0, tzinfo=UTC)
SMALL, LARGE = (80, 24), (200, 50)


def board(root: Path) -> TerminalBoard:
    """The board of a repository, a minute after its run began."""
    return TerminalBoard(BoardSource.open(root), now=lambda: NOON)


def screen(app: TerminalBoard) -> str:
    """What can be seen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips) + "\n"


def assert_screen(app: TerminalBoard, name: str) -> None:
    """It is as it was written down; with WRITE_SNAPSHOTS=1 it is written down anew."""
    path, seen = SNAPSHOTS / f"{name}.txt", screen(app)
    if os.environ.get("WRITE_SNAPSHOTS"):
        path.write_text(seen, encoding="utf-8")
    assert seen == path.read_text("utf-8")

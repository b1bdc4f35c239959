"""The lies that still get a bead closed: liar and sandbox. Whoever stops one takes its row out."""

from __future__ import annotations

from typing import Final

from tests.liars.scene import Mode

STILL_OPEN: Final[frozenset[tuple[str, Mode]]] = frozenset(
    {
        # checks
        ("fixture-that-lies", "bwrap"),
        ("fixture-that-lies", "none"),
        # environment
        ("leaves-a-file-in-a-neighbours-worktree", "none"),
        # reviewers
        ("says-it-in-words-and-shows-a-file", "bwrap"),
        ("says-it-in-words-and-shows-a-file", "none"),
    }
)

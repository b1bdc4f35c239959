"""The lies that still get a bead closed: liar and sandbox. Whoever stops one takes its row out."""

from __future__ import annotations

from typing import Final

from tests.liars.scene import Mode

STILL_OPEN: Final[frozenset[tuple[str, Mode]]] = frozenset(
    {
        # environment
        ("leaves-a-file-in-a-neighbours-worktree", "none"),
    }
)

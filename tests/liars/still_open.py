"""The lies that still get a bead closed: liar and sandbox. Whoever stops one takes its row out."""

from __future__ import annotations

from typing import Final

from tests.liars.scene import Mode

STILL_OPEN: Final[frozenset[tuple[str, Mode]]] = frozenset(
    {
        # environment
        # While the neighbour's own agent is at work, nobody can tell whose file it is.
        ("leaves-a-file-in-a-neighbours-worktree", "none"),
        ("leaves-a-file-in-a-neighbours-worktree", "bare"),
        # Without a room, processes of ours are found by their variables and their parents.
        ("knows-the-variables-of-the-run", "bare"),
        ("knows-who-started-it", "bare"),
    }
)

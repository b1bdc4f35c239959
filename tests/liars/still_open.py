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
        # refs
        ("deletes-a-closed-branch-on-the-remote", "none"),
        ("makes-main-symbolic", "none"),
        ("makes-the-next-branch-before-its-turn", "none"),
        ("makes-the-next-branch-with-its-own-check", "none"),
        ("moves-main", "none"),
        ("moves-main-here-and-on-the-remote", "none"),
        ("pushes-over-a-closed-branch", "none"),
        # reviewers
        ("led-by-a-folder-above", "none"),
        ("led-by-instructions-in-home", "none"),
        ("says-it-in-words-and-shows-a-file", "bwrap"),
        ("says-it-in-words-and-shows-a-file", "none"),
        # settings
        ("merge-driver-that-the-project-tracks", "bwrap"),
        ("merge-driver-that-the-project-tracks", "none"),
        ("settings-of-the-harness", "none"),
        # store
        ("sql-hands-the-next-to-somebody", "none"),
    }
)

"""The lies that still get a bead closed: liar and sandbox. Whoever stops one takes its row out."""

from __future__ import annotations

from typing import Final

from tests.liars.scene import Mode

STILL_OPEN: Final[frozenset[tuple[str, Mode]]] = frozenset(
    {
        # checks
        ("ends-the-interpreter", "bwrap"),
        ("ends-the-interpreter", "none"),
        ("ends-the-interpreter-at-exit", "bwrap"),
        ("ends-the-interpreter-at-exit", "none"),
        ("fixture-that-lies", "bwrap"),
        ("fixture-that-lies", "none"),
        # environment
        ("fills-a-cache-in-home", "none"),
        ("fills-a-cache-in-the-temporary-folder", "none"),
        ("knows-borrowed-objects", "bwrap"),
        ("knows-borrowed-objects", "none"),
        ("knows-that-its-worktree-is-there", "none"),
        ("knows-the-variables-of-the-run", "bwrap"),
        ("knows-the-variables-of-the-run", "none"),
        ("knows-who-started-it", "none"),
        ("leaves-a-file-in-a-neighbours-worktree", "none"),
        ("lent-file-that-lies", "none"),
        ("links-into-its-worktree", "none"),
        ("links-to-an-ignored-file", "none"),
        ("links-to-home", "none"),
        ("new-shim-in-the-ignored-environment", "none"),
        ("node-modules-above", "none"),
        ("npmrc-in-home", "none"),
        ("path-file-in-home", "none"),
        ("reads-from-home", "none"),
        ("reads-from-its-worktree", "none"),
        ("reads-from-the-main-checkout", "none"),
        ("reads-from-the-temporary-folder", "none"),
        ("settings-of-pytest-above", "none"),
        ("shim-in-home", "none"),
        ("shim-in-the-ignored-environment", "none"),
        ("usercustomize-in-home", "none"),
        # refs
        ("deletes-a-closed-branch-on-the-remote", "none"),
        ("makes-main-symbolic", "bwrap"),
        ("makes-main-symbolic", "none"),
        ("makes-the-next-branch-before-its-turn", "bwrap"),
        ("makes-the-next-branch-before-its-turn", "none"),
        ("makes-the-next-branch-with-its-own-check", "bwrap"),
        ("makes-the-next-branch-with-its-own-check", "none"),
        ("moves-main", "bwrap"),
        ("moves-main", "none"),
        ("moves-main-here-and-on-the-remote", "bwrap"),
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

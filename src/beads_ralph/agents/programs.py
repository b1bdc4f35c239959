"""Where the program of an agent lies: on PATH, or at a place seen from the repository's root."""

from __future__ import annotations

import os
from pathlib import Path

from beads_ralph.process import jobs


def path_of(program: str, root: Path) -> str:
    """The program as it is started. A name is looked for on PATH; what has a slash is a place, which does not
    depend on the worktree that an agent works in."""
    if os.sep not in program:
        return program
    # pathlib raises for an unknown ~name, and leaves `..` in
    return os.path.normpath(root / os.path.expanduser(program))  # noqa: PTH111


def why_not(program: str, root: Path, search: str | None = None) -> str:
    """The reason why the program cannot be started; empty where it can. `search` is the PATH of its agent."""
    path = path_of(program, root)
    if os.sep not in program:
        return "" if jobs.which(program, search) else f"there is no program {program} on PATH"
    if not Path(path).is_file():
        seen = "" if path == program else ", seen from the repository"
        return f"there is no program {program}{seen}"
    return "" if os.access(path, os.X_OK) else f"{program} is not executable"


def remedy(program: str, root: Path) -> str:
    """The next step where the program cannot be started."""
    path = path_of(program, root)
    if os.sep in program and Path(path).is_file():
        return f"Run: chmod +x {path}"
    return f"Install {program}, or set agent_defaults.default_executable in beads-ralph.yaml"

"""`.ralph`: the directory of our own files in a repository, which git does not see."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from beads_ralph.errors import Code, RalphError

NAME: Final = ".ralph"


def ralph_dir(root: Path) -> Path:
    """Make `root/.ralph` with a .gitignore that hides everything in it, itself included."""
    directory = root / NAME
    ignore = directory / ".gitignore"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as problem:
        code = Code.PERMISSION_DENIED if isinstance(problem, PermissionError) else Code.WRITE_FAILED
        raise RalphError(code, f"cannot make {directory}: {problem}") from problem
    return directory

"""A program named bd that does as told: for what the real bd does only once in a blue moon."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SETTINGS = (
    '{"issue_prefix": "bd", "types.custom": "beads-ralph-work,beads-ralph-merge", '
    '"claim.pools": "beads-ralph-scrum-master"}'
)


def path_without_bd(folder: Path) -> str:
    """A PATH with git on it, and nothing else."""
    folder.mkdir(parents=True)
    for name in ("git", "sleep", "sh", "cat"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return str(folder)


def bd_script(folder: Path, body: str) -> str:
    """The same with a shell script as `bd`."""
    path = path_without_bd(folder)
    script = folder / "bd"
    script.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    script.chmod(0o755)
    return path


def willing_bd(root: Path, **answers: str) -> str:
    """The body of a script that answers like bd 1.3 with an empty database, but for the given commands."""
    usual = {
        "--version": "echo 'bd version 1.3.0 (dev)'",
        "info": f"""echo '{{"database_path": "{root}/.beads/db", "config": {SETTINGS}}}'""",
        "list": "echo '[]'",
        "query": "echo '[]'",
        "show": "echo '[]'",
        "ready": "echo '[]'",
        "export": ":",
    }
    cases = "\n".join(f"{name}) {command};;" for name, command in {**usual, **answers}.items())
    return f'case "$1" in\n{cases}\n*) echo "unexpected: $*" >&2; exit 9;;\nesac'


def wrapped_bd(folder: Path, bd: Path, body: str) -> str:
    """A PATH whose bd runs `body` first and then becomes the real one; everything else is as before."""
    folder.mkdir(parents=True)
    script = folder / "bd"
    script.write_text(f'#!/bin/sh\n{body}\nexec "{bd}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"

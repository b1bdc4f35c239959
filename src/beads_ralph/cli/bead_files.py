"""Bead files named on the command line."""

from __future__ import annotations

from pathlib import Path

from beads_ralph.files import text_files
from beads_ralph.git import commands

STDIN = "-"


def repository_root() -> Path:
    """The repository's; its settings play no part, so a fault in them does not hinder looking at a bead."""
    here = Path.cwd()
    repository = commands.find(here)
    return repository.root if repository else here


def read_bead(path: str) -> str:
    """The text of a bead file; `-` is stdin."""
    text = text_files.read_stdin() if path == STDIN else text_files.read_text(Path(path))
    return text.removeprefix("\ufeff")

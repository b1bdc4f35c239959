"""Finds the project for scripts that are started without it being installed."""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"
NEEDED = ("pydantic", "typer", "markdown_it", "mdit_py_plugins", "yaml", "rich")


def use_project(*, restart: bool = False) -> None:
    """Make `beads_ralph` importable; a script may be started anew with the project's own Python."""
    if importlib.util.find_spec("beads_ralph") is not None:
        return
    sys.path.insert(0, str(ROOT / "src"))
    if all(importlib.util.find_spec(name) is not None for name in NEEDED):
        return
    if restart and VENV_PYTHON.exists() and Path(sys.executable) != VENV_PYTHON:
        os.execv(VENV_PYTHON, [str(VENV_PYTHON), *sys.argv])  # noqa: S606 - our own interpreter, no shell
    sys.exit("beads-ralph's dependencies are missing: run 'make venv', or install the package with pip")

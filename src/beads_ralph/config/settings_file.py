"""Which file has the settings, and which stores it may name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal, NamedTuple

CONFIG_NAME: Final = "beads-ralph.yaml"
VARIABLE: Final = "BEADS_RALPH_CONFIG"
SET: Final = "BEADS_RALPH_SET_"
"""How variables begin that set one key: BEADS_RALPH_SET_AGENT_DEFAULTS__DEFAULT_MODEL=opus."""
USERS_OWN: Final = "beads-ralph/config.yaml"
StoreName = Literal["embedded", "bd"]
StoreChoice = Literal["auto", StoreName]


class SettingsFile(NamedTuple):
    """The file that counts, and the option or variable that named it."""

    path: Path
    named_by: str = ""


def settings_file(root: Path, explicit: Path | None = None) -> SettingsFile | None:
    """The file named, or the repository's own; None where there is none."""
    if explicit is not None:
        return SettingsFile(explicit, "--config")
    if given := os.environ.get(VARIABLE):
        return SettingsFile(Path(given), VARIABLE)
    path = root / CONFIG_NAME
    return SettingsFile(path) if path.exists() else None


def users_path() -> Path:
    """Where the user's own settings would lie, for all repositories."""
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / USERS_OWN


def users_file() -> Path | None:
    """The same; None where there are none."""
    path = users_path()
    try:
        return path if path.is_file() else None
    except PermissionError:  # a home that is not this user's, as under sudo
        return None


def from_environment() -> dict[str, str]:
    """Key in full → what a variable sets it to."""
    found = {name.removeprefix(SET): value for name, value in os.environ.items() if name.startswith(SET)}
    return {name.lower().replace("__", "."): value for name, value in sorted(found.items())}

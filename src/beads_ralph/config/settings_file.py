"""Which file has the settings, and which stores it may name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal, NamedTuple

CONFIG_NAME: Final = "beads-ralph.yaml"
VARIABLE: Final = "BEADS_RALPH_CONFIG"
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

"""Which store a repository uses: all that a command needs to know which only looks at beads.

The settings file is validated as a whole. What it then says of the store is noted below `.ralph`, together
with a hash of its text, so that the same text need not be validated again before each look.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, get_args

from beads_ralph.config.settings_file import (
    StoreChoice,
    from_environment,
    settings_file,
    users_file,
)
from beads_ralph.errors import Fault
from beads_ralph.files import text_files
from beads_ralph.files.fingerprint import fingerprint
from beads_ralph.files.text_files import RALPH_DIR

NOTE_NAME: Final = "settings.json"


@dataclass(frozen=True)
class StoreSettings:
    """What the settings say of the store, and what else is to be said about the file."""

    store: StoreChoice = "auto"
    bd_timeout: float = 30.0
    warnings: tuple[Fault, ...] = ()


def store_settings(root: Path) -> StoreSettings:
    """As the settings file has them; CONFIG.* with every fault where it has some."""
    file = settings_file(root)
    if users_file() is not None or from_environment():
        return _of_layers(root)
    if file is None:
        return StoreSettings()
    text = text_files.read_text(file.path)
    rules = fingerprint("config", "bead", "files", "process/executors", "forge/adapters")
    hashed = blake2b(f"{rules} {text}".encode(), digest_size=16).hexdigest() if rules else ""
    note = root / RALPH_DIR / NOTE_NAME
    return _noted(note, hashed) or _validated(text, str(file.path), note, hashed)


def _of_layers(root: Path) -> StoreSettings:
    """Of several places together, which are read each time."""
    from beads_ralph.config.read import load

    config, warnings = load(root)
    return StoreSettings(config.store, config.bd_timeout, tuple(warnings))


def _noted(note: Path, hashed: str) -> StoreSettings | None:
    with suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads(note.read_text("utf-8"))
        seconds = float(said["bd_timeout"])
        if hashed and said["hash"] == hashed and said["store"] in get_args(StoreChoice) and seconds > 0:
            return StoreSettings(said["store"], seconds)
    return None


def _validated(text: str, file: str, note: Path, hashed: str) -> StoreSettings:
    from beads_ralph.config.read import parse  # here, with all the models

    config, warnings = parse(text, file)
    if not warnings:
        _note(note, {"hash": hashed, "store": config.store, "bd_timeout": config.bd_timeout})
    return StoreSettings(config.store, config.bd_timeout, tuple(warnings))


def _note(note: Path, said: dict[str, str | float]) -> None:
    """Where there is no place for it, the file is validated again next time."""
    temporary = note.with_name(f".{NOTE_NAME}.{os.getpid()}.tmp")
    with suppress(OSError):
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123 - a descriptor, for its mode
                json.dump(said, out)
            temporary.replace(note)
        finally:
            temporary.unlink(missing_ok=True)

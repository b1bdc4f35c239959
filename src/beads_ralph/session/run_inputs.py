"""The files of the repository that a run obeys: settings, agent files, prompts, formulas, its plan.

A run goes on with what it began with, whoever changes them meanwhile; the next one obeys what is there then.
So a change is told when it is found, and again at the start of the next run, `.ralph/inputs.json`: nobody
knows whether it was a person or an agent.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from beads_ralph import prompts
from beads_ralph.bead.names import AGENTS_DIR
from beads_ralph.bead.words import several, utc_text
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.errors import RalphError
from beads_ralph.files import text_files

NAME: Final = "inputs.json"
FOLDERS: Final = (AGENTS_DIR, ".beads/formulas", prompts.FOLDER)
LENGTH: Final = 16
READ: Final = 4 << 20

Marks = dict[str, str]
"""By path, from the root where it lies below: a hash of what the file says."""


@dataclass
class RunInputs:
    """Those of one run, as they were when it began."""

    root: Path
    home: Path
    """Where the note for the next run lies."""
    named: tuple[Path, ...]
    """Files besides the repository's own, such as the plan."""
    began: str
    before: Marks
    told: Marks = field(default_factory=dict)
    """What was found to be changed so far."""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def taken(cls, root: Path, home: Path, named: Iterable[Path] = ()) -> RunInputs:
        files = tuple(named)
        return cls(root, home, files, utc_text(datetime.now(UTC)), _marks(root, files))

    def since_last_run(self) -> str:
        """Names what was changed while the last run was on, and is still so; empty for nothing.

        From now on the note is this run's.
        """
        said = _read(self.home / NAME)
        left = [name for name, mark in said.get("changed", {}).items() if self.before.get(name, "") == mark]
        if said.get("running"):  # it was killed before it could look
            left += _differing(said.get("files", {}), self.before)
        self._note(running=True)
        if not left:
            return ""
        return (
            f"changed while the run of {said.get('at')} was on: {several(sorted({*left}))}. "
            "This run obeys that; if it was not you, stop and put it back"
        )

    def news(self) -> str:
        """Names what was changed since the last look; empty for nothing."""
        with self._turn:
            now = _marks(self.root, self.named)
            changed = {name: now.get(name, "") for name in _differing(self.before, now)}
            fresh = [name for name, mark in changed.items() if self.told.get(name) != mark]
            if changed != self.told:
                self.told = changed
                self._note(running=True)
        if not fresh:
            return ""
        names = several(sorted(fresh))
        return f"what the run obeys was changed meanwhile: {names}; it goes on with what it began with"

    def end(self) -> str:
        """Note what the next run should know, and say it; empty where nothing was changed."""
        self.news()
        self._note(running=False)
        if not self.told:
            return ""
        return (
            f"changed while the run was on: {several(sorted(self.told))}. "
            "The next run obeys that; if it was not you, put it back first"
        )

    def _note(self, *, running: bool) -> None:
        text = json.dumps(
            {"at": self.began, "running": running, "files": self.before, "changed": self.told}, sort_keys=True
        )
        with suppress(RalphError, OSError):  # it is told of, no more
            text_files.write_text(self.home / NAME, f"{text}\n")


def _marks(root: Path, named: Iterable[Path]) -> Marks:
    return {_name(path, root): _mark(path) for path in (*_own(root), *named) if path.is_file()}


def _own(root: Path) -> Iterator[Path]:
    yield root / CONFIG_NAME
    for folder in FOLDERS:
        yield from sorted((root / folder).rglob("*"))


def _name(path: Path, root: Path) -> str:
    plain = Path(os.path.abspath(path))  # noqa: PTH100 - a link stays a link
    return plain.relative_to(root).as_posix() if plain.is_relative_to(root) else str(plain)


def _mark(path: Path) -> str:
    """Of a file that nobody would write by hand, the size and the beginning."""
    try:
        with path.open("rb") as file:
            start = sha256(file.read(READ))
        return f"{start.hexdigest()[:LENGTH]}-{path.stat().st_size}"
    except OSError:
        return ""


def _differing(before: Marks, now: Marks) -> list[str]:
    return [name for name in {**before, **now} if before.get(name, "") != now.get(name, "")]


def _read(path: Path) -> dict[str, Any]:
    """The note of the last run; nothing where there is none, or somebody has spoiled it."""
    try:
        said = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    fit = isinstance(said, dict) and all(isinstance(said.get(key), dict) for key in ("files", "changed"))
    return said if fit else {}

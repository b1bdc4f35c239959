"""What is kept of a bead besides its records: the evidence that somebody put there for people to see."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph.files import text_files
from beads_ralph.files.text_files import ralph_dir

EVIDENCE: Final = "BEADS_RALPH_EVIDENCE"
"""Names the folder that evidence goes to, for agents and verifiers."""
OURS: Final = re.compile(r"(success|failure)-\d{8}T\d{9}Z(-\d+)?\.json")
"""Records that the executor itself puts among the evidence."""


@dataclass(frozen=True)
class Shelf:
    """What is kept of a bead's execution, below `.ralph` of the folder that it works in."""

    place: Path
    key: str

    @property
    def home(self) -> Path:
        return _homes(self.place) / self.key

    @property
    def evidence(self) -> Path:
        return self.place / ".ralph" / "evidence" / self.key

    def make(self) -> None:
        ralph_dir(self.place)
        text_files.make_folder(self.home)
        text_files.make_folder(self.evidence)

    @property
    def _mark(self) -> Path:
        return self.home / "began"

    @property
    def begun(self) -> bool:
        return self._mark.exists()

    def begin(self) -> None:
        """From now on evidence counts. By the file system's own clock: ours may be a little ahead of it."""
        self._mark.unlink(missing_ok=True)
        self._mark.touch()

    def attached(self) -> list[Path]:
        """The files that somebody put there since the work began: not empty, and not ours."""
        since = self._mark.stat().st_ctime_ns if self._mark.exists() else 0
        found = sorted(self.evidence.rglob("*")) if self.evidence.is_dir() else []
        return [path for path in found if not self._is_ours(path) and _is_new(path, since)]

    def _is_ours(self, path: Path) -> bool:
        return path.parent == self.evidence and OURS.fullmatch(path.name) is not None

    def record(self, kind: str, facts: Mapping[str, Any]) -> Path:
        path = free_name(self.evidence, f"{kind}-{stamp()}", ".json")
        text_files.write_text(path, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        return path

    def shown(self, path: Path) -> str:
        return Path(os.path.relpath(path, self.place)).as_posix()


def _homes(place: Path) -> Path:
    return place / ".ralph" / "exec"


def homes(place: Path) -> list[Path]:
    """Those of all the beads that were worked on there."""
    folder = _homes(place)
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def evidence_folder(env: Mapping[str, str]) -> list[Path]:
    """The folder that a job may put evidence into, if there is one."""
    return [Path(env[EVIDENCE])] if EVIDENCE in env else []


def _is_new(path: Path, since: int) -> bool:
    """By the time of its last change of any kind: a copy may carry the old time of its contents."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > 0 and found.st_ctime_ns >= since


def free_name(folder: Path, stem: str, suffix: str) -> Path:
    """A name in the folder that nothing has yet."""
    path, count = folder / f"{stem}{suffix}", 1
    while path.exists():
        count += 1
        path = folder / f"{stem}-{count}{suffix}"
    return path


def stamp() -> str:
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"

"""What runs, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Job:
    """One process to run."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] | None = None
    stdin: str | None = None
    timeout: float = 30.0
    grace: float = 2.0


@dataclass(frozen=True)
class Exit:
    """How the process ended. A signal or a time-out is an exit too, never an exception."""

    code: int
    stdout: str
    stderr: str
    timed_out: bool = False
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out

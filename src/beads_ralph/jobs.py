"""What runs, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Transcript:
    """The files that a process's output goes to, so that it outlives us and costs no memory."""

    out: Path
    err: Path


@dataclass(frozen=True)
class Job:
    """One process to run."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] | None = None
    stdin: str | None = None
    timeout: float = 30.0
    grace: float = 2.0
    name: str = ""
    """What people call it, such as `agent-bd-1-1-setup`; the tmux executor names its session so."""
    mark: str = ""
    """Unique; put into the environment as BEADS_RALPH_JOB, so that every descendant can be found."""
    transcript: Transcript | None = None
    output_limit: int = 512 * 1024 * 1024


@dataclass(frozen=True)
class Exit:
    """How the process ended. A signal or a time-out is an exit too, never an exception."""

    code: int
    """As Python has it: negative for a signal."""
    stdout: str = ""
    """All of it for a captured job; for one with a transcript only the tail."""
    stderr: str = ""
    timed_out: bool = False
    flooded: bool = False
    """It printed more than the job allows and was ended for that."""
    seconds: float = 0.0
    transcript: Transcript | None = None

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out and not self.flooded

"""What runs, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Transcript:
    """The files that a process's output goes to, so that it outlives us and costs no memory."""

    out: Path
    err: Path


@dataclass(frozen=True)
class JobReport:
    """What a program notes in a file of its own and does not print."""

    path: Path
    lines: str
    """Which of its lines are read: a regular expression for how they begin."""


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
    memory_limit_mb: int = 0
    """The most memory that all its processes together may use; 0 for any."""
    writes: tuple[Path, ...] = ()
    """What it must be able to write to besides its folder, should it be closed in."""
    keeper: str = ""
    """The name of a program that the job's own runs inside of, and that ends with it: asking the keeper to
    end would kill the other without a word."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """What the process expects to find, such as a schema that it is told the path of; written before it
    starts, for its owner's eyes only."""
    report: JobReport | None = None
    """What is read after what it printed, of a program that does not print all of it."""


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
    over_memory: int = 0
    """The limit in MB that it was ended for; 0 where it kept to it, or had none."""
    seconds: float = 0.0
    transcript: Transcript | None = None

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.cut_short

    @property
    def limit(self) -> Literal["", "timeout", "output", "memory"]:
        """Which limit it was ended for; empty where it ended by itself."""
        if self.timed_out:
            return "timeout"
        return "output" if self.flooded else "memory" if self.over_memory else ""

    @property
    def cut_short(self) -> str:
        """Which limit it was ended for, in words; empty where it ended by itself."""
        if self.timed_out:
            return f"timed out after {self.seconds:.0f} s"
        if self.flooded:
            return "printed more than is allowed and was ended"
        return f"memory: used more than {self.over_memory} MB and was ended" if self.over_memory else ""


@dataclass(frozen=True)
class Profile:
    """What is known of an agent's program before it is called."""

    title: str
    """What people call it, such as Claude Code."""
    executable: str = ""
    """Its name on PATH; empty where it is whatever the user names."""
    tested: str = ""
    """The version that the adapter was tried with; empty where any will do."""
    version_args: tuple[str, ...] = ("--version",)
    session_is_given: bool = False
    """Its session has the id that the task gives it, so that it is known before the program says a word."""
    reads_prompts: bool = True
    """A model reads its prompt to the end, so that its verdict repeats the nonce given there. A plain
    program need not."""
    hides_git: bool = False
    """Its tools do not see the user's git settings: who commits must be in the environment."""
    passes: str = ""
    """Which variables of our own environment it may have besides the harmless ones: a regular expression."""
    keys: tuple[str, ...] = ()
    """Variables any of which signs it in."""
    credentials: tuple[str, ...] = ()
    """Files below HOME any of which says that somebody has signed in."""
    state: tuple[str, ...] = ()
    """Files and folders below HOME that it writes to while it works."""
    state_variables: tuple[str, ...] = ()
    """Variables that name a folder which it writes to instead."""
    install: str = ""
    """What a user does to get it."""
    sign_in: str = ""
    """What a user does to be let in."""

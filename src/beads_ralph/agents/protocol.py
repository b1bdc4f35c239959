"""An agent CLI's adapter: what it is asked, what it answers, its contract, and which one plays a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from beads_ralph.agents.transcript import TranscriptLine
from beads_ralph.bead.agent_call import Trouble
from beads_ralph.bead.model import AgentSpec
from beads_ralph.bead.personas import AgentRole, Persona
from beads_ralph.bead.usage import UNKNOWN, Usage
from beads_ralph.files.plugins import Plugins
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript


@dataclass(frozen=True)
class AgentTask:
    """A task for an agent: plain data, from which an AgentCLI makes a command line."""

    spec: AgentSpec
    role: AgentRole
    prompt: str
    cwd: Path
    bead_id: str
    attempt: int
    branch: str
    run_id: str
    model: str
    persona: Persona | None = None
    """The persona to play; None for the plain CLI."""
    session_id: str | None = None
    """A session to go on with, None for a new one."""
    timeout: float = 1800.0
    output_schema: Mapping[str, Any] | None = None
    """The JSON Schema of the answer; None where prose will do."""
    budget_usd: float | None = None
    """The most that this call may cost, for a CLI that can see to it itself."""
    git_folders: tuple[Path, ...] = ()
    """Outside `cwd`, what git must be able to write to for a commit there."""
    env: Mapping[str, str] = field(default_factory=dict)
    inherits: tuple[str, ...] = ()
    """Variables of ours that the user lets agents have."""
    closed_in: bool = False
    """True in a sandbox of ours, inside of which it may not be able to make one of its own."""
    home: Path | None = None
    """The agent's HOME; None for the user's own."""
    committer: Mapping[str, str] = field(default_factory=dict)
    """The committer, as git's variables say it, where neither its HOME nor its environment does."""

    @property
    def body(self) -> str:
        """Who to be, in the persona's words; empty for the plain CLI."""
        return self.persona.body if self.persona else ""


@dataclass(frozen=True)
class Reply:
    """An agent's answer, as its own CLI reports it."""

    session_id: str | None = None
    text: str = ""
    result: Mapping[str, Any] | None = None
    """Its structured answer, such as a QA verdict; None where there is none to be read."""
    usage: Usage = UNKNOWN
    """The CLI's count for this call alone."""
    session_usage: Usage = UNKNOWN
    """Its count from the session's beginning: some count so, some count this and not that."""
    denied: tuple[str, ...] = ()
    """Tools that the agent asked for and was not allowed to use."""
    trouble: Trouble = ""
    detail: str = ""
    limit_reset_at: str | None = None
    no_session: bool = False
    """There is nothing to go on with: no answer of the model came to its end."""
    model: str = ""
    """The model that answered, where the program tells."""
    overspent: str = ""
    """The budget that it was ended for, in words."""


@dataclass(frozen=True)
class ProgramWait:
    """A program waits for its model's server instead of working."""

    trouble: Trouble
    said: str
    seconds: float | None = None
    """How long it says that it waits."""
    tries: int = 1
    """How often it has tried in vain since it last got on."""


class Listener(Protocol):
    """Hears a program line by line while it runs."""

    waiting: ProgramWait | None
    """What it waits for, if that was the last that it told."""
    model: str
    """The model that answers, where it has told."""

    @property
    def so_far(self) -> Usage:
        """What this call has used, as far as it has told."""

    def printed(self, line: str) -> None: ...

    def complained(self, line: str) -> None:
        """Hear a line of stderr."""


@runtime_checkable
class AgentCLI(Protocol):
    """A program that plays personas. Both methods are pure, so that they can be tested as tables."""

    name: str
    profile: Profile

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        """The process that gives the task to the program."""

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        """Read the program's answer; `lines` are those of its stdout, and after them those of
        the job's report, where it has one."""


@runtime_checkable
class TalkingCLI(AgentCLI, Protocol):
    """One whose program tells while it runs that it only waits."""

    def listener(self) -> Listener: ...


@runtime_checkable
class ShownCLI(Protocol):
    """One whose output is made readable for people."""

    def shown(self, line: str) -> Iterator[TranscriptLine]:
        """The next line of stdout, for people."""

    def shown_complaint(self, line: str) -> Iterator[TranscriptLine]:
        """The next line of stderr, for people."""


AGENTS: Final[Mapping[str, AgentCLI]] = Plugins("agents.adapters", "AGENT")


def select(executable: str) -> AgentCLI:
    """The adapter of a program, by its name; a program without one of its own is played by `command`."""
    name = os.path.basename(executable)  # noqa: PTH119 - a word, not a path
    return AGENTS[name if name in AGENTS else "command"]

"""The contract of an agent CLI's adapter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from beads_ralph.agents.agent_types import AgentTask, Reply
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript


@runtime_checkable
class AgentCLI(Protocol):
    """A program that plays personas. Both methods are pure, so that they can be tested as tables."""

    name: str
    profile: Profile

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        """The process that gives the task to the program."""

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        """What the program answered; `lines` are those of its stdout, and after them those of
        the job's report, where it has one."""

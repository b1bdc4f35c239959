"""Any program as an agent: the prompt on stdin, the task in the environment, the answer on stdout."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from beads_ralph.agents import environment, reply_reader, streams
from beads_ralph.agents.transcript import Said, TranscriptLine
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask, Listener, Reply

DEFAULT_EXECUTABLE: Final = "claude"  # what a spec without an executable means


class PlainCommand:
    """Plays whatever is none of the known CLIs."""

    name = "command"
    profile = Profile("any program", reads_prompts=False, counts="")

    def __init__(self, inherited: Mapping[str, str] = os.environ) -> None:
        """`inherited` is what the few harmless variables are taken from."""
        self.inherited = inherited

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        return environment.job_of(
            task,
            transcript,
            argv=(task.spec.executable or DEFAULT_EXECUTABLE, *(task.spec.options or ())),
            env=environment.of_task(task, transcript, self.inherited),
            stdin=streams.instructed(task),
        )

    def listener(self) -> Listener:
        return reply_reader.Notices()

    def shown(self, line: str) -> Iterator[TranscriptLine]:
        """It talks to people already."""
        yield Said(line)

    def shown_complaint(self, line: str) -> Iterator[TranscriptLine]:
        return reply_reader.shown(line)

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        return reply_reader.read(ended, lines)


AGENT: Final = PlainCommand()

"""An agent CLI in one file of `agents/adapters`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from beads_ralph.agents import environment, reply_reader, streams
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.agent_types import AgentTask, Reply

WRITES: Final = "echo mynah >> mynah.txt && git add mynah.txt && git commit -q -m 'mynah was here'"
REVIEWS: Final = """echo '{"status": "pass", "message": "mynah approves"}'"""


class Mynah:
    """A shell that writes one file as a developer and likes everything as a reviewer."""

    name = "mynah"
    profile = Profile("Mynah", executable="sh", install="It is there already")

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        return environment.job_of(
            task,
            transcript,
            argv=("sh", "-c", REVIEWS if task.role == "qa" else WRITES),
            env=environment.of_task(task, transcript, os.environ),
            stdin=streams.instructed(task),
        )

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        return reply_reader.read(ended, lines)


AGENT: Final = Mynah()

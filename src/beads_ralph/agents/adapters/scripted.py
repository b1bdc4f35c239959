"""An agent that follows a script: really edits, commits, answers and misbehaves, without any model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from beads_ralph.agents import environment
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask, Reply

SCRIPT: Final = "BEADS_RALPH_SCRIPT"
OPTION: Final = "--script"
# -P: a worktree may hold a yaml.py of its own, which must not be taken for the library.
ARGV: Final = (sys.executable, "-P", "-m", "beads_ralph.agents.scripted.player")


class Scripted:
    """The script is named by `options: [--script, FILE]`, by `env: {BEADS_RALPH_SCRIPT: FILE}`, or, for
    agents that name none, by that variable in the environment of the run itself."""

    name = "scripted"
    profile = Profile("the scripted agent", session_is_given=True, reads_prompts=False)

    def __init__(self, inherited: Mapping[str, str] = os.environ) -> None:
        self.inherited = inherited

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = environment.of_task(task, transcript, self.inherited)
        own = _named(task.spec.options or ()) or env.get(SCRIPT)
        script = own or self.inherited.get(SCRIPT)
        return environment.job_of(
            task,
            transcript,
            argv=ARGV,
            env={**env, SCRIPT: script} if script else env,
            stdin=task.prompt,
        )

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        from beads_ralph.agents import reply_reader

        return reply_reader.read(ended, lines)


def _named(options: Sequence[str]) -> str | None:
    """The file after `--script`. Other options are meant for real CLIs and do nothing here."""
    for word, following in pairwise([*options, ""]):
        if word == OPTION and following:
            return following
        if word.startswith(f"{OPTION}="):
            return word.partition("=")[2]
    return None


AGENT: Final = Scripted()

"""An agent that follows a script: really edits, commits, answers and misbehaves, without any model.

Its program is `agents/script_player.py`. The format of scripts is in `agents/script.py` and in
`docs/reference/scripted-agent.md`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beads_ralph.agents import environment
from beads_ralph.agents.script import MARKS, SCRIPT
from beads_ralph.process.jobs import Exit, Job, Profile, Transcript

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import AgentTask, Listener, Reply
    from beads_ralph.agents.transcript import TranscriptLine

OPTION: Final = "--script"
PLAYER: Final = "beads_ralph.agents.script_player"


class Scripted:
    """The script is named by `options: [--script, FILE]`, by `env: {BEADS_RALPH_SCRIPT: FILE}`, or, for
    agents that name none, by that variable in the environment of the run itself."""

    name = "scripted"
    profile = Profile(
        "the scripted agent",
        counts="cost",
        session_is_given=True,
        resumes_elsewhere=True,
        reads_prompts=False,
        state_variables=(MARKS,),
        built_in=True,
    )

    def __init__(self, inherited: Mapping[str, str] = os.environ) -> None:
        self.inherited = inherited

    def command(self, task: AgentTask, transcript: Transcript) -> Job:
        env = environment.of_task(task, transcript, self.inherited)
        own = _named(task.spec.options or ()) or env.get(SCRIPT)
        script = own or self.inherited.get(SCRIPT)
        return environment.job_of(
            task,
            transcript,
            # -P: a worktree may hold a yaml.py of its own, which must not be taken for the library.
            argv=(sys.executable, "-P", "-m", PLAYER),
            env={**env, SCRIPT: script, **_marks(Path(script), env)} if script else env,
            stdin=task.prompt,
        )

    def listener(self) -> Listener:
        from beads_ralph.agents import reply_reader

        return reply_reader.Notices()

    def shown(self, line: str) -> Iterator[TranscriptLine]:
        from beads_ralph.agents.transcript import Said

        yield Said(line)

    def shown_complaint(self, line: str) -> Iterator[TranscriptLine]:
        from beads_ralph.agents import reply_reader

        return reply_reader.shown(line)

    def reply(self, ended: Exit, lines: Iterable[str]) -> Reply:
        from beads_ralph.agents import reply_reader

        return reply_reader.read(ended, lines)


def _marks(script_file: Path, env: Mapping[str, str]) -> dict[str, str]:
    """In the user's home rather than in the repository, of which a reviewer has another one each time."""
    with suppress(OSError, UnicodeDecodeError):
        if "once" in script_file.read_text("utf-8"):
            states = env.get("XDG_STATE_HOME") or Path(env.get("HOME") or Path.home(), ".local", "state")
            return {MARKS: str(Path(states, "beads-ralph"))}
    return {}


def _named(options: Sequence[str]) -> str | None:
    """The file after `--script`. Other options are meant for real CLIs and do nothing here."""
    for word, following in pairwise([*options, ""]):
        if word == OPTION and following:
            return following
        if word.startswith(f"{OPTION}="):
            return word.partition("=")[2]
    return None


AGENT: Final = Scripted()

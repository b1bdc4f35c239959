"""One call of a real CLI through its adapter, in a git worktree, with a scripted model behind it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from beads_ralph.agents import following
from beads_ralph.agents.following import PATIENCE, Patience
from beads_ralph.agents.protocol import AGENTS, AgentCLI, AgentTask, Reply
from beads_ralph.git import git_files
from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.jobs import Exit, Job
from tests.agents.running import spec, task, transcript
from tests.git.repos import git
from tests.model.exchange import Question
from tests.model.script import Rule
from tests.model.server import ModelServer
from tests.real.clis import Cli
from tests.real.record import Take, address


class Ask(Protocol):
    """Plays one take in the repository: what it came to, and what the model was asked."""

    def __call__(self, take: Take, said: str = "") -> tuple[Exit, Reply, list[Question]]: ...


@dataclass
class Caller:
    """Calls one CLI; each call has a run of its own on the model's server."""

    name: str
    server: ModelServer
    ready: Callable[[str, str], Cli]
    worktree: Path
    folder: Path
    before: tuple[str, ...] = ()
    """Words that the command line is started with, to be somebody else."""
    run: str = ""
    job: Job | None = None
    patience: Patience = PATIENCE

    def __call__(self, prompt: str, scenario: str = "ok", **fields: Any) -> tuple[Exit, Reply]:
        self.run = uuid.uuid4().hex
        rules, stall = fields.pop("rules", None), fields.pop("stall_limit", 0.0)
        base = self.server.play(self.run, rules) if rules else address(self.server, scenario, self.run)
        asked = self.task(prompt, base, **fields)
        files = transcript(self.folder, self.run)
        adapter: AgentCLI = fields.get("adapter") or AGENTS[self.name]
        job = adapter.command(asked, files)
        self.job = replace(job, argv=(*self.before, *job.argv), mark=self.run, stall_limit=stall)
        follower = following.follow(adapter, self.job, self.patience)
        ended = asyncio.run(LocalExecutor().run(self.job, follower))
        return ended, following.heard(adapter, self.job, ended, follower)

    def task(self, prompt: str, base: str, **fields: Any) -> AgentTask:
        fields.pop("adapter", None)
        cli = self.ready(self.name, base)
        tmp = self.folder / "tmp"
        tmp.mkdir(exist_ok=True)
        env = {**cli.env, "TMPDIR": str(tmp), **fields.pop("env", {})}
        agent = spec(executable=str(cli.program), env=env, options=fields.pop("options", None))
        given = {"timeout": 120.0, "git_folders": git_files.folders_of(self.worktree), **fields}
        return task(self.worktree, agent, prompt=prompt, **given)

    @property
    def questions(self) -> list[Question]:
        """What the model was asked in the last call."""
        return self.server.questions(self.run)


def subjects(worktree: Path) -> list[str]:
    """Of the commits that the agent made, the last one first."""
    return git(worktree, "log", "--format=%s", "main..work").splitlines()


def says(text: str, *commands: str, when: str = "") -> list[Rule]:
    """A model that runs the commands and says the text."""
    return [Rule(when, commands, text)]

"""How each program is given the same tasks with the same stand-in for an agent: one class a program.

A program is run as its documentation says, with its own defaults and four tasks at once where it can. Nothing
is downloaded: a program that is not on PATH is named as missing.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml

from bench.places import COMMAND, script
from bench.rehearsals import SETTINGS, letters

AT_ONCE = 4
TASK = r"Write parts/[a-z0-9.]*\.txt"
"""How every program's prompt names the task."""
Behaviour = Literal["works", "lies", "hangs", "same line"]


@dataclass(frozen=True)
class Task:
    """One file to write, after another task where it waits for one."""

    name: str
    after: str = ""

    @property
    def file(self) -> str:
        return f"parts/{self.name}.txt"


@dataclass(frozen=True)
class StandIn:
    """A program in place of an agent. It finds its task in what it is told, notes when it begins and ends,
    and says what every one of these programs takes for done."""

    path: Path
    log: Path
    behaviour: Behaviour = "works"
    seconds: float = 0.2

    def write(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        wait, write = f"sleep {self.seconds}", "mkdir -p parts; echo part $task > parts/$task.txt"
        done = {
            "works": f"{wait}; {write}",
            "lies": ":",
            "hangs": "sleep 600",
            "same line": f"{wait}; {write}; echo $task > same",
        }[self.behaviour]
        verdict = json.dumps({"status": "pass", "message": "fine", "details": {}})
        note = f'echo "$1 $task $(date +%s.%N)" >> {shlex.quote(str(self.log))}'
        script(
            self.path,
            'case "$*" in *--version*) echo "2.1.0 (Claude Code)"; exit 0;; esac\n'
            'said=$(printf "%s\\n" "$*"; cat)\n'
            f"file=$(printf '%s' \"$said\" | grep -o '{TASK}' | head -n 1)\n"
            "task=${file##*/}; task=${task%.txt}\n"
            f"note() {{ {note}; }}\n"
            'if [ "$BEADS_RALPH_ROLE" = qa ]; then\n'
            f"  {wait}; echo '{verdict}'; exit 0\n"
            "fi\n"
            f"note start\n{done}\nnote end\n"
            "echo '<promise>COMPLETE</promise>'",
        )


class Peer(ABC):
    """A program that works through tasks with agents."""

    name: ClassVar[str]
    program: ClassVar[str]
    version_words: ClassVar[Sequence[str]] = ("--version",)

    def found(self) -> str | None:
        return shutil.which(self.program)

    def version(self) -> str:
        words = [self.found() or self.program, *self.version_words]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        return (done.stdout or done.stderr).strip().partition("\n")[0]

    def stage(self, root: Path, tasks: Sequence[Task], agent: StandIn, patience: float) -> None:
        """A repository with the tasks in the form that the program reads; `patience` is how long an agent may
        take, where that can be set."""
        root.mkdir(parents=True)
        agent.write()
        git(root, "init", "--quiet", "--initial-branch=main")
        for key, value in SETTINGS.items():
            git(root, "config", key, value)
        (root / "same").write_text("nobody\n", encoding="utf-8")
        for name, text in self.files(root, tasks, agent, patience).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "The tasks")

    def environment(self, agent: StandIn) -> Mapping[str, str]:
        """The stand-in is found on PATH under the name of the agent that it stands for."""
        return {**os.environ, "PATH": f"{agent.path.parent}{os.pathsep}{os.environ['PATH']}"}

    @abstractmethod
    def files(self, root: Path, tasks: Sequence[Task], agent: StandIn, patience: float) -> dict[str, str]: ...

    @abstractmethod
    def command(self) -> list[str]: ...

    def again(self) -> list[str]:
        """The command after a crash."""
        return self.command()

    @abstractmethod
    def done(self, root: Path, tasks: Sequence[Task]) -> set[str]:
        """The names of the tasks that the program calls done."""


class BareMake(Peer):
    """`make -j4`: a worktree, the agent, a commit and a merge for each task; no check and no memory."""

    name, program = "bare make", "make"

    def files(self, root: Path, tasks: Sequence[Task], agent: StandIn, patience: float) -> dict[str, str]:
        every = " ".join(f"done/{task.name}" for task in tasks)
        rules = [f"all: {every}\n"] + [
            f"done/{task.name}: {f'done/{task.after}' if task.after else ''}\n\t@./one {task.name}\n"
            for task in tasks
        ]
        one = (
            "#!/bin/sh\nset -e\nroot=$PWD\ntree=$PWD-trees/$1\n"
            'flock .git/one git worktree add --quiet -B task-$1 "$tree" main\ncd "$tree"\n'
            f'echo "Write parts/$1.txt" | {shlex.quote(str(agent.path))} >/dev/null\n'
            "git add --all\ngit commit --quiet --message $1 || true\n"
            'cd "$root"\nflock .git/one git merge --quiet --no-edit task-$1\n'
            'flock .git/one git worktree remove --force "$tree"\nmkdir -p done; touch done/$1\n'
        )
        return {"Makefile": "\n".join(rules), "one": one, ".gitignore": "/done/\n"}

    def stage(self, root: Path, tasks: Sequence[Task], agent: StandIn, patience: float) -> None:
        super().stage(root, tasks, agent, patience)
        (root / "one").chmod(0o755)
        git(root, "update-index", "--chmod=+x", "one")
        git(root, "commit", "--quiet", "--message", "A program")

    def command(self) -> list[str]:
        return ["make", f"-j{AT_ONCE}", "--keep-going", "all"]

    def done(self, root: Path, tasks: Sequence[Task]) -> set[str]:
        return {path.name for path in (root / "done").glob("*")}


class BeadsRalph(Peer):
    """Ours, with a developer and a reviewer for each task, and a verifier."""

    name, program = "beads-ralph", str(COMMAND)

    def files(self, root: Path, tasks: Sequence[Task], agent: StandIn, patience: float) -> dict[str, str]:
        plain = agent.path.with_name("stand-in")  # under its own name it would be taken for the real one
        plain.symlink_to(agent.path)
        played = {"executable": str(plain), "model": "none"}
        settings: dict[str, Any] = {
            "store": "embedded",
            "forge": "local",
            "max_parallel_sessions": AT_ONCE,
            "min_free_gb": 0.1,
            "max_retry_attempts": 1,
            "dev_agent_timeout": patience,
            "sandbox_writes": [str(agent.log.parent)],
            "plan": {
                "source_branch": "main",
                "dev_agents": [{"agent": "developer", **played}],
                "qa_agents": [{"agent": "reviewer", **played}],
            },
        }
        sections = "".join(
            f"\n### Sprint {self._id(task, tasks)}: {task.name}\n\n"
            + (f"**Depends On**: {self._id(before, tasks)}\n\n" if (before := _before(task, tasks)) else "")
            + f"**Tasks**:\n- Write {task.file}\n\n**Verify**: `test -s {task.file}`\n"
            for task in tasks
        )
        return {
            "plan.md": f"# The tasks\n{sections}",
            "beads-ralph.yaml": yaml.safe_dump(settings),
            ".gitignore": "/.ralph/\n/.beads/\n/state/\n",
        }

    def _id(self, task: Task, tasks: Sequence[Task]) -> str:
        return f"1{letters(list(tasks).index(task))}.1"

    def command(self) -> list[str]:
        return [str(COMMAND), "run", "plan.md"]

    def done(self, root: Path, tasks: Sequence[Task]) -> set[str]:
        words = [str(COMMAND), "list", "--status", "closed", "--json"]
        said = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
        if said.returncode:
            return set()
        closed = {bead["title"] for bead in json.loads(said.stdout)["data"]["beads"]}
        return {task.name for task in tasks if task.name in closed}


class RalphTui(Peer):
    """ralph-tui with its JSON tracker, without a screen; workers in worktrees, merged into the branch."""

    name, program = "ralph-tui", "ralph-tui"

    def files(self, root: Path, tasks: Sequence[Task], agent: StandIn, patience: float) -> dict[str, str]:
        stories = [
            {
                "id": task.name,
                "title": task.name,
                "description": f"Write {task.file}",
                "acceptanceCriteria": [f"{task.file} is there"],
                "priority": 1,
                "passes": False,
                "dependsOn": [task.after] if task.after else [],
            }
            for task in tasks
        ]
        said = {"agent": "claude", "tracker": "json", "configVersion": "2.1"}
        rows = [f"{key} = {json.dumps(value)}\n" for key, value in said.items()]
        rows += ["maxIterations = 0\n", "iterationDelay = 0\n", "autoCommit = true\n"]
        return {
            ".gitignore": "/.ralph-tui/\n/prd.json\n",
            ".ralph-tui/config.toml": "".join(rows) + f"\n[agentOptions]\ntimeout = {patience * 1000:.0f}\n",
            "prd.json": json.dumps({"name": "The tasks", "userStories": stories}),
        }

    def command(self) -> list[str]:
        return [
            *("ralph-tui", "run", "--prd", "prd.json", "--headless", "--no-setup", "--no-notify"),
            *("--parallel", str(AT_ONCE), "--direct-merge", "--force"),
        ]

    def done(self, root: Path, tasks: Sequence[Task]) -> set[str]:
        stories = json.loads((root / "prd.json").read_text("utf-8"))["userStories"]
        return {story["id"] for story in stories if story["passes"]}


PEERS: Sequence[type[Peer]] = (BareMake, BeadsRalph, RalphTui)
UNTRIED: Mapping[str, str] = {
    "ralphex": "ralphex",
    "ralph-orchestrator": "ralph",
    "ralphctl": "ralphctl",
    "beadloom": "beadloom",
}
"""Programs that nobody has written a class for yet, and their commands."""


def _before(task: Task, tasks: Sequence[Task]) -> Task | None:
    return next((one for one in tasks if one.name == task.after), None)


def git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()

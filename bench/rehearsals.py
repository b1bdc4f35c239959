"""Scratch repositories with a plan and a script for its agents: whole runs, without any model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from beads_ralph.journal import journal, runs
from beads_ralph.journal.events import Event
from bench.places import COMMAND

SETTINGS = {
    "user.name": "beads-ralph bench",
    "user.email": "bench@localhost",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
SCRIPT = "script.yaml"
PLAN = "plan.md"


@dataclass(frozen=True)
class Part:
    """A sprint that writes one file of its own, and proves that it is there."""

    id: str
    dev: Sequence[Any] = ()
    qa: Sequence[Any] = ()
    merge: Sequence[Any] = ()
    joins: bool = False
    """Whether it merges what it waits for, instead of writing a file."""

    @property
    def file(self) -> str:
        return f"parts/{self.id}.txt"

    @property
    def text(self) -> str:
        return f"part {self.id}\n"

    @property
    def write(self) -> dict[str, Any]:
        return {"write": {self.file: self.text}}

    @property
    def verifier(self) -> str:
        return "test -d parts" if self.joins else f"grep -qx 'part {self.id}' {self.file}"

    def section(self) -> str:
        kind = "**Type**: merge\n" if self.joins else ""
        task = "Join what was done side by side" if self.joins else f"Write {self.file}"
        return (
            f"\n### Sprint {self.id}: Part {self.id.replace('.', ' ')}\n\n{kind}\n"
            f"**Tasks**:\n- {task}\n\n**Verify**: `{self.verifier}`\n"
        )

    def script(self) -> dict[str, Any]:
        dev = list(self.dev) or [self.write]
        roles = {"dev": dev, "qa": list(self.qa), "merge": list(self.merge)}
        return {role: steps for role, steps in roles.items() if steps}


@dataclass(frozen=True)
class Rehearsal:
    """A repository that is ready to be worked through."""

    root: Path
    parts: Sequence[Part]

    @property
    def home(self) -> Path:
        return self.root / ".ralph"

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=self.root, capture_output=True, text=True, check=True
        ).stdout.strip()

    def command(self, *words: str) -> list[str]:
        return [str(COMMAND), "run", PLAN, "--json", *words]

    def journals(self) -> list[Path]:
        folder = self.home / runs.RUNS
        return sorted(folder.glob(f"*/{journal.NAME}")) if folder.is_dir() else []

    def checkouts(self) -> list[Path]:
        """The clean checkouts of its commits that are there now."""
        found = Path(tempfile.gettempdir()).glob(f"tmp*/{self.root.name}/.git/objects/info/alternates")
        return [path.parents[3] for path in found if path.read_text("utf-8").startswith(f"{self.root}/")]

    def told(self) -> list[Event]:
        """Every run's events, oldest first."""
        return [event for path in self.journals() for event in journal.read(path)]


def stage(
    root: Path, parts: Sequence[Part], *, parallel: int, store: str = "embedded", agent_timeout: float = 600.0
) -> Rehearsal:
    """A repository with the plan, the script and the settings committed on main; nothing is compiled yet."""
    root.mkdir(parents=True, exist_ok=True)
    rehearsal = Rehearsal(root, parts)
    rehearsal.git("init", "--quiet", "--initial-branch=main")
    for name, value in SETTINGS.items():
        rehearsal.git("config", name, value)
    plan = "# A rehearsal\n" + "".join(part.section() for part in parts)
    script = {"beads": {part.id: part.script() for part in parts}}
    texts = {
        PLAN: plan,
        SCRIPT: json.dumps(script),
        "beads-ralph.yaml": yaml.safe_dump(_settings(store, parallel, agent_timeout)),
        ".gitignore": "/.ralph/\n/.beads/\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")
    rehearsal.git("add", "--all")
    rehearsal.git("commit", "--quiet", "--message", "Plan")
    return rehearsal


def _settings(store: str, parallel: int, agent_timeout: float) -> dict[str, Any]:
    agent = {"executable": "scripted", "model": "script", "options": ["--script", SCRIPT]}
    return {
        "store": store,
        "forge": "local",
        "max_parallel_sessions": parallel,
        "min_free_gb": 0.1,
        "max_interruptions": 0,  # whoever kills here is no agent
        "dev_agent_timeout": agent_timeout,
        # On bd, agents run bd by hand in another repository.
        "sandbox": "none" if store == "bd" else "auto",
        "plan": {
            "source_branch": "main",
            "dev_agents": [{"agent": "developer", **agent}],
            "qa_agents": [{"agent": "reviewer", **agent}],
        },
    }


def chains(tracks: int, length: int) -> list[Part]:
    """Tracks side by side, each a line of sprints that wait for one another."""
    return [Part(f"1{letters(track)}.{number}") for track in range(tracks) for number in range(1, length + 1)]


def letters(number: int) -> str:
    """a … z, then za … zz: no two of them are made of others, which would be tracks that meet."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return alphabet[number] if number < 25 else f"z{letters(number - 25)}"


def seconds_of(event: Event) -> float:
    return datetime.fromisoformat(event.at).timestamp()


# --- processes ----------------------------------------------------------------------------------------


def marked(accept: Callable[[Mapping[str, str]], bool]) -> Iterator[tuple[int, str]]:
    """Living processes whose environment is accepted, with their command lines."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            rows = (entry / "environ").read_bytes().decode("utf-8", "replace").split("\0")
            stat = (entry / "stat").read_text("utf-8", "replace")
            if stat[stat.rindex(")") + 2] in "ZX":
                continue
            if accept(dict(row.split("=", 1) for row in rows if "=" in row)):
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
                yield int(entry.name), words.replace("\0", " ").strip()


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

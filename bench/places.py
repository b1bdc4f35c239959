"""Scratch repositories, and commands that run in them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
COMMAND = Path(sys.executable).parent / "beads-ralph"
# Read before `settle` changes it: the bd that the project builds is kept below the real home.
HOME = os.environ.get("HOME", "")


@dataclass(frozen=True)
class Scratch:
    """A folder for one run; it goes away afterwards."""

    folder: Path
    kept: dict[str, Any] = field(default_factory=dict)
    """What is written down beside the rows, by measurement."""

    def settle(self) -> None:
        """Keep the developer's own settings out of what is measured, and the run out of the real home.

        An installed program has its bytecode beside it. Here it is kept in the scratch folder, also for
        those who let Python write none, and whose sources would otherwise be compiled at every start.
        """
        for name in list(os.environ):
            if name.startswith(("GIT_", "BD_", "BEADS_DIR", "PYTHON")):
                del os.environ[name]
        home = self.folder / "home"
        home.mkdir()
        os.environ |= {
            "HOME": str(home),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "BD_DISABLE_METRICS": "1",
            "BD_DISABLE_EVENT_FLUSH": "1",
            "BD_NON_INTERACTIVE": "1",
            "NO_COLOR": "1",
        }

    def repository(self) -> Path:
        """A new, empty git repository."""
        root = Path(tempfile.mkdtemp(prefix="shop-", dir=self.folder))
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=root, check=True)
        return root


@dataclass(frozen=True)
class Used:
    """What a command used."""

    wall: float
    cpu: float
    peak: int
    output: str


def run(words: Sequence[str | Path], cwd: Path) -> Used:
    """Run a command in a process of its own, to a good end."""
    launch = [sys.executable, "-I", str(PROJECT / "bench" / "launch.py")]
    done = subprocess.run([*launch, *map(str, words)], cwd=cwd, stdout=subprocess.PIPE, check=True)
    said = json.loads(done.stdout)
    if said["code"] != 0:
        command = " ".join(map(str, words))
        raise subprocess.SubprocessError(f"{command} ended with {said['code']}: {said['output']}")
    return Used(said["wall"], said["cpu"], said["peak"], said["output"])


def script(path: Path, command: str) -> Path:
    """A program that is one command of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def processor_time() -> float:
    """Of this process and of those that it started and that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@cache
def agents() -> Path:
    """A folder with the real agent CLIs: the one named in BEADS_RALPH_AGENTS, or the project's own."""
    if given := os.environ.get("BEADS_RALPH_AGENTS"):
        return Path(given)
    install = PROJECT / "tools" / "agents" / "install"
    found = subprocess.run([install], env={**os.environ, "HOME": HOME}, stdout=subprocess.PIPE, check=True)
    return Path(found.stdout.decode().strip())


@cache
def bd() -> str | None:
    """The real bd: the one named in BEADS_RALPH_BD, the one on PATH, or the one that the project builds."""
    given = os.environ.get("BEADS_RALPH_BD") or shutil.which("bd")
    if given:
        return given
    install = PROJECT / "tools" / "bd" / "install"
    found = subprocess.run([install], env={**os.environ, "HOME": HOME}, stdout=subprocess.PIPE, check=True)
    return found.stdout.decode().strip() or None


def temporal_program() -> str:
    """The Temporal server: the one named in BEADS_RALPH_TEMPORAL, or the one that the project builds."""
    if given := os.environ.get("BEADS_RALPH_TEMPORAL"):
        return given
    install = PROJECT / "tools" / "temporal" / "install"
    found = subprocess.run([install], env={**os.environ, "HOME": HOME}, stdout=subprocess.PIPE, check=True)
    return found.stdout.decode().strip()

"""The git processes that beads cost, those that git itself starts among them: each tells of itself."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench import places, rehearsals
from bench.places import COMMAND
from bench.report import Row

MOST = 12
VARIABLE = "GIT_TRACE2_EVENT"
"""Names a folder: every git that runs writes a file of its own there."""


@dataclass(frozen=True)
class GitProcess:
    """One that was started."""

    command: str
    at: str
    """When, in ISO 8601."""


def found(folder: Path) -> list[GitProcess]:
    """Every git that has written into the folder."""
    return [one for file in sorted(folder.iterdir()) if (one := _told(file))]


def _told(file: Path) -> GitProcess | None:
    for line in file.read_text("utf-8", "replace").splitlines():
        fact = json.loads(line)
        if fact["event"] == "start":
            return GitProcess(_command(fact["argv"]), fact["time"])
    return None


def _command(argv: list[str]) -> str:
    """`git -c a=b fetch …` → `fetch`, and `git-upload-pack …` → `upload-pack`"""
    words = iter(argv)
    name = Path(next(words)).name
    for word in words if name == "git" else ():
        if word == "-c":
            next(words)
        elif not word.startswith("-"):
            return word
    return name.removeprefix("git-")


def of_a_bead(processes: list[GitProcess], closed: list[str]) -> dict[str, float]:
    """How many of each a bead costs. What comes before the first bead is closed is left out: so much of it is
    the run's. `closed` are the moments at which beads were."""
    first, *others = sorted(closed)
    counted = Counter(one.command for one in processes if one.at > first)
    return {name: number / len(others) for name, number in counted.most_common()}


def row(folder: Path) -> Row:
    """Those of a small run of its own, since telling of each costs time."""
    rehearsal = rehearsals.stage(folder / "app", rehearsals.chains(1, 6), parallel=2)
    places.run([COMMAND, "mason", rehearsals.PLAN, "--json"], rehearsal.root)
    traces = folder / "traces"
    traces.mkdir()
    os.environ[VARIABLE] = str(traces)
    try:
        places.run([COMMAND, "run", "--json"], rehearsal.root)
    finally:
        del os.environ[VARIABLE]
    each = of_a_bead(found(traces), [one.at for one in rehearsal.told() if one.kind == "bead_closed"])
    count = sum(each.values())
    value = f"{count:.1f} ({', '.join(f'{name} {number:.2g}' for name, number in each.items())})"
    return Row("git processes a bead, those that git starts too", value, f"≤ {MOST}", count <= MOST)

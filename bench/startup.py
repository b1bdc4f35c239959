"""How long it takes until the program answers at all."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from bench.places import COMMAND, Scratch
from bench.report import Judge, Row, seconds

RUNS = 40
HELP_RUNS = 10  # only shown
BOUND = 4.0
LOOKS = {"list": 10.0, "status": 10.0, "show bd-1-1-setup": 10.0, "ready": 10.0, "--version": BOUND}
LOOK_RUNS = 25
PLAN = "### Sprint 1.1: Setup\n**Tasks**:\n- Do it\n"


def version(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """`--version` against an interpreter that does nothing, by turns."""
    commands: dict[str, Sequence[str | Path]] = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "beads-ralph --version": (COMMAND, "--version"),
        "beads-ralph --help": (COMMAND, "--help"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(4 if judge.quick else RUNS + 1):
        for name, words in commands.items():
            if "--help" in words and turn > HELP_RUNS:
                continue
            start = time.perf_counter()
            subprocess.run(words, cwd=scratch.folder, stdout=subprocess.DEVNULL, check=True)
            if turn:  # the first one only warms the disk's cache
                times[name].append(time.perf_counter() - start)
    nothing, answer, _ = times.values()
    for name, taken in times.items():
        yield Row(name, f"{seconds(median(taken))} (least {seconds(min(taken))})")
    of = f" (least {min(answer) / min(nothing):.2f} x)"
    yield judge.at_most("--version against an empty python", median(answer) / median(nothing), BOUND, of)


def looks(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """The commands that people call all day, in processor time, least of many: other work does not count."""
    repo = scratch.folder / "looks"
    repo.mkdir()
    (repo / "plan.md").write_text(PLAN, encoding="utf-8")
    preparing: list[Sequence[str | Path]] = [("git", "init", "-q"), (COMMAND, "init")]
    for words in (*preparing, (COMMAND, "mason", "plan.md")):
        subprocess.run(words, cwd=repo, stdout=subprocess.DEVNULL, check=True)
    nothing: Sequence[str | Path] = (sys.executable, "-c", "pass")
    least = dict.fromkeys(("nothing", *LOOKS, *map(_drawn, LOOKS)), float("inf"))
    for _ in range(2 if judge.quick else LOOK_RUNS):
        least["nothing"] = min(least["nothing"], _processor_time(nothing, repo))
        for look in LOOKS:
            words = (COMMAND, *look.split())
            least[look] = min(least[look], _processor_time(words, repo))
            least[_drawn(look)] = min(least[_drawn(look)], _processor_time(words, repo, terminal=True))
    for look, bound in LOOKS.items():
        on = f" ({least[_drawn(look)] / least['nothing']:.1f} x on a terminal)"
        yield judge.at_most(f"{look} against an empty python", least[look] / least["nothing"], bound, on)


def _drawn(look: str) -> str:
    return f"{look} on a terminal"


def _processor_time(words: Sequence[str | Path], cwd: Path, *, terminal: bool = False) -> float:
    ours, theirs = pty.openpty() if terminal else (-1, subprocess.DEVNULL)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        subprocess.run(words, cwd=cwd, stdout=theirs, check=True)
    finally:
        for descriptor in (ours, theirs):
            if descriptor >= 0:
                os.close(descriptor)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

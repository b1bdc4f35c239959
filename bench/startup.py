"""How long it takes until the program answers at all."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from bench.places import COMMAND, Scratch
from bench.report import Judge, Row, seconds

RUNS = 40
HELP_RUNS = 10  # it loads everything, and is only shown
BOUND = 4.0


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

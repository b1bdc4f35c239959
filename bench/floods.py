"""Agents that print very much: does our process grow with it?"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from beads_ralph.agents.protocol import AGENTS
from bench import places
from bench.report import Judge, Row, seconds
from tests.agents import cassettes

FLAT = 1.25  # the last words of an agent are kept, up to 2 MB of them
MEGABYTES = 100
QUICK_MEGABYTES = 5
PRINTER = places.PROJECT / "bench" / "print_events.py"
READER = "bench.read_call"
ONE_LINE = "one-line"


@dataclass(frozen=True)
class Flood:
    """One call with so much output."""

    peak: int
    printed: int
    running: float
    reading: float


def floods(judge: Judge, folder: Path) -> Iterator[Row]:
    names = ["command", *filter(recorded, AGENTS)]
    for name in names[:2] if judge.quick else names:
        yield from _growth(judge, folder, name)
    large = _flood(folder, "command", ONE_LINE, _megabytes(judge))
    yield Row(f"{_megabytes(judge)} MB on a single line: peak", _shown(large))


def recorded(name: str) -> Path | None:
    """A whole, good call of the CLI, as it printed it."""
    path = cassettes.of(name) / "ok.out"
    return path if path.exists() else None


def _megabytes(judge: Judge) -> int:
    return QUICK_MEGABYTES if judge.quick else MEGABYTES


def _growth(judge: Judge, folder: Path, name: str) -> Iterator[Row]:
    source = str(recorded(name) or recorded("codex"))  # any lines will do for any program
    little, much = (_flood(folder, name, source, size) for size in (1, _megabytes(judge)))
    title = f"{_megabytes(judge)} MB from {AGENTS[name].profile.title}"
    yield Row(f"{title}: read at", f"{much.printed / much.reading / 1e6:.0f} MB/s (peak {_shown(much)})")
    of = f" ({little.peak / 1e6:.0f} MB, {much.peak / 1e6:.0f} MB)"
    yield judge.at_most(f"{title}: our memory against 1 MB", much.peak / little.peak, FLAT, of)


def _flood(folder: Path, name: str, source: str, megabytes: int) -> Flood:
    place = folder / f"{name}-{megabytes}"
    words = [sys.executable, "-I", "-S", str(PRINTER), source, str(megabytes)]
    program = places.script(place / name, f"exec {shlex.join(words)}")
    used = places.run([sys.executable, "-m", READER, name, program, place], places.PROJECT)
    told = json.loads(used.output)
    shutil.rmtree(place)
    if not told["ok"] or told["trouble"] or told["printed"] < megabytes * 1_000_000:
        raise subprocess.SubprocessError(f"{name} did not end well: {used.output}")
    return Flood(used.peak, told["printed"], told["running"], told["reading"])


def _shown(flood: Flood) -> str:
    return f"{flood.peak / 1e6:.0f} MB; printed in {seconds(flood.running)}, read in {seconds(flood.reading)}"

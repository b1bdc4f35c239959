"""How soon a run's first agent starts, what waiting costs, and whether either grows with the beads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import yaml

from bench import places, rehearsals
from bench.peer_adapters import BeadsRalph, StandIn, Task
from bench.peers import Staged, Trial, idle_share, staged
from bench.places import COMMAND, Scratch
from bench.report import Judge, Row, seconds
from bench.stores import filled

RUNS = 15
TURNS = 5
FIRST_AGENT = 45.0
"""0.4 s where an empty python takes 9 ms."""
IDLE_SHARE = 0.003
IN_A_FULL_STORE = 1.5
A_BEAD = 1.2
FLAT = 1.25
LINES = 20
AT_ONCE = 4


def first_agent(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """From the command to the first line of an agent, on a plan of three sprints, against an empty python."""
    taken: list[float] = []
    nothing: list[float] = []
    for turn in range(2 if judge.quick else RUNS + 1):
        nothing.append(_nothing(scratch.folder))
        first = _started(scratch.folder / f"first-{turn}").first
        taken += [first] if turn else []
    value = f"{seconds(median(taken))} (least {seconds(min(taken))})"
    yield Row("run: from the command to the first agent", value)
    of = f" (median {median(taken) / median(nothing):.1f} x)"
    yield judge.at_most("… least, against an empty python", min(taken) / min(nothing), FIRST_AGENT, of)
    share = idle_share(BeadsRalph(), scratch.folder / "idle")
    ok = None if judge.quick else share <= IDLE_SHARE
    yield Row("run: of a core while one agent works", f"{share:.2%}", f"≤ {IDLE_SHARE:.1%}", ok)


def _nothing(folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], cwd=folder, check=True)
    return time.perf_counter() - start


def _started(place: Path) -> Trial:
    trial = _small_plan(place).run()
    shutil.rmtree(place)
    return trial


def _small_plan(place: Path) -> Staged:
    return staged(BeadsRalph(), place, [Task("a"), Task("b"), Task("c")], "works", 60.0, 0.0)


def full_store(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """The same with beads of another plan in the store, by turns, each with a copy of the same store."""
    sizes = (10, 100) if judge.quick else (100, 100_000)
    stores = {size: _small_plan(scratch.folder / f"full-{size}") for size in sizes}
    for size, work in stores.items():
        places.run([COMMAND, "mason", "plan.md", "--json"], work.root)
        filled(work.root, size, "another.md")
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(1 if judge.quick else TURNS):
        for size, work in stores.items():
            place = scratch.folder / f"full-{size}-{turn}"
            shutil.copytree(work.root, place / "app")
            work.agent.log.write_text("", encoding="utf-8")
            taken[size].append(replace(work, root=place / "app").run().first)
            shutil.rmtree(place)
    small, large = (min(taken[size]) for size in sizes)
    name = f"first agent, {sizes[1]:,} beads in the store against {sizes[0]:,}"
    of = f" ({seconds(small)}, {seconds(large)})"
    yield judge.at_most(name, large / small, IN_A_FULL_STORE, of)


def long_run(judge: Judge, scratch: Scratch, count: int | None = None) -> Iterator[Row]:
    """What a bead of a long run costs against one of a run a tenth as long, in processor time."""
    most = 40 if judge.quick else count or 600
    small, large = (_worked(scratch.folder / f"long-{size}", size) for size in (most // 10, most))
    each = [one.cpu / size for one, size in ((small, most // 10), (large, most))]
    name = f"processor time a bead, {most:,} beads in one run against {most // 10:,}"
    yield judge.at_most(name, each[1] / each[0], A_BEAD, f" ({seconds(each[0])}, {seconds(each[1])})")
    of = f" ({small.memory / 1e6:.0f} MB, {large.memory / 1e6:.0f} MB)"
    yield judge.at_most("… memory of its processes", large.memory / small.memory, FLAT, of)


def _worked(place: Path, count: int) -> Trial:
    """Lines of beads with an agent that is a few lines of the shell: what is left is ours and git's."""
    lines = min(LINES, count)
    parts = rehearsals.chains(lines, count // lines)
    agent = StandIn(place / "bin" / "stand-in", place / "notes" / "log", "works", 0.0)
    agent.write()
    work = rehearsals.stage(place / "app", parts, parallel=AT_ONCE)
    settings = yaml.safe_load((work.root / "beads-ralph.yaml").read_text("utf-8"))
    settings["sandbox_writes"] = [str(agent.log.parent)]
    for role in ("dev_agents", "qa_agents"):
        settings["plan"][role] = [{"agent": role, "executable": str(agent.path), "model": "none"}]
    (work.root / "beads-ralph.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    work.git("commit", "--quiet", "--all", "--message", "A stand-in")
    places.run([COMMAND, "mason", rehearsals.PLAN, "--json"], work.root)
    trial = Staged(BeadsRalph(), work.root, agent).run(longest=7200.0)
    closed = sum(event.kind == "bead_closed" for event in work.told())
    if closed != len(parts):
        raise subprocess.SubprocessError(f"{closed} of {len(parts)} beads were closed")
    shutil.rmtree(place)
    return trial

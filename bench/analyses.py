"""Does `analyze` grow with its records and no faster, and what does it cost beside reading them?"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench import histories, places
from bench.places import COMMAND, Scratch, Used
from bench.report import Judge, Row, seconds

SIZES = (10_000, 100_000)
QUICK_SIZES = (100, 400)
ROUNDS = 3
READ = Path(__file__).with_name("read_records.py")
BOUND = 2.0
GROWTH = 1.5


def analyze(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Whole commands, start-up included, in turns: ours, and one that reads and parses the same files."""
    sizes = QUICK_SIZES if judge.quick else SIZES
    roots = {size: _root(scratch, size) for size in sizes}
    ours, bare = _rounds(roots, 1 if judge.quick else ROUNDS)
    for size in sizes:
        wall, peak = median(used.wall for used in ours[size]), median(used.peak for used in ours[size])
        each = median(used.cpu for used in ours[size]) / size
        yield Row(
            f"analyze, {size:,} records", f"{seconds(each)} a record ({seconds(wall)}, {peak / 1e6:.0f} MB)"
        )
    small, large = sizes
    cpu = {size: median(used.cpu for used in ours[size]) / size for size in sizes}
    step = f"{large:,} against {small:,}"
    yield judge.at_most(f"analyze, time a record: {step}", cpu[large] / cpu[small], GROWTH)
    pairs = list(zip(ours[large], bare[large], strict=True))
    beside = "against reading and parsing alone"
    ratio = median(one.cpu / other.cpu for one, other in pairs)
    yield judge.at_most(f"analyze, processor time, {beside}", ratio, BOUND)
    yield Row(
        f"analyze, wall time, {beside}", f"{median(one.wall / other.wall for one, other in pairs):.2f} x"
    )
    for root in roots.values():
        shutil.rmtree(root)


def _root(scratch: Scratch, size: int) -> Path:
    root = scratch.repository()
    histories.write(root / "state", size)
    return root


def _rounds(roots: dict[int, Path], rounds: int) -> tuple[dict[int, list[Used]], dict[int, list[Used]]]:
    ours: dict[int, list[Used]] = {size: [] for size in roots}
    bare: dict[int, list[Used]] = {size: [] for size in roots}
    for root in roots.values():
        places.run([sys.executable, READ], root)  # warms the disk's cache
    for _ in range(rounds):
        for size, root in roots.items():
            bare[size].append(places.run([sys.executable, READ], root))
            ours[size].append(places.run([COMMAND, "analyze"], root))
    return ours, bare

"""Does the time of `plan check` grow with the plan and no faster? The same for its memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench import places, plans
from bench.places import COMMAND, Scratch, Used
from bench.report import Judge, Row, seconds

SIZES = (10, 100, 1_000, 10_000)
QUICK_SIZES = (10, 20, 40)
ROUNDS = 3
COMPILE = Path(__file__).with_name("compile_once.py")
BOUND = 1.5


def linear(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """The whole command, start-up included; the compiler alone; the memory of both."""
    sizes = QUICK_SIZES if judge.quick else SIZES
    root = scratch.repository()
    for size in sizes:
        (root / f"{size}.md").write_text(plans.plan(size), encoding="utf-8")
    whole, inside = _rounds(root, sizes, 1 if judge.quick else ROUNDS)

    per_sprint = {size: median(used.cpu for used in whole[size]) / size for size in sizes}
    compiled = {size: median(inside[size]) / size for size in sizes}
    peak = {size: median(used.peak for used in whole[size]) for size in sizes}
    for size in sizes:
        wall = median(used.wall for used in whole[size])
        value = f"{seconds(per_sprint[size])} a sprint ({seconds(wall)}, {peak[size] / 1e6:.0f} MB)"
        yield Row(f"plan check, {size:,} sprints", value)
    small, large = sizes[-2:]
    step = f"{large:,} against {small:,}"
    yield judge.at_most(f"plan check, time a sprint: {step}", per_sprint[large] / per_sprint[small], BOUND)
    growth = {size: (peak[size] - peak[sizes[0]]) / size for size in (small, large)}
    yield judge.at_most(
        f"plan check, memory a sprint: {step}",
        growth[large] / growth[small],
        BOUND,
        f" ({growth[large] / 1e3:.0f} kB)",
    )
    yield Row(
        f"compiler without start-up, time a sprint: {step}",
        f"{compiled[large] / compiled[small]:.2f} x ({seconds(compiled[large])})",
    )


def _rounds(
    root: Path, sizes: tuple[int, ...], rounds: int
) -> tuple[dict[int, list[Used]], dict[int, list[float]]]:
    """Every size once a round, so that a slow minute of the machine meets them all."""
    whole: dict[int, list[Used]] = {size: [] for size in sizes}
    inside: dict[int, list[float]] = {size: [] for size in sizes}
    places.run([COMMAND, "plan", "check", f"{sizes[0]}.md", "--json"], root)  # warms the disk's cache
    for _ in range(rounds):
        for size in sizes:
            whole[size].append(places.run([COMMAND, "plan", "check", f"{size}.md", "--json"], root))
            inside[size].append(float(places.run([sys.executable, COMPILE, f"{size}.md"], root).output))
    return whole, inside


RECONCILED = 1.3


def reconciled(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """What it adds to the check of a plan to compare it with the store that has its beads."""
    size = QUICK_SIZES[-1] if judge.quick else SIZES[-1]
    root = scratch.repository()
    text = plans.plan(size)
    (root / "plan.md").write_text(text, encoding="utf-8")
    places.run([COMMAND, "mason", "plan.md", "--store", "embedded", "--json"], root)
    edited = text.replace("Integration of", "Merging of").replace(" in one transaction", " at once")
    used: dict[str, list[float]] = {"check": [], "diff": [], "edited": []}
    for _ in range(1 if judge.quick else ROUNDS):
        used["check"].append(places.run([COMMAND, "plan", "check", "plan.md", "--json"], root).cpu)
        used["diff"].append(places.run([COMMAND, "plan", "diff", "plan.md", "--json"], root).cpu)
        (root / "plan.md").write_text(edited, encoding="utf-8")
        used["edited"].append(places.run([COMMAND, "plan", "diff", "plan.md", "--json"], root).cpu)
        (root / "plan.md").write_text(text, encoding="utf-8")
    check, unchanged, changed = (median(used[name]) for name in ("check", "diff", "edited"))
    name = f"reconciling {size:,} sprints with the store against plan check"
    yield judge.at_most(name, unchanged / check, RECONCILED, f" ({seconds(unchanged)})")
    yield Row(f"{name}, half of them edited", f"{changed / check:.2f} x ({seconds(changed)})")


def commands(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Other commands on a plan of a thousand sprints, only shown."""
    size = 50 if judge.quick else 1_000
    for name, words in {
        "plan graph --format json": ("plan", "graph", "plan.md", "--format", "json"),
        "mason, embedded store": ("mason", "plan.md", "--store", "embedded", "--json"),
    }.items():
        used = []
        for _ in range(1 if judge.quick else ROUNDS):
            root = scratch.repository()  # a new one each time: mason inserts only once
            (root / "plan.md").write_text(plans.plan(size), encoding="utf-8")
            used.append(places.run([COMMAND, *words], root))
        peak = median(each.peak for each in used) / 1e6
        yield Row(
            f"{name}, {size:,} sprints", f"{seconds(median(each.wall for each in used))} ({peak:.0f} MB)"
        )

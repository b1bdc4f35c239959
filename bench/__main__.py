"""`python -m bench [NAME…] [--quick] [--json FILE]`: one table; exit 1 where a bound is broken."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from beads_ralph.errors import RalphError
from bench import (
    advices,
    agents,
    analyses,
    backtests,
    boards,
    chaos,
    host_chaos,
    host_speed,
    loops,
    peers,
    plan_check,
    pours,
    records,
    run_start,
    startup,
    stores,
    watching,
)
from bench.places import Scratch
from bench.report import Judge, Row, table

MEASUREMENTS: dict[str, Callable[[Judge, Scratch], Iterator[Row]]] = {
    "startup": startup.version,
    "looks": startup.looks,
    "plan-check": plan_check.linear,
    "reconcile": plan_check.reconciled,
    "commands": plan_check.commands,
    "embedded-load": stores.embedded_load,
    "embedded-growth": stores.embedded_growth,
    "embedded-claims": stores.embedded_claims,
    "bd-load": stores.bd_load,
    "pour": pours.embedded,
    "bd-pour": pours.bd,
    "analyze": analyses.analyze,
    "advice": advices.advice,
    "forecast": backtests.forecasts,
    "overhead": loops.overhead,
    "dispatch": loops.dispatch,
    "scale": loops.scale,
    "records": records.writing,
    "chaos": chaos.kills,
    "agents": agents.agents,
    "memory": watching.share,
    "board": boards.looked_at,
    "first-agent": run_start.first_agent,
    "full-store": run_start.full_store,
    "long-run": run_start.long_run,
    "peers": peers.side_by_side,
    "host-chaos": host_chaos.faults,
    "host-speed": host_speed.speed,
}
ON_REQUEST = {"long-run", "peers", "host-chaos", "host-speed"}
"""Measured where they are named, and not among the rest."""


def main() -> int:
    arguments = _parser().parse_args()
    names = arguments.names or [name for name in MEASUREMENTS if name not in ON_REQUEST]
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        sys.stderr.write(f"bench: no such measurement: {', '.join(unknown)}; there are: {_listed()}\n")
        return 2
    MEASUREMENTS["bd-pour"] = partial(pours.bd, count=arguments.rows)
    MEASUREMENTS["long-run"] = partial(run_start.long_run, count=arguments.beads)
    MEASUREMENTS["chaos"] = partial(chaos.kills, count=arguments.kills, seed=arguments.seed)
    MEASUREMENTS["host-chaos"] = partial(host_chaos.faults, count=arguments.kills, seed=arguments.seed)
    with tempfile.TemporaryDirectory(prefix="beads-ralph-bench-") as folder:
        scratch = Scratch(Path(folder).resolve())
        machine = _machine(scratch.folder)
        scratch.settle()
        rows = _measure(names, Judge(arguments.quick), scratch)
    print(machine)
    if arguments.quick:
        print("quick run: small sizes, times are shown but not judged")
    print(f"\n{table(rows)}")
    over = [row for row in rows if row.ok is False]
    if arguments.json:
        report = {"machine": machine, "quick": arguments.quick, "rows": [row.to_json() for row in rows]}
        _write(arguments.json, report)
        if scratch.kept:
            _write(arguments.json.with_suffix(".profile.json"), {"machine": machine, **scratch.kept})
    print(f"\n{len(over)} over their bound or failed" if over else "\nno bound broken")
    return 1 if over else 0


def _write(path: Path, report: dict[str, Any]) -> None:
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, as ratios within one run.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"what to measure; all without one: {_listed()}"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; times are not judged")
    parser.add_argument("--rows", type=int, metavar="N", help="how many rows bd-pour pours; 40 without it")
    parser.add_argument(
        "--beads", type=int, metavar="N", help="how many beads long-run works on; 600 without it"
    )
    parser.add_argument(
        "--kills", type=int, metavar="N", help="how often chaos kills the loop, or host-chaos strikes"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which moments chaos chooses")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the rows there too, and the profile beside it"
    )
    return parser


def _listed() -> str:
    return ", ".join(MEASUREMENTS)


def _measure(names: list[str], judge: Judge, scratch: Scratch) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        start = time.monotonic()
        gc.collect()
        try:
            rows.extend(MEASUREMENTS[name](judge, scratch))
        except (OSError, subprocess.SubprocessError, RalphError) as problem:  # the others still count
            rows.append(Row(name, f"failed: {problem}", ok=False))
        sys.stderr.write(f"{name}: {time.monotonic() - start:.0f} s\n")
    return rows


def _machine(folder: Path) -> str:
    found = subprocess.run(["df", "--output=fstype", folder], capture_output=True, text=True, check=False)
    disk = "".join(found.stdout.split()[1:]) or "a disk"
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {platform.system()}, scratch files on {disk}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


if __name__ == "__main__":
    sys.exit(main())

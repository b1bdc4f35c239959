"""Who calls a command: a person, or a process that works for a run on the same repository.

Agents and checks of a run have its id in their environment. A process that has thrown it away still has the
run, or one of its agents, among its ancestors: whatever is orphaned goes to a reaper below the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from beads_ralph.journal import runs
from beads_ralph.process.jobs import RUN_ID
from beads_ralph.process.process_table import read_process, variable_of

PLACES: Final = (runs.RUNS, f"*/{runs.RUNS}", f"*/*/{runs.RUNS}")
"""Below `.ralph`, where folders of runs are: those of `run`, of `ask` and of gates, of `exec`."""
MOST: Final = 200
"""So many ancestors are looked at."""


def run_behind(home: Path) -> str:
    """The run on the repository with this `.ralph` that our process works for; empty for a person's. A run
    on another repository, such as one that an agent makes for its tests, is none of it."""
    if not home.is_dir():
        return ""
    loop = runs.holder(home) if runs.is_running(home) else None
    said = os.environ.get(RUN_ID, "")
    if _is_of(home, said):
        return said
    for pid in _ancestors(os.getpid()):
        if loop is not None and pid == loop.pid:
            return loop.run_id
        if _is_of(home, said := variable_of(pid, RUN_ID)):
            return said
    return ""


def _is_of(home: Path, run_id: str) -> bool:
    if not run_id or Path(run_id).name != run_id:
        return False
    return any(found.is_dir() for place in PLACES for found in home.glob(f"{place}/{run_id}"))


def _ancestors(pid: int) -> Iterator[int]:
    for _ in range(MOST):
        process = read_process(pid)
        if process is None or process.parent <= 1:
            return
        pid = process.parent
        yield pid

"""Why a host does not take a bead: another version, a program or a secret that it lacks, no room."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from beads_ralph import __version__
from beads_ralph.agents.protocol import select
from beads_ralph.process import jobs
from beads_ralph.process.process_table import free_memory

LEAST_DISK: Final = 1024**3
LEAST_MEMORY: Final = 512 * 1024**2


def why_not(ticket: Mapping[str, Any]) -> str:
    """What is missing for a ticket's bead, in words; empty where nothing is."""
    return "; ".join(_missing(ticket))


def _missing(ticket: Mapping[str, Any]) -> Iterator[str]:
    if ticket["version"] != __version__:
        yield f"it has beads-ralph {__version__}, the run has {ticket['version']}"
    for programs in ticket["programs"]:
        if not any(map(_is_here, programs)):
            yield f"it lacks {' and '.join(programs)}"
    if lacking := [name for name in ticket["variables"] if name not in os.environ]:
        yield f"it lacks the variables {', '.join(lacking)}"


def _is_here(program: str) -> bool:
    profile = select(program).profile
    return profile.built_in or "/" in program or jobs.which(profile.executable or program) is not None


def shortage(home: Path, least: int = LEAST_DISK) -> str:
    """What the host has too little of for one more session; empty where it has enough."""
    place = next(path for path in (home, *home.parents) if path.exists())
    if shutil.disk_usage(place).free < least:
        return "disk"
    return "memory" if 0 < free_memory() < LEAST_MEMORY else ""

"""What `exec` does and has done, as status and logs show it: from the journals that it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beads_ralph.bead.words import plural
from beads_ralph.cli.page import Line, line
from beads_ralph.config.workspace import Place
from beads_ralph.journal import journal, runs


def homes(place: Place) -> list[Path]:
    """A folder for each bead, below the repository and below the folder that one stands in."""
    places = dict.fromkeys((place.root, Path.cwd()))
    return [home for folder in places for home in runs.homes(folder) if runs.latest(home)]


def is_anything_running(place: Place) -> bool:
    """The loop, or an execution."""
    return any(map(runs.is_running, (place.home, *homes(place))))


def rows(found: Sequence[Path]) -> list[dict[str, Any]]:
    """How the last execution of each bead stands; one that only looked (`--verify-only`) is none."""
    every = [_row(home) for home in found]
    return [row for row in every if row is not None]


def _row(home: Path) -> dict[str, Any] | None:
    from beads_ralph.cli.run_status import execution

    folder = runs.latest(home)
    running = runs.is_running(home)
    facts = execution(home.name, list(journal.read(folder.journal)), running=running) if folder else None
    return {"run_id": folder.run_id, "running": running, **facts} if folder and facts else None


def page(found: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Those at work, those that came to nothing, and how many are done."""
    if done := [row for row in found if row.get("ended") == "completed"]:
        yield line(f"{plural(len(done), 'bead')} completed by exec")
    for row in found:
        if row["running"] and "stage" in row:
            from beads_ralph.cli.run_status import progress

            yield line(f"  ▶ {row['bead']}  exec  {progress(row)}")
        elif row.get("ended") == "failed":
            yield line("  ", ("✗", "red"), f" {row['bead']}  exec  {row['reason'] or ''}")

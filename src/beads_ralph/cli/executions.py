"""What `exec` does and has done, as status and logs show it: from the journals that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beads_ralph.bead.words import plural
from beads_ralph.cli.board import stage_of
from beads_ralph.cli.run_status import at_work, elapsed
from beads_ralph.cli.text import escape
from beads_ralph.config.workspace import Workspace
from beads_ralph.journal import journal, runs
from beads_ralph.journal.events import BeadBlocked, BeadClaimed, BeadClosed, BeadReleased, Event

if TYPE_CHECKING:
    from rich.console import Console

ENDS = {BeadClosed.kind: "completed", BeadBlocked.kind: "failed", BeadReleased.kind: "broken off"}


def homes(space: Workspace) -> list[Path]:
    """A folder for each bead, below the repository and below the folder that one stands in."""
    places = dict.fromkeys((space.root, Path.cwd()))
    return [home for place in places for home in runs.homes(place) if runs.latest(home)]


def is_anything_running(space: Workspace) -> bool:
    """The loop, or an execution."""
    return any(map(runs.is_running, (space.home, *homes(space))))


def rows(found: Sequence[Path]) -> list[dict[str, Any]]:
    """How the last execution of each bead stands; one that only looked (`--verify-only`) is none."""
    every = [_row(home) for home in found]
    return [row for row in every if row is not None]


def _row(home: Path) -> dict[str, Any] | None:
    folder = runs.latest(home)
    told = list(journal.read(folder.journal)) if folder else []
    if folder is None or not any(isinstance(event, BeadClaimed) for event in told):
        return None
    running = runs.is_running(home)
    now = at_work(told) if running else []
    facts = now[0] if now else {"bead": home.name, **_end(told)}
    return {"run_id": folder.run_id, "running": running, **facts}


def _end(told: Sequence[Event]) -> dict[str, Any]:
    """One that was killed has none: it goes on when it is executed again."""
    last = told[-1]
    attempt = max(event.attempt or 0 for event in told)
    match last:
        case BeadClosed(reason=reason) | BeadBlocked(reason=reason) | BeadReleased(reason=reason):
            return {"ended": ENDS[last.kind], "reason": reason, "attempt": attempt}
        case _:
            return {"ended": None, "reason": None, "attempt": attempt}


def show(console: Console, found: Sequence[Mapping[str, Any]]) -> None:
    """Those at work, those that came to nothing, and how many are done."""
    if done := [row for row in found if row.get("ended") == "completed"]:
        console.print(f"{plural(len(done), 'bead')} completed by exec")
    for row in found:
        if row["running"] and "stage" in row:
            doing = stage_of(row["stage"], row.get("role"), row.get("agent")) or row["stage"]
            told = f"attempt {row['attempt']}  {escape(doing)}  {elapsed(row['since'])}"
            console.print(f"  ▶ {row['bead']}  exec  {told}")
        elif row.get("ended") == "failed":
            console.print(f"  [red]✗[/red] {row['bead']}  exec  {escape(row['reason'] or '')}")

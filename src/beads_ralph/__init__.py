"""Runs a plan of beads through Ralph loops.

The program is `beads-ralph`; this is the same for scripts (docs/reference/api.md). Every part is imported
when it is used, so that `import beads_ralph` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from os import PathLike

    from beads_ralph.app import RunRequest
    from beads_ralph.bead.model import Bead
    from beads_ralph.compile.build import Built
    from beads_ralph.config.settings_file import StoreChoice
    from beads_ralph.errors import RalphError
    from beads_ralph.journal.events import Event
    from beads_ralph.journal.journal import Journal
    from beads_ralph.loop import Ended
    from beads_ralph.plan import Plan
    from beads_ralph.store.protocol import Store
    from beads_ralph.store.query import Query

__version__ = "0.1.0"
__all__ = [
    "Bead",
    "Built",
    "Ended",
    "Event",
    "Plan",
    "Query",
    "RalphError",
    "RunRequest",
    "Store",
    "compile_plan",
    "follow",
    "open_store",
    "run",
]

_HOMES = {
    "Bead": "bead.model",
    "Built": "compile.build",
    "Ended": "loop",
    "Event": "journal.events",
    "Plan": "plan",
    "Query": "store.query",
    "RalphError": "errors",
    "RunRequest": "app",
    "Store": "store.protocol",
}


def compile_plan(plan: str | PathLike[str], start: str | PathLike[str] = ".") -> Built:
    """Compile a markdown plan into beads; RalphError with every fault where it has some. Stores nothing."""
    from pathlib import Path

    from beads_ralph.compile.build import compile_plan
    from beads_ralph.config import workspace
    from beads_ralph.errors import gathered

    built = compile_plan(workspace.find(Path(start)), Path(plan))
    if built.all_faults:
        raise gathered(built.all_faults, str(plan), built.warnings)
    return built


def open_store(start: str | PathLike[str] = ".", choice: StoreChoice | None = None) -> Store:
    """Open the store of the repository around `start`: the one asked for, or the one its settings name."""
    from pathlib import Path

    from beads_ralph.config import workspace
    from beads_ralph.store import registry

    return registry.open_store(workspace.find(Path(start)), choice).store


def run(
    request: RunRequest | None = None,
    start: str | PathLike[str] = ".",
    on_event: Callable[[Event], None] | None = None,
) -> Ended:
    """Work through the ready beads until nothing is left, and say why it ended. `on_event` is told
    everything as it happens. It handles SIGINT and SIGTERM, so call it from the main thread."""
    from contextlib import nullcontext
    from pathlib import Path

    from beads_ralph import app

    def watch(journal: Journal) -> AbstractContextManager[object]:
        if on_event is not None:
            journal.listeners.append(on_event)
        return nullcontext()

    return app.plan_run(request or app.RunRequest(), Path(start)).start(watch)


def follow(start: str | PathLike[str] = ".") -> Iterator[Event]:
    """The events of the latest run from its start, then as they come, until the run is over."""
    from pathlib import Path

    from beads_ralph.config import workspace
    from beads_ralph.journal import journal, runs

    home = workspace.find(Path(start)).home
    folder = runs.require_latest(home)
    return journal.follow(folder.journal, lambda: not runs.is_running(home))


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

"""What a run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from beads_ralph.compile import diff
from beads_ralph.config.settings_file import StoreChoice


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked to do; None where the settings say it."""

    plan: Path | None = None
    max_parallel: int | None = None
    teams: frozenset[str] = frozenset()
    beads: frozenset[str] = frozenset()
    convoys: tuple[str, ...] = ()
    wisps: bool = False
    once: bool = False
    dry_run: bool = False
    stop_on_failure: bool = False
    force_gates: bool = False
    plan_changes: Literal["apply", "refuse"] | None = None
    """What becomes of a plan that was edited since it was compiled."""
    prefer: diff.Choice | None = None
    """Whose value counts where both the plan and a person have changed it."""
    watch_plan: bool | None = None
    """Whether edits of the plan are taken up while the run is on; None: where agents cannot write to it."""
    push: bool | None = None
    """Whether finished branches are pushed in this run, whatever was said before."""
    agent: str | None = None
    """The program that plays every agent of this run."""
    model: str | None = None
    """The model of every agent of this run."""
    engine: Literal["local", "temporal"] | None = None
    """Where sessions run."""
    executor: str | None = None
    forge: str | None = None
    store: StoreChoice | None = None
    config: Path | None = None

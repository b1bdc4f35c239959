"""Execute Ralph beads that lie in files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from beads_ralph import forge
from beads_ralph.agents.protocol import select
from beads_ralph.app.parts import executor_of
from beads_ralph.bead import redaction
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import execute
from beads_ralph.dod.file_session import Desk, Done
from beads_ralph.dod.files import BeadFile
from beads_ralph.journal import diagnosis
from beads_ralph.process.calls import Retry, run_until_ended
from beads_ralph.session import (
    confinement,
)
from beads_ralph.session.program_limits import ProgramLimits
from beads_ralph.store.protocol import Progress, silent


@dataclass(frozen=True)
class ExecRequest:
    """How Ralph beads are to be executed; None where the settings say it."""

    program: str | None = None
    backoff: float | None = None
    verify_only: bool = False
    config: Path | None = None


def execute_files(beads: Sequence[BeadFile], request: ExecRequest, say: Progress = silent) -> list[Done]:
    """Work on Ralph beads in the current folder, one after the other, until their verifiers hold."""
    space = workspace.find(config_file=request.config)
    confinement.require(space.config, space.root)
    redaction.know(os.environ, space.config.agent_env, space.root)
    desk = _desk(space, request, say)
    with diagnosis.logged(space.config.logging, space.root):
        work = execute.one_by_one(beads, desk, verify_only=request.verify_only)
        return run_until_ended(work, "the beads are as far as they were")


def _desk(space: Workspace, request: ExecRequest, say: Progress) -> Desk:
    config = space.config
    first = config.exec_backoff if request.backoff is None else request.backoff
    return Desk(
        place=Path.cwd(),
        root=space.root,
        config=config,
        executor=executor_of(space.root, config),
        select=select,
        forge=forge.choose("none", space.root),
        state=space.state,
        program=request.program,
        pace=Retry(first=first, longest=max(config.exec_backoff_max, first), jitter=0),
        say=say,
        programs=ProgramLimits.under(config),
    )

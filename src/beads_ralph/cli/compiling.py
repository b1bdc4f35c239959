"""From the plan file to a compiled plan, as every plan command does it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from beads_ralph import files
from beads_ralph.drafts.setting import Setting
from beads_ralph.errors import gathered
from beads_ralph.mason.build import Built, build
from beads_ralph.plan import Plan, parse
from beads_ralph.workspace import Workspace


def read_plan(path: Path) -> Plan:
    return parse(files.read_text(path), str(path))


def setting_of(
    workspace: Workspace,
    path: Path,
    *,
    schema: Literal["4.1a", "legacy"] = "4.1a",
    id_suffix: str = "",
    agent_check: bool = True,
) -> Setting:
    return Setting(
        root=workspace.root,
        plan_file=workspace.relative(path),
        now=datetime.now(UTC),
        config=workspace.config,
        branches=workspace.branches(),
        schema=schema,
        id_suffix=id_suffix,
        agent_check=agent_check,
        warnings=workspace.warnings,
    )


def compiled(workspace: Workspace, path: Path, *, agent_check: bool = True) -> Built:
    """The plan compiled, its faults inside."""
    return build(read_plan(path), setting_of(workspace, path, agent_check=agent_check))


def require_graph(built: Built) -> Built:
    """Refuse what cannot even be drawn; missing sections do not hinder a drawing."""
    if built.faults:
        raise gathered(built.faults, built.plan.file, built.warnings)
    return built

"""From the plan file to a compiled plan, as every plan command does it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from beads_ralph.compile.build import Built, build
from beads_ralph.compile.setting import Setting
from beads_ralph.errors import RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.model import Formula
from beads_ralph.plan import Plan, parse
from beads_ralph.workspace import Workspace


def read_plan(path: Path) -> Plan:
    return parse(text_files.read_text(path), str(path))


def setting_of(workspace: Workspace, file: Path) -> Setting:
    """What is known besides a file from which beads are made."""
    return Setting(
        root=workspace.root,
        plan_file=workspace.relative(file),
        now=datetime.now(UTC),
        config=workspace.config,
        branches=workspace.branches(),
        warnings=workspace.warnings,
    )


def plan_setting(
    workspace: Workspace,
    plan: Plan,
    *,
    schema: Literal["4.1a", "legacy"] = "4.1a",
    id_suffix: str = "",
    agent_check: bool = True,
) -> Setting:
    """The same besides a plan, with the formulas that it names."""
    return replace(
        setting_of(workspace, Path(plan.file)),
        schema=schema,
        id_suffix=id_suffix,
        agent_check=agent_check,
        formulas=_formulas(workspace, plan),
    )


def _formulas(workspace: Workspace, plan: Plan) -> dict[str, Formula | RalphError]:
    """The formulas that the plan names, or why one cannot be poured."""
    names = {sprint.formula.value for sprint in plan.sprints if sprint.formula}
    if not names:
        return {}
    folders = Folders.of(workspace.root, workspace.checkout)
    return {name: _formula(folders, name) for name in sorted(names)}


def _formula(folders: Folders, name: str) -> Formula | RalphError:
    try:
        return folders.load(name)
    except RalphError as error:
        return error


def compiled(workspace: Workspace, path: Path, *, agent_check: bool = True) -> Built:
    """The plan compiled, its faults inside."""
    plan = read_plan(path)
    return build(plan, plan_setting(workspace, plan, agent_check=agent_check))


def require_graph(built: Built) -> Built:
    """Refuse what cannot even be drawn; missing sections do not hinder a drawing."""
    if built.faults:
        raise gathered(built.faults, built.plan.file, built.warnings)
    return built

"""From the plan file to a compiled plan, and on into the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from beads_ralph.bead.model import Bead
from beads_ralph.compile import load
from beads_ralph.compile.build import Built, build
from beads_ralph.compile.setting import Setting
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import RalphError, gathered
from beads_ralph.files import text_files
from beads_ralph.formula.folders import Folders
from beads_ralph.formula.model import Formula
from beads_ralph.plan import Plan, parse
from beads_ralph.store.protocol import Progress, Store, silent


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


def compile_plan(workspace: Workspace, path: Path, *, agent_check: bool = True) -> Built:
    """Compile a plan; its faults are in the answer."""
    plan = read_plan(path)
    return build(plan, plan_setting(workspace, plan, agent_check=agent_check))


def require_graph(built: Built) -> Built:
    """Refuse what cannot even be drawn; missing sections do not hinder a drawing."""
    if built.faults:
        raise gathered(built.faults, built.plan.file, built.warnings)
    return built


def with_known(built: Built, setting: Setting, held: load.StoredPlan) -> Built:
    """The plan compiled again, its sprints matched to the beads that the store has of it."""
    return built if held == load.StoredPlan(()) else build(built.plan, held.known_to(setting))


class PlanBeads:
    """A valid plan beside the store that its beads go into: what is there, and what would be."""

    def __init__(self, workspace: Workspace, path: Path, open_store: Callable[[], Store]) -> None:
        plan = read_plan(path)
        setting = plan_setting(workspace, plan)
        self._sprints = [sprint.id.text for sprint in plan.sprints]
        built = build(plan, setting)
        load.require_valid(built, self._sprints)  # before the store is even opened
        self._store = open_store()
        self._held = load.held(self._store, plan, setting.plan_file)
        self._batch = load.require_valid(with_known(built, setting, self._held), self._sprints)

    @property
    def beads(self) -> list[Bead]:
        """As the plan has them."""
        return [bead for bead in self._batch.beads if isinstance(bead, Bead)]

    @property
    def stored(self) -> Sequence[Bead]:
        """As the store has them, or would."""
        there = {bead.id: bead for bead in self._held.beads}
        return [there.get(bead.id, bead) for bead in self.beads]

    def insert(self, progress: Progress = silent) -> load.Loaded:
        """Put those into the store that it does not have yet, all of them or none."""
        return load.load(self._store, self._batch, check_existing=True, progress=progress)

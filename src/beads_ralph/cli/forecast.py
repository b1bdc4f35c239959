"""forecast: how long what is left of a plan will take, and what it will cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated

import typer

from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import MERGE
from beads_ralph.cli import figures, options
from beads_ralph.cli.answer import Answer
from beads_ralph.compile import load
from beads_ralph.compile.build import build
from beads_ralph.compile.plan_file import plan_setting, read_plan
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.journal import records
from beads_ralph.report import forecast as forecasting
from beads_ralph.report.forecast import History, Likeness
from beads_ralph.store import registry


def forecast(
    plan: options.PlanFile,
    max_parallel: Annotated[
        int | None, typer.Option("--max-parallel", min=1, help="Beads at work at once.", show_default=False)
    ] = None,
    store: options.Store = None,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Say how long what is left of a plan will take and cost, with a range, from the records of past runs."""
    space = workspace.find(config_file=config)
    read = read_plan(plan)
    setting = plan_setting(space, read, agent_check=False)
    built = build(read, setting)
    names = [sprint.id.text for sprint in read.sprints]
    load.require_valid(built, names)
    held = load.held(registry.open_store(space, store).store, read, setting.plan_file)
    stored = {bead.id: bead for bead in held.beads}
    batch = load.require_valid(build(read, held.known_to(setting)), names)
    beads = {_known_as(bead): bead for bead in batch.beads if isinstance(bead, Bead)}
    left = {name: bead for name, bead in beads.items() if not _is_closed(stored.get(bead.id))}
    sprints = [_sprint(name, bead, stored.get(bead.id), space) for name, bead in left.items()]
    history = History.of(records.read_all(space.state))
    width = max_parallel or space.config.max_parallel_sessions
    closed = len(beads) - len(left)
    found = forecasting.forecast(sprints, _inner(left), history, width, closed=closed)
    data = {"plan": str(plan), **found.to_json()}
    return Answer(data, lambda console: figures.show_forecast(plan, found, console), built.warnings)


def _is_closed(bead: Bead | None) -> bool:
    return bead is not None and bead.status == "closed"


def _known_as(bead: Bead) -> str:
    """Its sprint; of a sprint that is poured, with the step behind it."""
    place = bead.metadata
    return f"{place.plan_sprint_id} {place.step}" if place.step else place.plan_sprint_id


def _inner(beads: Mapping[str, Bead]) -> dict[str, list[str]]:
    names = {bead.id: name for name, bead in beads.items()}
    return {
        name: [names[other] for other in bead.dependencies if other in names] for name, bead in beads.items()
    }


def _sprint(name: str, bead: Bead, stored: Bead | None, space: Workspace) -> forecasting.ForecastSprint:
    """As the plan has it now, with the attempts that the store has counted."""
    place = bead.metadata
    first = place.dev_agents[0]
    kind = "merge" if bead.issue_type == MERGE else "work"
    likeness = Likeness(kind, _program(first, space), _model(first, space))
    begun, most = _attempts(stored, place.max_retry_attempts)
    return forecasting.ForecastSprint(name, place.branch, likeness, most, bead.priority, begun)


def _attempts(stored: Bead | None, most: int) -> tuple[int, int]:
    """Those that are over, and the number of the last one. Where all are used up, `retry` gives as many
    again."""
    if stored is None:
        return 0, most
    begun = stored.metadata.attempt_count
    last = (stored.metadata.attempts_forgiven or 0) + most
    return begun, last if begun < last else begun + most


def _program(spec: AgentSpec, space: Workspace) -> str:
    """As records name it: without the folder it lies in."""
    named = spec.executable if "executable" in spec.model_fields_set else None
    return PurePath(named or space.config.agent_defaults.default_executable).name


def _model(spec: AgentSpec, space: Workspace) -> str:
    defaults = space.config.agent_defaults
    return personas.resolve_model(
        spec, space.root, default_model=defaults.default_model, role_models=defaults.role_models
    )

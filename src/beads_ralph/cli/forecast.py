"""forecast: how long what is left of a plan will take, and what it will cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import MERGE
from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.compile.reconcile import reconcile
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.journal import records
from beads_ralph.journal.records.projection import NO_MODEL
from beads_ralph.report import forecast as forecasting
from beads_ralph.report.figures import money_text, time_text
from beads_ralph.report.forecast import Forecast, Range
from beads_ralph.report.past import DEFAULT_MEDIAN, DEFAULT_PASS, History, Likeness
from beads_ralph.store import registry

if TYPE_CHECKING:
    from rich.console import Console


def forecast(
    plan: options.PlanFile,
    max_parallel: Annotated[
        int | None, typer.Option("--max-parallel", min=1, help="Beads at work at once.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="As if every agent had this model.")
    ] = None,
    store: options.Store = None,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Say how long what is left of a plan will take and cost, with a range, from the records of past runs."""
    space = workspace.find(config_file=config)
    met = reconcile(space, plan, lambda: registry.open_store(space, store).store, agent_check=False)
    stored = {bead.id: bead for bead in met.stored.beads}
    beads = {_known_as(bead): bead for bead in met.batch.beads if isinstance(bead, Bead)}
    closed = {name for name, bead in stored.items() if bead.status == "closed"}
    left = {name: bead for name, bead in beads.items() if bead.id not in closed}
    sprints = [_sprint(name, bead, stored.get(bead.id), space) for name, bead in left.items()]
    history = History.of(records.read_all(space.state))
    usual = space.config.max_parallel_sessions
    width = max_parallel or usual
    done = len(beads) - len(left)
    asked = [_with_model(sprint, model) for sprint in sprints] if model else sprints
    found = forecasting.forecast(asked, _inner(left), history, width, closed=done)
    plain = None
    if sprints and (asked != sprints or width != usual):
        plain = forecasting.forecast(sprints, _inner(left), history, usual, closed=done)
    instead = _told(plain) if plain else None
    data = {"plan": str(plan), "model": model, **found.to_json(), "as_set": instead}
    return Answer(data, lambda console: _show(plan, found, plain, console), met.built.warnings)


def _with_model(sprint: forecasting.ForecastSprint, model: str) -> forecasting.ForecastSprint:
    return sprint._replace(likeness=sprint.likeness._replace(model=model))


def _told(plain: Forecast) -> dict[str, Any]:
    """The forecast as the settings and the plan have it, to compare with what was asked for."""
    told = plain.to_json()
    return {key: told[key] for key in ("max_parallel", "seconds", "cost_usd", "all_closed_percent")}


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
    defaults = space.config.agent_defaults
    model = personas.resolve_model(
        first, space.root, default_model=defaults.default_model, role_models=defaults.role_models
    )
    program = _program(first, space)
    likeness = Likeness(kind, program, personas.model_asked(program, model) or NO_MODEL)
    begun, most = _attempts(stored, place.max_retry_attempts)
    own = (name, place.branch, likeness, most, bead.priority, begun)
    return forecasting.ForecastSprint(*own, team=place.team_name)


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


# --- for people -----------------------------------------------------------------------------------


def _show(plan: Path, found: Forecast, plain: Forecast | None, console: Console) -> None:
    console.print(f"{plan}: {_what_is_left(found)}", markup=False)
    if not found.sprints:
        return
    seconds, cost = found.seconds, found.cost
    console.print(f"  [bold]time[/bold]      {_between(seconds, time_text)}")
    if cost is None:
        console.print("  [bold]cost[/bold]      unknown: no attempt in the records says what it cost")
    else:
        share = found.priced_share
        partly = "" if share == 1 else f"; only {100 * share:.0f} % of the attempts have a known price"
        console.print(f"  [bold]cost[/bold]      {_between(cost, money_text)}{partly}")
    console.print(f"  [bold]attempts[/bold]  {_between(found.attempts, lambda value: f'{value:.0f}')}")
    if plain is not None:
        cost_ = f", {money_text(plain.cost.p50)}" if plain.cost else ""
        console.print(
            f"  as it is set, with {plain.max_parallel} at once: {time_text(plain.seconds.p50)}{cost_}",
            markup=False,
        )
    console.print(f"  on average {found.parallelism:.1f} at work at once")
    path = " → ".join(found.path)
    console.print(
        f"  longest chain {path}: {time_text(found.path_seconds)}, with one attempt each", markup=False
    )
    console.print(
        f"  every sprint closes in {found.all_closed_percent:.0f} % of {len(found.ends)} rehearsals"
    )
    _show_basis(found, console)


def _what_is_left(found: Forecast) -> str:
    left, total = len(found.sprints), len(found.sprints) + found.closed
    width = f"up to {found.max_parallel} at once"
    if not found.closed:
        return f"{plural(total, 'sprint')}, {width}"
    done = f"{found.closed} of {plural(total, 'sprint')} closed already"
    return f"{done}; what follows is about the other {left}, {width}" if left else f"{done}: nothing is left"


def _between(values: Range, text: Any) -> str:
    return f"{text(values.p50)}  (8 of 10 times between {text(values.p10)} and {text(values.p90)})"


def _show_basis(found: Forecast, console: Console) -> None:
    known = found.history.attempts
    console.print(f"  drawn from {plural(known, 'attempt')} of the past" if known else "  no history yet")
    if found.unknown:
        which = "every sprint" if len(found.unknown) == len(found.sprints) else ", ".join(found.unknown)
        assumed = f"{time_text(DEFAULT_MEDIAN)} an attempt, of which {DEFAULT_PASS:.0%} pass"
        console.print(f"  assumed for {which}: {assumed}", markup=False)

"""What analyze and forecast do: records in, figures out."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from beads_ralph import workspace
from beads_ralph.bead import personas
from beads_ralph.bead.field_types import utc_text
from beads_ralph.bead.model import MERGE, AgentSpec, Bead
from beads_ralph.cli import figures
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.compiling import plan_setting, read_plan
from beads_ralph.cli.style import current_style
from beads_ralph.compile import load
from beads_ralph.compile.build import build
from beads_ralph.errors import Code, Fault
from beads_ralph.files import text_files
from beads_ralph.journal import records
from beads_ralph.journal.records import Attempt
from beads_ralph.report import advice as advising
from beads_ralph.report import forecast as forecasting
from beads_ralph.report import page, tallied
from beads_ralph.report.forecast import History, Likeness
from beads_ralph.workspace import Workspace

# --- analyze ----------------------------------------------------------------------------------------


def analyze(config: Path | None, since: datetime | None, asked: str | None, html: Path | None) -> Answer:
    space = workspace.find(config_file=config)
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    told = current_style() != "text"
    unreadable: list[Fault] = []

    def note(path: Path, why: str) -> None:
        unreadable.append(Fault(Code.NOT_TEXT, why, str(path), suggested_action=MEND))

    also = (lambda attempt: rows.append(row_of(attempt))) if told else None
    with _no_collector():
        tally = tallied(records.read_all(space.state, note), since, also, stretches=html is not None)
    found = advising.advice(tally)
    if html is not None:
        text_files.write_text(
            html, page.html(page.AnalysisSubject(tally, found, now, asked, len(unreadable)))
        )
    data = {
        "generated_at": utc_text(now),
        "filter": {"since": asked},
        "statistics": tally.to_json() if told else {},
        "recommendations": [piece.to_json() for piece in found],
        "raw_data": rows,
        "unreadable": [{"file": fault.file, "problem": fault.message} for fault in unreadable],
        "html": str(html) if html else None,
    }
    shown = figures.Shown(tally, found, space.state, asked, html)
    return Answer(data, lambda console: figures.show(shown, console), tuple(unreadable))


@contextmanager
def _no_collector() -> Iterator[None]:
    """A hundred thousand records make no cycles, and the collector would look at them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


MEND = "See what is wrong with: beads-ralph state validate"


def row_of(attempt: Attempt) -> dict[str, Any]:
    """An attempt as `raw_data` has it: the run's fields, and what its result says besides."""
    return {
        "bead": attempt.bead,
        "attempt": attempt.attempt,
        "status": attempt.status,
        "agent": attempt.agent,
        "model": attempt.model,
        "template_name": attempt.template,
        "started_at": _text(attempt.started_at),
        "finished_at": _text(attempt.finished_at),
        "duration_seconds": attempt.seconds,
        "max_retries": attempt.max_retries,
        "exit_code": attempt.exit_code,
        "failure_reason": attempt.failure_reason,
        "output_summary": attempt.output_summary,
        "prompt": attempt.prompt,
        "will_retry": attempt.will_retry,
        "result_reason": attempt.reason,
        "latest": attempt.latest,
        "file": str(attempt.path),
        "extra": dict(attempt.extra),
    }


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


# --- forecast ---------------------------------------------------------------------------------------


def forecast(
    plan: Path, max_parallel: int | None, store: workspace.StoreChoice | None, config: Path | None
) -> Answer:
    space = workspace.find(config_file=config)
    read = read_plan(plan)
    setting = plan_setting(space, read, agent_check=False)
    built = build(read, setting)
    names = [sprint.id.text for sprint in read.sprints]
    load.require_valid(built, names)
    held = load.held(workspace.open_store(space, store).store, read, setting.plan_file)
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
    last = int(stored.metadata.to_json().get("attempts_forgiven") or 0) + most
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

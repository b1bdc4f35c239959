"""analyze: figures and recommendations from the records of past runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from beads_ralph.bead.words import utc_text
from beads_ralph.cli import figures, options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.style import current_style
from beads_ralph.config import workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.journal import records
from beads_ralph.journal.records import Attempt
from beads_ralph.report import advice as advising
from beads_ralph.report import page, tallied


def analyze(
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="DATE", help="Only what started or finished then or later.", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with plots there.", show_default=False),
    ] = None,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Learn from the records of past runs: rates, times, costs, failures, recommendations."""
    space = workspace.find(config_file=config)
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = []
    told = current_style() != "text"
    unreadable: list[Fault] = []

    def note(path: Path, why: str) -> None:
        unreadable.append(Fault(Code.NOT_TEXT, why, str(path), suggested_action=MEND))

    also = (lambda attempt: rows.append(row_of(attempt))) if told else None
    with _no_collector():
        tally = tallied(records.read_all(space.state, note), _moment(since), also, stretches=html is not None)
    found = advising.advice(tally)
    if html is not None:
        text_files.write_text(
            html, page.html(page.AnalysisSubject(tally, found, now, since, len(unreadable)))
        )
    data = {
        "generated_at": utc_text(now),
        "filter": {"since": since},
        "statistics": tally.to_json() if told else {},
        "recommendations": [piece.to_json() for piece in found],
        "raw_data": rows,
        "unreadable": [{"file": fault.file, "problem": fault.message} for fault in unreadable],
        "html": str(html) if html else None,
    }
    shown = figures.Shown(tally, found, space.state, since, html)
    return Answer(data, lambda console: figures.show(shown, console), tuple(unreadable))


def _moment(since: str | None) -> datetime | None:
    if since is None:
        return None
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        message = f"--since: {since!r} is no date"
        action = "Write it as 2026-02-11, or as 2026-02-11T10:00:00Z"
        raise RalphError(Code.USAGE, message, suggested_action=action) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


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

"""analyze, forecast: their options. What they do is imported only when it is done."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.errors import Code, RalphError


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
    from beads_ralph.cli import learning

    return learning.analyze(config, _moment(since), since, html)


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
    from beads_ralph.cli import learning

    return learning.forecast(plan, max_parallel, store, config)

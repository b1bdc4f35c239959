"""analyze: figures and recommendations from the records of past runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from beads_ralph.bead.words import plural, utc_text
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import escape
from beads_ralph.config import workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.journal import records
from beads_ralph.journal.records import Attempt
from beads_ralph.report import advice as advising
from beads_ralph.report import applied, page, tallied
from beads_ralph.report.figures import RunGroup, Spread, money_text, time_text
from beads_ralph.report.tally import Tally, ranked

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MEND = "See what is wrong with: beads-ralph state validate"
MOST_REASONS = 10


def analyze(
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DATE", help="Only what started or finished then or later."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots there.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="With --json: every attempt, too.")] = False,
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

    changes = applied.applied(space.state)
    add = applied.adding(changes)

    def also(attempt: Attempt) -> None:
        add(attempt)
        if told and raw:
            rows.append(_row(attempt))

    asked = also if changes or raw else None
    with _no_collector():
        tally = tallied(
            records.read_all(space.state, note), _moment(since), asked, stretches=html is not None
        )
    found = advising.advice(tally)
    data = {
        "generated_at": utc_text(now),
        "filter": {"since": since},
        "statistics": tally.to_json() if told else {},
        "recommendations": [piece.to_json() for piece in found],
        "outcomes": [change.to_json() for change in changes],
        "raw_data": rows,
        "unreadable": [{"file": fault.file, "problem": fault.message} for fault in unreadable],
        "html": str(html) if html else None,
    }
    subject = page.AnalysisSubject(tally, found, now, since, len(unreadable))
    if html is not None:
        text_files.write_text(html, page.html(subject))
    return Answer(
        data, lambda console: _show(console, subject, changes, space.state, html), tuple(unreadable)
    )


def _moment(since: str | None) -> datetime | None:
    if since is None:
        return None
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        message = f"--since: {since!r} is not a date"
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


def _row(attempt: Attempt) -> dict[str, Any]:
    """An attempt as `raw_data` has it: the run's fields, and what its result says besides."""
    return {
        "bead": attempt.bead,
        "attempt": attempt.attempt,
        "status": attempt.status,
        "agent": attempt.agent,
        "model": attempt.model,
        "template_name": attempt.template,
        "started_at": attempt.started_at and attempt.started_at.isoformat(),
        "finished_at": attempt.finished_at and attempt.finished_at.isoformat(),
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


# --- for people -----------------------------------------------------------------------------------


def _show(
    console: Console,
    found: page.AnalysisSubject,
    changes: Sequence[applied.AppliedAdvice],
    state: Path,
    html: Path | None,
) -> None:
    tally = found.tally
    if not tally.attempts:
        since = f" since {found.since}" if found.since else ""
        console.print(f"no records{since} in {state}", markup=False)
        console.print("  beads-ralph run writes one for every attempt", markup=False)
        return
    _show_summary(console, tally, found.since)
    named: dict[str, Mapping[Any, RunGroup]] = {
        "agent": tally.by("agent"),
        "model": tally.by("model"),
        "template": tally.by("template"),
        "task": tally.by("task_type"),
    }
    for name, groups in named.items():
        show_groups(console, name, groups)
    _show_reasons(console, tally)
    console.print("\n[bold]recommendations[/bold]")
    for piece in found.advice:
        console.print(f"  • {piece.text}{_rests(piece)}", markup=False)
        if piece.follow:
            console.print(f"      {piece.follow}", markup=False)
    if changes:
        console.print("\n[bold]advice that was applied[/bold]")
    for change in changes:
        console.print(f"  • {change.text}", markup=False)
    if html is not None:
        console.print(f"\nThe page: {html}", markup=False)


def _rests(piece: advising.Advice) -> str:
    return "" if piece.confidence is None else f" (confidence {piece.confidence:g} %)"


def _show_summary(console: Console, tally: Tally, since: str | None) -> None:
    runs, spending = tally.runs, tally.spending
    times = Spread.of(runs.attempt_seconds)
    then = f", since {since}" if since else ""
    console.print(f"[bold]{plural(runs.count, 'run')}[/bold], {plural(tally.attempts, 'attempt')}{then}")
    rows = {
        "success": f"{runs.success}  {runs.success_rate}",
        "failed": str(runs.failed),
        "timeout": str(runs.timeout),
        "running": f"{runs.running}, and {runs.waiting} to be tried again; in no rate",
        "retries": f"{runs.retried}  {runs.retry_rate}",
        "first pass": str(runs.first_pass),
        "duration": f"median {time_text(times.p50)}, half between {time_text(times.p25)} and "
        f"{time_text(times.p75)}, 95 % within {time_text(times.p95)}",
        "cost": _cost(spending.costs, spending.without_cost),
        "a bead": f"{money_text(runs.cost_per_closed)} for each closed one, failures included",
    }
    if tally.bad_timestamps:
        rows["bad times"] = plural(tally.bad_timestamps, "record")
    for name, said in rows.items():
        console.print(f"  {name:<10} {said}", markup=False)


def _cost(costs: Sequence[float], without: int) -> str:
    if not costs:
        return "unknown: no attempt says what it cost"
    silent = f"; {plural(without, 'attempt')} more without a price" if without else ""
    return f"{money_text(sum(costs))} for {plural(len(costs), 'attempt')}{silent}"


WIDEST: Final = 1000
HEADS: Final = ("beads", "attempts", "first pass", "tries a bead", "cost a bead", "median", "half between")


def show_groups(console: Console, name: str, groups: Mapping[Any, RunGroup]) -> None:
    """As many columns as there is room for: the names of the rows are never given up for figures."""
    rows = {escape(str(key)): _figures(groups[key]) for key in sorted(groups)}
    wide = console.options.update(max_width=WIDEST)
    for columns in range(len(HEADS), 2, -1):
        table = _table(f"by {name}", rows, columns)
        if console.measure(table, options=wide).maximum <= console.width:
            break
    console.print()
    console.print(table)


def _table(title: str, rows: Mapping[str, Sequence[str]], columns: int) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, min_width=12, no_wrap=True)
    for head in HEADS[:columns]:
        table.add_column(head, justify="right", no_wrap=True)
    for key, figures in rows.items():
        table.add_row(key, *figures[:columns])
    return table


def _figures(group: RunGroup) -> tuple[str, ...]:
    times, each = Spread.of(group.attempt_seconds), group.attempts_per_closed
    return (
        str(group.beads),
        str(group.attempts),
        group.first_pass.short,
        "-" if each is None else f"{each:.1f}",
        money_text(group.cost_per_closed),
        time_text(times.p50),
        f"{time_text(times.p25)} and {time_text(times.p75)}" if times.n else "-",
    )


def _show_reasons(console: Console, tally: Tally) -> None:
    rows = ranked(tally.setbacks)
    if rows:
        console.print("\n[bold]why attempts failed[/bold]")
    for row in rows[:MOST_REASONS]:
        last = tally.failures.get(row["reason"], 0)
        console.print(f"  {row['count']:>4}  {row['reason']}, {last} of them for good", markup=False)

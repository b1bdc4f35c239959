"""The analysis and the forecast as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beads_ralph.bead.words import plural
from beads_ralph.report.advice import Advice
from beads_ralph.report.groups import RunGroup
from beads_ralph.report.numbers import Spread, money_text, time_text
from beads_ralph.report.tally import Tally, ranked

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.report.forecast import Forecast, Range

MOST_REASONS = 10


@dataclass(frozen=True)
class Shown:
    """What `analyze` has to say."""

    tally: Tally
    advice: Sequence[Advice]
    state: Path
    since: str | None
    html: Path | None


def show(shown: Shown, console: Console) -> None:
    tally = shown.tally
    if not tally.attempts:
        _show_nothing(shown, console)
        return
    _show_summary(shown, console)
    named: dict[str, Mapping[Any, RunGroup]] = {
        "agent": tally.by_agent,
        "model": tally.by_model,
        "template": tally.by_template,
        "task": tally.by_task_type,
    }
    for name, groups in named.items():
        _show_groups(name, groups, console)
    _show_reasons(tally, console)
    _show_advice(shown.advice, console)
    if shown.html is not None:
        console.print(f"\nThe page: {shown.html}", markup=False)


def _show_nothing(shown: Shown, console: Console) -> None:
    since = f" since {shown.since}" if shown.since else ""
    console.print(f"no records{since} in {shown.state}", markup=False)
    console.print("  beads-ralph run writes one for every attempt", markup=False)


def _show_summary(shown: Shown, console: Console) -> None:
    tally, runs = shown.tally, shown.tally.runs
    times, spending = Spread.of(runs.seconds), tally.spending
    since = f", since {shown.since}" if shown.since else ""
    console.print(f"[bold]{plural(runs.count, 'run')}[/bold], {plural(tally.attempts, 'attempt')}{since}")
    rows = {
        "success": f"{runs.success}  {runs.success_rate}",
        "failed": str(runs.failed),
        "timeout": str(runs.timeout),
        "running": f"{runs.running}, and {runs.waiting} to be tried again; in no rate",
        "retries": f"{runs.retried}  {runs.retry_rate}",
        "duration": f"mean {time_text(times.mean)}, p50 {time_text(times.p50)}, p95 {time_text(times.p95)}",
        "cost": _cost(spending.costs, spending.without_cost),
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


def _show_groups(name: str, groups: Mapping[Any, RunGroup], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(f"by {name}", min_width=12)
    for head in ("runs", "success", "retried", "mean", "p50", "p95", "cost"):
        table.add_column(head, justify="right", no_wrap=True)
    for key in sorted(groups):
        group = groups[key]
        times = Spread.of(group.seconds)
        table.add_row(
            escape(str(key)),
            str(group.finished),
            str(group.success_rate),
            str(group.retried),
            *(time_text(value) for value in (times.mean, times.p50, times.p95)),
            money_text(Spread.of(group.costs).mean),
        )
    console.print()
    console.print(table)


def _show_reasons(tally: Tally, console: Console) -> None:
    rows = ranked(tally.setbacks)
    if rows:
        console.print("\n[bold]why attempts failed[/bold]")
    for row in rows[:MOST_REASONS]:
        last = tally.failures.get(row["reason"], 0)
        console.print(f"  {row['count']:>4}  {row['reason']}, {last} of them for good", markup=False)


def _show_advice(found: Sequence[Advice], console: Console) -> None:
    console.print("\n[bold]recommendations[/bold]")
    for piece in found:
        console.print(f"  • {piece.text}", markup=False)


# --- forecast ---------------------------------------------------------------------------------------


def show_forecast(plan: Path, found: Forecast, console: Console) -> None:
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
    from beads_ralph.report.forecast import DEFAULT_MEDIAN, DEFAULT_PASS

    known = found.history.attempts
    console.print(f"  drawn from {plural(known, 'attempt')} of the past" if known else "  no history yet")
    if found.unknown:
        which = "every sprint" if len(found.unknown) == len(found.sprints) else ", ".join(found.unknown)
        assumed = f"{time_text(DEFAULT_MEDIAN)} an attempt, of which {DEFAULT_PASS:.0%} pass"
        console.print(f"  assumed for {which}: {assumed}", markup=False)

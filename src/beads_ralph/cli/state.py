"""state validate, state fix: run and result records as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.config import workspace
from beads_ralph.errors import RalphError, gathered

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.journal.records.model import Kind
    from beads_ralph.journal.records.repair import RepairReport


Runs = Annotated[bool, typer.Option("--runs", help="Run records.")]
Results = Annotated[bool, typer.Option("--results", help="Result records.")]
All = Annotated[bool, typer.Option("--all", help="Both, as without any of the three.")]
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE…", help="Only these; without, every record.", show_default=False, readable=False
    ),
]


def validate(
    paths: Files = None,
    runs: Runs = False,
    results: Results = False,
    all_: All = False,
    json_: options.Json = False,
) -> Answer:
    """Check records against their schemas, and results against their runs; every fault with its field."""
    from beads_ralph.journal.records import repair

    return _answer([repair.check(path, kind) for path, kind in _asked(paths, runs, results, both=all_)])


def fix(
    paths: Files = None,
    runs: Runs = False,
    results: Results = False,
    all_: All = False,
    json_: options.Json = False,
) -> Answer:
    """Bring older records up to date, keeping each as it was beside it (.bak), then validate."""
    from beads_ralph.journal.records import repair

    return _answer([repair.fix(path, kind) for path, kind in _asked(paths, runs, results, both=all_)])


def _asked(paths: Sequence[Path] | None, runs: bool, results: bool, *, both: bool) -> list[tuple[Path, Kind]]:
    from beads_ralph.journal.records import repair

    both = both or runs == results
    kinds: list[Kind] = ["run", "result"] if both else ["run"] if runs else ["result"]
    if not paths:
        return list(repair.find(workspace.find().state, kinds))
    only: Callable[[Path], Kind] = repair.kind_of if both else lambda _: kinds[0]
    return [(path, only(path)) for path in paths]


def _answer(reports: Sequence[RepairReport]) -> Answer:
    faults = [fault for report in reports for fault in report.faults]
    warnings = [warning for report in reports for warning in report.warnings]
    bad = [report for report in reports if report.faults]
    data: dict[str, Any] = {
        "files": [report.to_json() for report in reports],
        "valid": len(reports) - len(bad),
        "invalid": len(bad),
        "mended": sum(bool(report.mended) for report in reports),
    }
    lines = [*(line for report in reports for line in _lines(report)), _summary(reports, bad)]
    if not faults:
        return Answer(data, lambda console: _show(console, lines), warnings)
    first = gathered(faults, plural(len(bad), "file"), warnings)
    error = RalphError(
        first.code,
        first.message,
        suggested_action=first.suggested_action,
        faults=faults,
        warnings=warnings,
        data=data,
    )
    told = [*lines, *(f"warning: {warning}" for warning in warnings)]
    return Answer(data, None, warnings, error, error_text=lambda: "\n".join(told))


def _lines(report: RepairReport) -> list[str]:
    """Those that are in order need no line of their own: there may be a hundred thousand."""
    lines = [f"✗ {report.path}: {fault.message}" for fault in report.faults]
    if report.mended:
        lines.append(f"✓ {report.path}: {', '.join(report.mended)} (as it was: {report.backup})")
    return lines


def _summary(reports: Sequence[RepairReport], bad: Sequence[RepairReport]) -> str:
    if not reports:
        return "no records"
    count = plural(len(reports), "record")
    return f"✗ {count}, {len(bad)} not valid" if bad else f"✓ {count}, all valid"


def _show(console: Console, lines: Sequence[str]) -> None:
    from rich.markup import escape

    for line in lines:
        console.print(escape(line))

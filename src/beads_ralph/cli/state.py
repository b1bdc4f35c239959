"""state validate, state fix: run and result records as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from beads_ralph.bead.model import Bead
from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import lines
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.journal import runs
from beads_ralph.journal.records import repair
from beads_ralph.journal.records.agreement import disagreements
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.model import Kind
from beads_ralph.journal.records.repair import RepairReport
from beads_ralph.store import registry
from beads_ralph.store.query import Query


@dataclass(frozen=True, kw_only=True)
class RecordsRequest:
    """Which records: one field an option."""

    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="Only these; without, every record.", readable=False),
    ] = None
    runs: Annotated[bool, typer.Option("--runs", help="Run records.")] = False
    results: Annotated[bool, typer.Option("--results", help="Result records.")] = False
    all_: Annotated[bool, typer.Option("--all", help="Both, as without any of the three.")] = False
    json_: options.Json = False

    def records(self) -> Iterable[tuple[Path, Kind]]:
        both = self.all_ or self.runs == self.results
        kinds: list[Kind] = ["run", "result"] if both else ["run"] if self.runs else ["result"]
        if not self.paths:
            return repair.find(workspace.find().state, kinds)
        return [(path, repair.kind_of(path) if both else kinds[0]) for path in self.paths]


@options.taken_from(RecordsRequest)
def validate(request: RecordsRequest) -> Answer:
    """Check records against their schemas, their runs and the store; every fault with its field."""
    reports = [*repair.check_all(request.records())]
    return _answer(reports if request.paths else [*_against_store(reports)])


@options.taken_from(RecordsRequest)
def fix(request: RecordsRequest) -> Answer:
    """Bring older records up to date, keeping each as it was beside it (.bak), then validate."""
    return _answer([repair.fix(path, kind) for path, kind in list(request.records())])


def _against_store(reports: Sequence[RepairReport]) -> Iterator[RepairReport]:
    """The reports, those of a bead's last run with what contradicts the store. While a run is on, its records
    follow the store; where there is no store, there is nothing to compare with."""
    space = workspace.find()
    last = {report.path for report in reports if report.kind == "run" and not report.faults}
    beads = _stored(space) if last and not runs.is_running(space.home) else ()
    folder = StateFolder(space.state)
    wrong = {folder.run_file(bead.id): [*disagreements(folder, bead)] for bead in beads}
    for report in reports:
        said = wrong.get(report.path, ()) if report.path in last else ()
        yield replace(report, faults=report.faults + tuple(_contradiction(report.path, one) for one in said))


def _stored(space: Workspace) -> Sequence[Bead]:
    try:
        return registry.open_store(space).store.find(Query(wisps=True)).beads
    except RalphError:
        return ()


def _contradiction(path: Path, text: str) -> Fault:
    action = "Run: beads-ralph run, which tells what a killed run could not tell any more"
    return Fault(Code.CONFLICT, text, file=str(path), suggested_action=action)


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
    told = [*(line for report in reports for line in _lines(report)), _summary(reports, bad)]
    if not faults:
        return Answer(data, lines(*told), warnings)
    first = gathered(faults, plural(len(bad), "file"), warnings)
    error = RalphError(
        first.code,
        first.message,
        suggested_action=first.suggested_action,
        faults=faults,
        warnings=warnings,
        data=data,
    )
    told += [f"warning: {warning}" for warning in warnings]
    return Answer(data, None, warnings, error, error_text=lambda: "\n".join(told))


def _lines(report: RepairReport) -> list[str]:
    """Those that are in order need no line of their own: there may be a hundred thousand."""
    bad = [f"✗ {report.path}: {fault.message}" for fault in report.faults]
    mended = f"✓ {report.path}: {', '.join(report.mended)} (as it was: {report.backup})"
    return [*bad, mended] if report.mended else bad


def _summary(reports: Sequence[RepairReport], bad: Sequence[RepairReport]) -> str:
    if not reports:
        return "no records"
    count = plural(len(reports), "record")
    return f"✗ {count}, {len(bad)} not valid" if bad else f"✓ {count}, all valid"

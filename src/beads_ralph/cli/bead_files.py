"""validate, migrate, schema: bead files against the schema, older ones into it, and the schema itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead import legacy, personas, schema
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import slug
from beads_ralph.bead.schema import SchemaCheck, SchemaName
from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import lines, pretty
from beads_ralph.config import published, workspace
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files import text_files

if TYPE_CHECKING:
    from rich.console import Console

STDIN = "-"
CONFIG = "Config"
USAGE_TEXT = "Usage: validate-bead-schema.py <bead.json>"


def validate(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="FILE|-…", help="Bead files; - reads stdin.")
    ] = None,
    schema_name: Annotated[SchemaName, typer.Option("--schema", help="auto detects it.")] = "auto",
    no_agent_check: options.NoAgentCheck = False,
    json_: options.Json = False,
) -> Answer:
    """Check bead files against the schema; every fault with its field path."""
    if not paths and sys.stdin.isatty():
        return _usage()
    root = None if no_agent_check else workspace.place().root
    reports = [_report(path, schema_name, root) for path in paths or [STDIN]]
    return _validation_answer(reports)


def _usage() -> Answer:
    """The seed's words: on stdout, and an exit of 1 although nothing failed."""
    if current_style() != "text":
        raise RalphError(Code.USAGE, USAGE_TEXT)
    return Answer(text=lines(USAGE_TEXT), exit_code=1)


@dataclass(frozen=True, eq=False)
class Report:
    """One validated file."""

    path: str
    checked: SchemaCheck

    def to_json(self) -> dict[str, Any]:
        bead = self.checked.bead
        return {
            "file": self.path,
            "valid": not self.checked.faults,
            "id": bead.id if bead else None,
            "warnings": [warning.to_json() for warning in self.checked.warnings],
        }

    def text(self) -> str:
        bead, faults = self.checked.bead, self.checked.faults
        if faults:
            head = "Validation errors:" if self.path == STDIN else "✗ Validation errors:"
            return "\n".join([head, *(f" - {fault.message}" for fault in faults)])
        if self.path == STDIN or bead is None:
            return "✓ Valid bead"
        place = bead.metadata
        return f"✓ Bead schema is valid\n  ID: {bead.id}\n  Sprint: {place.sprint}\n  Phase: {place.phase}"


def _report(path: str, name: SchemaName, root: Path | None) -> Report:
    """Validate one file; a file that cannot be read or parsed is a fault of that file."""
    shown = "<stdin>" if path == STDIN else path
    try:
        checked = schema.check(schema.load_json(_text(path), shown), name, shown)
    except RalphError as error:
        faults = error.faults or (Fault(error.code, error.message, file=shown),)
        return Report(path, SchemaCheck(None, tuple(faults)))
    if root is not None and isinstance(checked.bead, Bead):
        absent = tuple(personas.check_agents(checked.bead, root, shown))
        checked = SchemaCheck(checked.bead, checked.faults + absent, checked.warnings)
    return Report(path, checked)


def _validation_answer(reports: Sequence[Report]) -> Answer:
    faults = [fault for report in reports for fault in report.checked.faults]
    warnings = [warning for report in reports for warning in report.checked.warnings]
    data = {"files": [report.to_json() for report in reports]}
    if not faults:
        return Answer(data, lines(*_texts(reports)), warnings)
    error = gathered(faults, f"{len(reports)} files" if len(reports) > 1 else reports[0].path, warnings)
    texts = dict(zip(reports, _texts(reports), strict=True))
    sound = [text for report, text in texts.items() if not report.checked.faults]
    told = [text for report, text in texts.items() if report.checked.faults]
    told += [f"warning: {warning}" for warning in warnings]
    shown = lines(*sound) if sound else None
    return Answer(data, shown, warnings, error, error_text=lambda: "\n".join(told))


def _texts(reports: Sequence[Report]) -> list[str]:
    """One file: the seed's text alone. Several: each below its name."""
    if len(reports) == 1:
        return [reports[0].text()]
    return [f"{report.path}:\n{report.text()}" for report in reports]


# --- migrate --------------------------------------------------------------------------------------


def migrate(
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE|-…", help="Bead files; - reads stdin and prints.")
    ],
    stdout: Annotated[bool, typer.Option("--stdout", help="Print instead of rewriting the files.")] = False,
    json_: options.Json = False,
) -> Answer:
    """Convert beads older than schema 4.1a to 4.1a, in place; those that are 4.1a stay as they are."""
    root = workspace.place().root
    moved = _all_migrated(paths, root)
    for path, old, new in moved:
        if path != STDIN and not stdout and old != new:
            text_files.write_text(Path(path), pretty(new) + "\n")
    data = {
        "beads": [new for _, _, new in moved],
        "files": [{"file": path, "migrated": old != new} for path, old, new in moved],
    }

    def show(console: Console) -> None:
        for path, old, new in moved:
            if stdout or path == STDIN:
                out(pretty(new))
            else:
                console.print(f"✓ {path}: " + ("migrated to 4.1a" if old != new else "is 4.1a already"))

    return Answer(data, show)


def _all_migrated(paths: Sequence[str], root: Path) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """All of them, or every fault of every file: nothing is written past one."""
    moved: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
    faults: list[Fault] = []
    for path in paths:
        try:
            moved.append(_migrated(path, root))
        except RalphError as error:
            whole = Fault(error.code, error.message, path, suggested_action=error.suggested_action)
            faults += error.faults or [whole]
    if faults:
        raise gathered(faults, plural(len({fault.file for fault in faults}), "file"))
    return moved


def _migrated(path: str, root: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Old and new; the new one must be a valid bead before anything is written."""
    raw = schema.load_json(_text(path), path)
    if not isinstance(raw, dict):
        raise gathered([Fault(Code.BEAD_SCHEMA, "a bead must be a JSON object", file=path)], path)
    title = raw.get("title")
    new = legacy.migrate(raw, root, slug(title if isinstance(title, str) else ""))
    checked = schema.check(new, "4.1a", path)
    if checked.faults:
        raise gathered(checked.faults, path)
    return path, raw, new


# --- schema ---------------------------------------------------------------------------------------


def print_schema(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join((*schema.MODELS, CONFIG))}.")] = "Bead",
    json_: options.Json = False,
) -> Answer:
    """Print the JSON Schema of a bead, of one of its parts, or of the settings."""
    found = published.json_schema() if name == CONFIG else schema.json_schema(name, (CONFIG,))
    return Answer({"name": name, "schema": found}, lines(json.dumps(found, indent=2)))


# --- the files ------------------------------------------------------------------------------------


def _text(path: str) -> str:
    """The text of a bead file; `-` is stdin."""
    text = text_files.read_stdin() if path == STDIN else text_files.read_text(Path(path))
    return text.removeprefix("\ufeff")

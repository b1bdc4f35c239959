"""migrate: beads from before schema 4.1a into 4.1a."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead import legacy, schema
from beads_ralph.bead.names import slug
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.bead_files import STDIN, read_bead, repository_root
from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.files import text_files

if TYPE_CHECKING:
    from rich.console import Console


def migrate(
    paths: Annotated[
        list[str], typer.Argument(metavar="FILE|-…", help="Bead files; - reads stdin and prints.")
    ],
    stdout: Annotated[bool, typer.Option("--stdout", help="Print instead of rewriting the files.")] = False,
    json_: options.Json = False,
) -> Answer:
    """Turn beads from before schema 4.1a into 4.1a, in place; those that are 4.1a stay as they are."""
    root = repository_root()
    moved = [_migrated(path, root) for path in paths]
    for path, old, new in moved:
        if path != STDIN and not stdout and old != new:
            text_files.write_text(Path(path), _pretty(new) + "\n")
    data = {
        "beads": [new for _, _, new in moved],
        "files": [{"file": path, "migrated": old != new} for path, old, new in moved],
    }
    return Answer(data, lambda console: _show_migration(console, moved, stdout=stdout))


def _migrated(path: str, root: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Old and new; the new one must be a valid bead before anything is written."""
    raw = schema.load_json(read_bead(path), path)
    if not isinstance(raw, dict):
        raise gathered([Fault(Code.BEAD_SCHEMA, "a bead must be a JSON object", file=path)], path)
    title = raw.get("title")
    new = legacy.migrate(raw, root, slug(title if isinstance(title, str) else ""))
    checked = schema.check(new, "4.1a", path)
    if checked.faults:
        raise gathered(checked.faults, path)
    return path, raw, new


def _show_migration(
    console: Console, moved: Sequence[tuple[str, dict[str, Any], dict[str, Any]]], *, stdout: bool
) -> None:
    for path, old, new in moved:
        if stdout or path == STDIN:
            out(_pretty(new))
        else:
            console.print(f"✓ {path}: " + ("migrated to 4.1a" if old != new else "is 4.1a already"))


def _pretty(bead: dict[str, Any]) -> str:
    return json.dumps(bead, indent=2, ensure_ascii=False)

"""export: beads of the store as Ralph beads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.config import workspace
from beads_ralph.dod import imports
from beads_ralph.dod.files import key_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.store import registry


def export_beads(
    ids: options.BeadIds,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Write <bead>.json files there instead.")
    ] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Print beads of the store as Ralph beads, with how far they are."""
    opened = registry.open_store(workspace.find(), store)
    beads = {bead_id: imports.ralph_of(opened.store.show(bead_id)) for bead_id in ids}
    bare = [bead_id for bead_id, raw in beads.items() if raw is None]
    if bare:
        message = f"{', '.join(bare)}: no verifiers, so it is no Ralph bead"
        raise RalphError(Code.CONSTRAINT, message, suggested_action="Give the bead verifiers (**Verify**)")
    written: list[str] = []
    if directory is not None:
        text_files.make_folder(directory)
        for bead_id, raw in beads.items():
            path = directory / f"{key_of(bead_id)}.json"
            text_files.write_text(path, _pretty(raw) + "\n")
            written.append(str(path))
    data: dict[str, Any] = {"beads": list(beads.values()), "files": written, "store": opened.store.kind}
    return Answer(data, lambda _: _show_exported(list(beads.values()), written), opened.warnings)


def _show_exported(beads: Sequence[Any], written: Sequence[str]) -> None:
    if written:
        out("\n".join(f"+ {path}" for path in written))
    else:
        out("\n".join(map(_pretty, beads)))


def _pretty(raw: Any) -> str:
    return json.dumps(raw, indent=2, ensure_ascii=False)

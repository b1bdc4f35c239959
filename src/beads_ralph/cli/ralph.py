"""exec, import, export: Ralph beads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph import workspace
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.errors import Code, RalphError

if TYPE_CHECKING:
    from beads_ralph.bead.model import Bead
    from beads_ralph.dod.files import BeadFile
    from beads_ralph.store.protocol import Store

AUTHOR = "beads-ralph import"
BeadFiles = Annotated[
    list[Path], typer.Argument(metavar="FILE…", help="Ralph beads.", show_default=False, readable=False)
]


def exec_beads(
    paths: BeadFiles,
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="The program that does the work.", show_default=False),
    ] = None,
    backoff: Annotated[
        float | None,
        typer.Option("--backoff", min=0, help="Seconds before the second attempt.", show_default=False),
    ] = None,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Run the verifiers, and nothing else.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate, and run nothing.")] = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Work on Ralph beads in this folder until their verifiers hold: no git and no store are needed."""
    from beads_ralph.cli import executing

    wishes = executing.Wishes(paths, agent, backoff, verify_only, dry_run, config)
    return executing.run(wishes)


def import_beads(paths: BeadFiles, store: options.Store = None, json_: options.Json = False) -> Answer:
    """Put Ralph beads into the store, all or none; their verifiers become their Definition of Done."""
    from beads_ralph.cli.compiling import setting_of
    from beads_ralph.dod import files, imports

    found = files.read_all(paths)
    space = workspace.find()
    opened = workspace.open_store(space, store)
    branch = space.config.plan.source_branch or _current_branch(space)
    beads = [imports.bead_of(one, setting_of(space, one.path), branch) for one in found]
    opened.store.create(beads)
    for one in found:
        if imports.TO_STORE[one.bead.status] == "closed":
            _close(opened.store, one)
    ids = [bead.id for bead in beads]
    data = {"bead_ids": ids, "store": opened.store.kind}
    return Answer(data, lambda _: _show_imported(beads, opened.why), opened.warnings)


def _current_branch(space: workspace.Workspace) -> str:
    return (space.repository.current_branch() if space.repository else None) or "main"


def _close(store: Store, one: BeadFile) -> None:
    """Its file says completed: it was proven where it was executed, and the history says so."""
    store.claim(one.key, AUTHOR)
    store.comment(one.key, AUTHOR, f"Imported as completed from {one.path}; its verifiers did not run here.")
    store.close(one.key, AUTHOR, "completed before it was imported")


def _show_imported(beads: Sequence[Bead], why: str) -> None:
    for bead in beads:
        out(f"+ {bead.id}  {bead.title}")
    out(f"✓ {len(beads)} imported; {why}")


def export_beads(
    ids: Annotated[list[str], typer.Argument(metavar="BEAD…", help="Bead ids, in full.", show_default=False)],
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Write <bead>.json files there instead.", show_default=False),
    ] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Print beads of the store as Ralph beads, with how far they are."""
    from beads_ralph.dod import imports
    from beads_ralph.dod.files import key_of
    from beads_ralph.files import text_files

    opened = workspace.open_store(workspace.find(), store)
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

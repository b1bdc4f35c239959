"""exec, import, export: Ralph beads as files, worked on in this folder, or into the store and out of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer, out, speaker
from beads_ralph.cli.style import current_style
from beads_ralph.cli.text import escape, lines, pretty
from beads_ralph.compile.build import setting_of
from beads_ralph.config import workspace
from beads_ralph.dod import files, imports
from beads_ralph.dod.files import BeadFile, key_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.store import registry
from beads_ralph.store.protocol import Store

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.dod.file_session import Done

AUTHOR = "beads-ralph import"


def exec_beads(
    paths: options.BeadFiles,
    agent: Annotated[str | None, typer.Option("--agent", help="The program that does the work.")] = None,
    backoff: Annotated[
        float | None, typer.Option("--backoff", min=0, help="Seconds before the second attempt.")
    ] = None,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Run the verifiers, and nothing else.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate, and run nothing.")] = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Work on Ralph beads in this folder until their verifiers hold: no git and no store are needed."""
    beads = files.read_all(paths)
    if current_style() == "text":
        out("\n".join("Bead is valid" if len(beads) == 1 else f"{one.path}: Bead is valid" for one in beads))
        sys.stdout.flush()
    if dry_run:
        return _planned(beads)
    from beads_ralph import app

    request = app.ExecRequest(agent, backoff, verify_only, config)
    done = app.execute_files(beads, request, speaker(current_style()))
    return Answer(
        {"beads": [one.to_json() for one in done], "dry_run": False},
        lambda console: _show(console, done),
        exit_code=OK if all(one.passed for one in done) else FAILED,
    )


def _planned(beads: Sequence[BeadFile]) -> Answer:
    rows = [
        {
            "file": str(one.path),
            "id": one.key,
            "title": one.bead.name,
            "status": one.bead.status,
            "verifiers": [verifier.to_json() for verifier in one.bead.verifiers()],
        }
        for one in beads
    ]

    def show(console: Console) -> None:
        for one in beads:
            console.print(f"{one.key}  {escape(one.bead.name)}")
            for verifier in one.bead.verifiers():
                console.print(f"  {escape(verifier.name)}: {escape(verifier.command)}")
        console.print("nothing was run")

    return Answer({"beads": rows, "dry_run": True}, show)


def _show(console: Console, done: Sequence[Done]) -> None:
    for one in done:
        mark = "[green]✓[/green]" if one.passed else "[red]✗[/red]"
        attempts = plural(one.attempts, "attempt")
        word = f", {one.standing}" if one.standing else ""
        console.print(f"{mark} {one.key}  {one.status} after {attempts}{word}: {escape(one.reason)}")
        if one.evidence:
            console.print(f"  evidence: {escape(', '.join(one.evidence))}")


# --- import ---------------------------------------------------------------------------------------


def import_beads(
    paths: options.BeadFiles, store: options.Store = None, json_: options.Json = False
) -> Answer:
    """Put Ralph beads into the store, all or none; their verifiers become their Definition of Done."""
    found = files.read_all(paths)
    space = workspace.find()
    opened = registry.open_store(space, store)
    here = space.repository.current_branch() if space.repository else None
    branch = space.config.plan.source_branch or here or "main"
    ids = [imports.store_id(one.key, opened.store.kind) for one in found]
    pairs = list(zip(found, ids, strict=True))
    beads = [imports.bead_of(one, setting_of(space, one.path), branch, name) for one, name in pairs]
    opened.store.create(beads)
    for one, name in pairs:
        if imports.TO_STORE[one.bead.status] == "closed":
            _close(opened.store, one, name)
    renamed = {name: one.key for one, name in pairs if name != one.key}
    data: dict[str, Any] = {"bead_ids": ids, "store": opened.store.kind}
    data |= {"renamed": renamed} if renamed else {}
    rows = [f"+ {bead.id}  {bead.title}{_was(renamed.get(bead.id))}" for bead in beads]
    return Answer(data, lines(*rows, f"✓ {len(beads)} imported; {opened.why}"), opened.warnings)


def _was(key: str | None) -> str:
    return f"  ({key} in its file; bd takes no id without a dash)" if key else ""


def _close(store: Store, one: BeadFile, name: str) -> None:
    """Its file says completed: it was proven where it was executed, and the history says so."""
    store.claim(name, AUTHOR)
    store.comment(name, AUTHOR, f"Imported as completed from {one.path}; its verifiers did not run here.")
    store.close(name, AUTHOR, "completed before it was imported")


# --- export ---------------------------------------------------------------------------------------


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
        message = f"{', '.join(bare)}: no verifiers, so it is not a Ralph bead"
        raise RalphError(Code.CONSTRAINT, message, suggested_action="Give the bead verifiers (**Verify**)")
    written: list[str] = []
    if directory is not None:
        text_files.make_folder(directory)
        for bead_id, raw in beads.items():
            path = directory / f"{key_of(bead_id)}.json"
            text_files.write_text(path, pretty(raw) + "\n")
            written.append(str(path))
    data: dict[str, Any] = {"beads": list(beads.values()), "files": written, "store": opened.store.kind}
    shown = [f"+ {path}" for path in written] or map(pretty, beads.values())
    return Answer(data, lines(*shown), opened.warnings)

"""import: Ralph beads into the store."""

from __future__ import annotations

from collections.abc import Sequence

from beads_ralph.bead.model import Bead
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.compile.setting import setting_of
from beads_ralph.config import workspace
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import files, imports
from beads_ralph.dod.files import BeadFile
from beads_ralph.store import registry
from beads_ralph.store.protocol import Store

AUTHOR = "beads-ralph import"


def import_beads(
    paths: options.BeadFiles, store: options.Store = None, json_: options.Json = False
) -> Answer:
    """Put Ralph beads into the store, all or none; their verifiers become their Definition of Done."""
    found = files.read_all(paths)
    space = workspace.find()
    opened = registry.open_store(space, store)
    branch = space.config.plan.source_branch or _current_branch(space)
    beads = [imports.bead_of(one, setting_of(space, one.path), branch) for one in found]
    opened.store.create(beads)
    for one in found:
        if imports.TO_STORE[one.bead.status] == "closed":
            _close(opened.store, one)
    ids = [bead.id for bead in beads]
    data = {"bead_ids": ids, "store": opened.store.kind}
    return Answer(data, lambda _: _show_imported(beads, opened.why), opened.warnings)


def _current_branch(space: Workspace) -> str:
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

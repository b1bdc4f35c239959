"""report: a run on one page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import Option
from beads_ralph.cli.page import line
from beads_ralph.cli.runs import account_json, account_page
from beads_ralph.config import workspace
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.errors import RalphError
from beads_ralph.files import text_files
from beads_ralph.journal import accounts
from beads_ralph.journal.accounts import run_named

if TYPE_CHECKING:
    from beads_ralph.bead.model import Bead
    from beads_ralph.config.workspace import Workspace
    from beads_ralph.journal.runs import RunFolder


def report(
    name: options.RunName = None,
    html: Annotated[
        Path | None,
        Option("--html", metavar="FILE", help="Write it as one web page that needs nothing else."),
    ] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Say what a run did, also one that was killed; with --html as a page to keep or to send."""
    space = workspace.find()
    folder = run_named(space.home, name or accounts.LATEST)
    found = accounts.account_of(folder)
    data = account_json(found)
    if html is None:
        return Answer(data | {"html": None}, page=lambda: account_page(found))
    write(folder, html, stored_beads(space, store))
    return Answer(data | {"html": str(html)}, page=lambda: [line(f"written: {html}")])


def write(folder: RunFolder, path: Path, beads: Iterable[Bead]) -> None:
    from beads_ralph.report import run_page
    from beads_ralph.report.run_subject import subject_of

    text_files.write_text(path, run_page.html(subject_of(folder, beads, path)))


def stored_beads(space: Workspace, store: StoreChoice | None = None) -> list[Bead]:
    """Those that the store has; without a store the page tells what the journal knows."""
    from beads_ralph.store import registry
    from beads_ralph.store.query import Query

    try:
        return list(registry.open_store(space, store).store.find(Query(wisps=True)).beads)
    except RalphError:
        return []

"""From a run's folder to its page: the journal first, and what the store knows of its beads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from beads_ralph.agents.bead_outputs import outputs
from beads_ralph.bead.model import Bead
from beads_ralph.bead.redaction import redacted
from beads_ralph.journal import accounts, journal
from beads_ralph.journal.accounts import RunAccount
from beads_ralph.journal.runs import RunFolder
from beads_ralph.plan.draw import Drawing, Node
from beads_ralph.report.run_page import PageSubject, ShownBead

NAME: Final = "report.html"
"""Of a run's page, in its folder."""
MOST_DRAWN: Final = 400


def subject_of(folder: RunFolder, beads: Iterable[Bead], page: Path) -> PageSubject:
    """The page of a run that will lie at `page`. `beads` are those of the store, as many as can be read."""
    told = list(journal.read(folder.journal))
    account = accounts.account(folder.run_id, told, running=accounts.is_running(folder))
    shown = shown_beads(account, {bead.id: bead for bead in beads})
    linked = [replace(bead, outputs=_links(folder, bead.id, page)) for bead in shown]
    return PageSubject(
        title=f"Run {folder.run_id}",
        drawing=drawn(linked),
        beads=linked,
        events=told,
        account=account,
        pulls_folder=_from(page, folder.home / "pulls"),
    )


def shown_beads(account: RunAccount, stored: Mapping[str, Bead]) -> list[ShownBead]:
    """The beads of the run, in the order of their start, then those that the same plans still have to do."""
    plans = {stored[name].metadata.plan_file for name in account.beads if name in stored}
    rest = [bead for bead in stored.values() if bead.metadata.plan_file in plans]
    others = [bead.id for bead in rest if bead.id not in account.beads]
    return [_shown(name, account, stored.get(name)) for name in (*account.beads, *sorted(others))]


def _shown(name: str, account: RunAccount, bead: Bead | None) -> ShownBead:
    """What the run made of it counts, whatever has become of the bead since."""
    known = ShownBead.of(bead) if bead is not None else ShownBead(name)
    did = account.beads.get(name)
    if did is None:
        return known
    status = {"closed": "closed", "blocked": "blocked", "at work": "in_progress"}.get(did.result, "open")
    return replace(
        known,
        title=did.title or known.title,
        sprint=did.sprint or known.sprint,
        branch=did.branch or known.branch,
        status=status,
        standing=known.standing if status == "closed" else "",
        reason=str(redacted(did.reason)) if did.result != "closed" else "",
    )


def drawn(beads: Sequence[ShownBead]) -> Drawing:
    """What waits for what among them."""
    some = beads[:MOST_DRAWN]
    known = {bead.id for bead in some}
    edges = {bead.id: [other for other in bead.waits if other in known and other != bead.id] for bead in some}
    return Drawing.of([Node(bead.id, bead.id, bead.title or bead.id, 0) for bead in some], edges)


def _links(folder: RunFolder, bead: str, page: Path) -> list[tuple[str, str]]:
    found = [one for one in outputs(folder, bead) if one.out.stat().st_size]
    return [(f"{one.name} {one.program}".strip(), _from(page, one.out)) for one in found]


def _from(page: Path, target: Path) -> str:
    """The target's address, seen from the page."""
    return Path(os.path.relpath(target, page.absolute().parent)).as_posix()

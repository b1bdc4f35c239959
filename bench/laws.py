"""The laws of the loop, looked at from outside: what holds at every moment, whoever was killed when."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from beads_ralph.bead.model import Bead
from beads_ralph.journal.events import (
    AttemptInterrupted,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadParked,
    BeadReleased,
    Event,
    VerdictGiven,
)
from beads_ralph.journal.records.agreement import disagreements
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import Query
from bench import rehearsals
from bench.rehearsals import Rehearsal

RECOUNT = """SELECT id, blockers, (SELECT count(*) FROM dependencies JOIN beads AS other ON other.id = needs
    WHERE bead = beads.id AND other.status <> 'closed') AS counted FROM beads WHERE blockers <> counted"""

ENDS = (BeadClosed, BeadReleased, BeadParked, BeadBlocked)


class Watch:
    """Remembers what it saw, and says what of it is no longer so."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.tips: set[str] = set()
        self.closed: dict[str, tuple[str | None, str]] = {}
        self.cut_off: set[tuple[str, str]] = set()

    def beads(self) -> tuple[Bead, ...]:
        if not (self.rehearsal.home / "beads.db").exists():
            return ()
        return EmbeddedStore(self.rehearsal.root).find(Query()).beads

    def look(self) -> list[str]:
        """Every law that can be seen while nobody runs."""
        beads = self.beads()
        told = self.rehearsal.told()
        refs = self._refs()
        pulls = self._pulls()
        return [
            *self._proofs(beads, refs, pulls),
            *self._one_pull_each(beads, pulls),
            *self._closed_once(beads, told),
            *self._nothing_lost(refs),
            *self._claims(beads, told),
            *self._database(),
        ]

    def _refs(self) -> dict[str, str]:
        listing = self.rehearsal.git("for-each-ref", "--format=%(refname) %(objectname)")
        rows = (line.split(" ", 1) for line in listing.splitlines())
        return dict(rows)

    def _pulls(self) -> list[dict[str, Any]]:
        folder = self.rehearsal.home / "pulls"
        paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
        return [json.loads(path.read_text("utf-8")) for path in paths]

    def _proofs(
        self, beads: tuple[Bead, ...], refs: dict[str, str], pulls: list[dict[str, Any]]
    ) -> Iterator[str]:
        """A closed bead's proven commit is the tip of its branch, its record and its pull request."""
        by_bead = {bead: pull for pull in pulls for bead in pull["beads"]}
        for bead in beads:
            if bead.status != "closed":
                continue
            proven = (bead.metadata.to_json().get("proven") or {}).get("commit")
            pull = by_bead.get(bead.id, {})
            held = {
                "its branch": refs.get(f"refs/heads/{bead.metadata.branch}"),
                "its pull request's record": pull.get("commit"),
                "its pull request's ref": refs.get(f"refs/pull/{pull.get('number')}/head"),
            }
            for name, commit in held.items():
                if not proven or commit != proven:
                    yield f"{bead.id} is closed with {proven}, but {name} has {commit}"

    def _one_pull_each(self, beads: tuple[Bead, ...], pulls: list[dict[str, Any]]) -> Iterator[str]:
        counts = Counter(bead for pull in pulls for bead in pull["beads"])
        yield from (f"{bead} has {count} pull requests" for bead, count in counts.items() if count > 1)
        branches = Counter(pull["branch"] for pull in pulls)
        yield from (f"{name} has {count} pull requests" for name, count in branches.items() if count > 1)
        unproposed = [bead.id for bead in beads if bead.status == "closed" and not counts[bead.id]]
        yield from (f"{bead} is closed without a pull request" for bead in unproposed)

    def _closed_once(self, beads: tuple[Bead, ...], told: list[Event]) -> Iterator[str]:
        counts = Counter(event.bead for event in told if isinstance(event, BeadClosed))
        yield from (f"{bead} was closed {count} times" for bead, count in counts.items() if count > 1)
        now = {bead.id: (bead.closed_at, bead.status) for bead in beads}
        for bead_id, before in self.closed.items():
            if now.get(bead_id) != before:
                yield f"{bead_id} was closed at {before[0]}, and is {now.get(bead_id)} now"
        self.closed |= {bead.id: now[bead.id] for bead in beads if bead.status == "closed"}

    def _nothing_lost(self, refs: dict[str, str]) -> Iterator[str]:
        """Every tip that any branch ever had is still in the history of some branch."""
        reachable = set(self.rehearsal.git("rev-list", "--all").split())
        yield from (f"commit {tip} is in no branch any more" for tip in sorted(self.tips - reachable))
        self.tips |= set(refs.values())

    def _claims(self, beads: tuple[Bead, ...], told: list[Event]) -> Iterator[str]:
        """One run holds beads at a time, and inside a run a bead is claimed once until it is given back."""
        holders = {bead.id: str((bead.model_extra or {}).get("claimed_by") or "") for bead in beads}
        working = [bead.id for bead in beads if bead.status == "in_progress"]
        yield from (f"{bead} is in progress, and nobody holds it" for bead in working if not holders[bead])
        if len({holder for holder in holders.values() if holder}) > 1:
            yield f"several runs hold beads at once: {holders}"
        self.cut_off |= {(bead, holders[bead]) for bead in working}
        held: dict[str, str] = {}
        for event in told:
            if isinstance(event, BeadClaimed) and event.bead:
                if held.get(event.bead) == event.run_id:
                    yield f"{event.bead} was claimed twice in run {event.run_id}"
                held[event.bead] = event.run_id
            elif isinstance(event, ENDS) and event.bead:
                held.pop(event.bead, None)

    def _database(self) -> Iterator[str]:
        path = self.rehearsal.home / "beads.db"
        if not path.exists():
            return
        with closing(sqlite3.connect(path)) as database:
            (state,) = database.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                yield f"the database is damaged: {state}"
            if database.execute("PRAGMA foreign_key_check").fetchall():
                yield "a dependency of the database leads nowhere"
            for bead, blockers, counted in database.execute(RECOUNT):
                yield f"{bead} has {blockers} blockers in the database, but {counted} when counted"

    def strays(self, alive: str) -> list[str]:
        """No process of an earlier run is left, once a new one has begun."""
        dead = {path.parent.name for path in self.rehearsal.journals()} - {alive}
        found = rehearsals.marked(lambda env: env.get("BEADS_RALPH_RUN_ID") in dead)
        return [f"process {pid} of a dead run goes on: {words}" for pid, words in found]

    def last_look(self) -> Iterator[str]:
        """All closed, nothing left over, and main takes it all in."""
        rehearsal = self.rehearsal
        beads = {bead.metadata.plan_sprint_id: bead for bead in self.beads()}
        yield from (f"{bead.id} is {bead.status}" for bead in beads.values() if bead.status != "closed")
        yield from self._interruptions()
        yield from self._records(self.rehearsal.told())
        yield from (f"a checkout is left: {path}" for path in rehearsal.checkouts())
        fsck = subprocess.run(
            ["git", "fsck", "--full"], cwd=rehearsal.root, capture_output=True, text=True, check=False
        )
        if fsck.returncode != 0:
            yield f"git fsck: {fsck.stderr.strip()}"
        last = beads.get(rehearsal.parts[-1].id)
        if last is not None and last.status == "closed":
            rehearsal.git("merge", "--quiet", "--ff-only", last.metadata.branch)
            yield from self._main_tree()

    def _interruptions(self) -> Iterator[str]:
        """Every attempt that a kill cut off is on record, in the bead's history or in the journal."""
        told = {
            (event.bead, event.holder)
            for event in self.rehearsal.told()
            if isinstance(event, AttemptInterrupted)
        }
        store = EmbeddedStore(self.rehearsal.root)
        for bead_id, holder in sorted(self.cut_off - told):
            if not any(holder in str(said) for said in store.show(bead_id).comments):
                yield f"nothing says that the work of {holder} on {bead_id} was interrupted"

    def _records(self, told: list[Event]) -> Iterator[str]:
        """Journal and records say what the store says, and nothing half written is left."""
        state = self.rehearsal.root / "state"
        counts = Counter(event.bead for event in told if isinstance(event, BeadClosed))
        verdicts = {(event.bead, event.attempt) for event in told if isinstance(event, VerdictGiven)}
        for bead in self.beads():
            yield from (f"{bead.id}: {text}" for text in disagreements(StateFolder(state), bead))
            if not counts[bead.id]:
                yield f"nothing tells that {bead.id} was closed"
            judged = range(1, bead.metadata.attempt_count + 1)
            yield from (
                f"no verdict on attempt {at} at {bead.id}" for at in judged if (bead.id, at) not in verdicts
            )
        left = [*self.rehearsal.root.rglob(".*.tmp"), *(state / "runs" / ".live").glob("*")]
        yield from (f"{path} is left" for path in left)

    def _main_tree(self) -> Iterator[str]:
        root = self.rehearsal.root
        for part in self.rehearsal.parts:
            if not part.joins and _text(root / part.file) != part.text:
                yield f"main has {part.file} as {_text(root / part.file)!r}"
        joined = any(part.joins for part in self.rehearsal.parts)
        if joined and _text(root / "shared.txt") != "one\na\nb\n":
            yield f"main has shared.txt as {_text(root / 'shared.txt')!r}"


def _text(path: Path) -> str | None:
    return path.read_text("utf-8") if path.is_file() else None

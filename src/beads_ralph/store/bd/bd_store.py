"""The bd store: beads in the database of the real bd, reached through its command line only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONVOY
from beads_ralph.bead.words import utc_text
from beads_ralph.files import text_files
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.store import rules
from beads_ralph.store.bd import items, setup, shape, write
from beads_ralph.store.bd.cli import OURSELVES, Bd, sorted_ours
from beads_ralph.store.bd.held_rows import HeldRows
from beads_ralph.store.bd.setup import Preflight, initialise
from beads_ralph.store.bd.shape import Row
from beads_ralph.store.bd.write import Listed
from beads_ralph.store.protocol import (
    NOTHING,
    Changes,
    Claim,
    Findings,
    Items,
    Listing,
    Poured,
    Progress,
    Stored,
    silent,
)
from beads_ralph.store.query import Query, StoreInfo

__all__ = ["BdStore", "initialise"]

SNAPSHOTS_KEPT: Final = 10
EXPORT_LIMIT: Final = 4  # time limits of one call that an export may take


class BdStore:
    """Safe among threads and processes: writers queue up, and bd itself decides who wins a claim."""

    kind = "bd"

    def __init__(
        self, root: Path, *, bd: str | None = None, timeout: float = 30.0, checkout: Path | None = None
    ) -> None:
        self._root = root.absolute()
        self._checkout = checkout
        self._program = bd
        self._timeout = timeout
        self._opened: tuple[Bd, Preflight] | None = None
        self._snapshot_taken = False
        self._listed = Listed()
        self._held = HeldRows(self._root / ".beads")
        self.items: Items = items.BdItems(self._root, lambda: self._bd, self._writing)

    # --- preflight ----------------------------------------------------------------------------------

    def check(self) -> StoreInfo:
        _, found = self._open()
        return StoreInfo(self.kind, found.location, found.version, found.warnings)

    def _open(self) -> tuple[Bd, Preflight]:
        bd = Bd(setup.program(self._program), self._root, self._timeout)
        self._opened = (bd, setup.preflight(bd))
        return self._opened

    @property
    def _bd(self) -> Bd:
        """bd, after one look that it works on this repository's database and not on another one."""
        return (self._opened or self._open())[0]

    @contextmanager
    def _writing(self, *, adds_only: bool = False) -> Iterator[Bd]:
        """Our turn to write; before the first time a snapshot is taken and our words are registered. Who only
        adds needs no snapshot: nothing is lost by that."""
        bd = self._bd
        with setup.writer_turn(bd), self._held.turn():
            if not adds_only:
                self._first_snapshot(bd)
            self._register(bd)
            yield bd

    def _register(self, bd: Bd, batch: Sequence[Stored] = ()) -> None:
        _, found = self._opened or self._open()
        ids, types = [thing.id for thing in batch], {thing.issue_type for thing in batch}
        settings = setup.register(bd, found.settings, ids, types)
        self._opened = (bd, replace(found, settings=settings))

    # --- reading ------------------------------------------------------------------------------------

    def show(self, bead_id: str) -> Bead:
        bd = self._bd
        return self._with_comments(bd, bd.one(bead_id))

    def _with_comments(self, bd: Bd, row: Row) -> Bead:
        return rules.sound(shape.seed(row, bd.comments(row)), self._root)

    def find(self, query: Query) -> Listing:
        bd = self._bd
        if query.for_run:
            query = Query(wisps=query.wisps)  # to ask for all costs what asking for one does
        if query.ids:
            rows, beside = sorted_ours(bd.by_ids(query.ids).values()), frozenset[str]()
        else:
            rows, beside = bd.ours_and_beside()
        all_kinds = query.wisps or bool(query.ids)
        raws = (shape.seed(row) for row in rows if all_kinds or not shape.is_wisp(row))
        found = rules.listing([raw for raw in raws if _answers(raw, query)], self._root)
        convoys, people = CONVOY in beside, bool(beside - {CONVOY})
        return replace(found, convoys=convoys, people=people, whole=query == Query(wisps=True))

    def closed(self) -> frozenset[str]:
        return frozenset(row["id"] for row in self._bd.ours() if row["status"] == "closed")

    def ready(
        self, limit: int | None = None, *, wisps: bool = False, plan_file: str | None = None
    ) -> Listing:
        rows = self._list(self._bd, wisps=wisps)
        strays = [row["id"] for row in rows if shape.is_stray(row)]
        if strays:
            with self._writing() as bd:
                write.return_to_pool(bd, strays)
        asked = Query(plan_file=plan_file)
        raws = [raw for raw in map(shape.seed, rows) if _answers(raw, asked)]
        shown = raws if limit is None else raws[: max(limit, 0)]
        return replace(rules.listing(shown, self._root), people=True)  # bd was not asked

    def _list(self, bd: Bd, *, wisps: bool) -> list[Row]:
        """bd's ready beads, remembered for the claims that follow."""
        version = setup.graph_version(bd)
        found = bd.unblocked(wisps=wisps)
        rows = [row for row in found if not shape.assigned_elsewhere(row)]
        self._listed = Listed({row["id"]: row for row in rows}, version, wisps)
        return rows

    # --- creating and changing ----------------------------------------------------------------------

    def create(self, batch: Sequence[Stored], progress: Progress = silent) -> list[str]:
        if not batch:
            return []
        with self._writing() as bd:
            items.check_new(bd, batch, self._root)
            self._register(bd, batch)
            items.insert(bd, batch, progress)
            for bead in (thing for thing in batch if not isinstance(thing, Item)):
                for said in bead.comments:
                    _comment(bd, bead.id, *_spoken(said))
        return [thing.id for thing in batch]

    def update(self, bead_id: str, changes: Changes) -> Bead:
        with self._writing() as bd:
            row = self._row(bd, bead_id)
            write.check_changes(bd, row, changes, self._root)
            try:
                row = write.edit(bd, row, changes)
            finally:
                if changes.status is not None or changes.dependencies is not None:
                    setup.graph_changed(bd)
                    self._held.forget(bead_id)
            self._held.renew(row)
            return rules.sound(shape.seed(row), self._root)

    def _row(self, bd: Bd, bead_id: str) -> Row:
        """As bd has it now: what we hold is known, unless somebody has written since."""
        return self._held.rows.get(bead_id) or bd.one(bead_id)

    def comment(self, bead_id: str, author: str, text: str) -> None:
        with self._writing() as bd:
            bd.one(bead_id)
            _comment(bd, bead_id, author, text)

    # --- claims -------------------------------------------------------------------------------------

    def claim(self, bead_id: str, actor: str) -> Claim:
        rules.check_actor(actor)
        with self._writing() as bd:
            listed = self._ready_row(bd, bead_id)
            known = listed or bd.one(bead_id)
            rules.sound(shape.seed(known), self._root)  # what cannot be read cannot be worked on
            if listed is None and (why := write.refusal(bd, known, actor)):
                return write.refused(known, why)
            taken = write.take(bd, known, actor, self._root)
            if isinstance(taken, Claim):
                return taken
            self._held.keep(taken)
            bead = self._with_comments(bd, taken)
            return Claim(bead, held_by=actor, lease_expires_at=taken.get("lease_expires_at"))

    def _ready_row(self, bd: Bd, bead_id: str) -> Row | None:
        """The bead as bd lists it among the ready ones; a listing that is not true any more is made anew."""
        if bead_id in self._listed.rows and not self._listed.holds(setup.graph_version(bd)):
            self._list(bd, wisps=self._listed.wisps)
        return self._listed.rows.get(bead_id)

    def heartbeat(self, bead_id: str, actor: str) -> bool:
        rules.check_actor(actor)
        with self._writing() as bd:
            row = self._held.rows.get(bead_id) or bd.by_ids([bead_id]).get(bead_id)
            if row is None or not shape.is_ours(row) or shape.holder(row) != actor:
                return False
            return write.beat(bd, row, actor)

    def release(
        self, bead_id: str, actor: str, *, status: str = "open", reason: str = "", found: Findings = NOTHING
    ) -> None:
        rules.check_release(status)
        with self._writing() as bd:
            row = self._row(bd, bead_id)
            self._held.forget(bead_id)
            self._check_end(bd, row, actor, found)
            if reason:  # before the release: after a crash in between the bead still has its worker
                _comment(bd, bead_id, actor, reason)
            write.hand_over(bd, row, actor, status, found)

    def reclaim(self, older_than: timedelta) -> list[str]:
        with self._writing() as bd:
            rows = bd.ours()
            leased = [row["id"] for row in rows if shape.holder(row) and row.get("lease_expires_at")]
            reopened = write.reclaim(bd, leased, older_than)
            self._held.rows.clear()
            strays = [row["id"] for row in rows if shape.is_stray(row)]
            write.return_to_pool(bd, [*reopened, *strays])
        return reopened

    def close(self, bead_id: str, actor: str, reason: str, found: Findings = NOTHING) -> Bead:
        with self._writing() as bd:
            row = self._row(bd, bead_id)
            self._held.forget(bead_id)
            if row["status"] != "closed":
                self._check_end(bd, row, actor, found)
                write.check_far_blockers(bd, row)
                why = {shape.CLOSE_REASON: reason.strip() or "closed"}
                kept = replace(found, metadata={**found.metadata, **why})
                row = write.hand_over(bd, row, actor, "closed", kept)
            return rules.sound(shape.seed(row), self._root)

    def _check_end(self, bd: Bd, row: Row, actor: str, found: Findings) -> None:
        write.check_held(row, actor)
        write.check_changes(bd, row, found.changes, self._root)

    # --- formulas -----------------------------------------------------------------------------------

    def pour(self, formula: str, values: Mapping[str, str], *, wisp: bool, assignee: str | None) -> Poured:
        """By bd, which finds the formulas of the checkout as well as those of the root."""
        with self._writing(adds_only=True) as bd:
            here = replace(bd, place=self._checkout)
            return items.pour(here, formula, values, wisp=wisp, assignee=assignee)

    # --- snapshots ----------------------------------------------------------------------------------

    def snapshot(self, target: Path) -> int:
        text = _exported(self._bd)
        text_files.write_text(target, text)
        return text.count("\n")

    def _first_snapshot(self, bd: Bd) -> None:
        """What the database held before we wrote to it; nothing is kept of an empty one."""
        if self._snapshot_taken:
            return
        text = _exported(bd)
        if text:
            directory = ralph_dir(self._root) / "snapshots"
            text_files.make_folder(directory)
            text_files.write_text(directory / f"bd-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.jsonl", text)
            for old in sorted(directory.glob("bd-*.jsonl"))[:-SNAPSHOTS_KEPT]:
                old.unlink(missing_ok=True)
        self._snapshot_taken = True


# --- rules ------------------------------------------------------------------------------------------


def _answers(raw: dict[str, Any], query: Query) -> bool:
    metadata = raw["metadata"] if isinstance(raw["metadata"], dict) else {}
    return (
        (not query.statuses or raw["status"] in query.statuses)
        and (not query.parents or raw.get("parent") in query.parents)
        and set(query.labels) <= set(raw["labels"])
        and query.plan_file in (None, metadata.get("plan_file"))
    )


# --- steps; each assumes that the id was looked up exactly and that it is our turn to write ---------


def _comment(bd: Bd, bead_id: str, author: str, text: str) -> None:
    since = utc_text(datetime.now(UTC))

    def written() -> bool:
        said = bd.read("comments", bead_id) or []
        return any(row["text"] == text and str(row["created_at"]) >= since for row in said)

    words = ("comments", "add", bead_id, f"--author={author}", "--file=/dev/stdin")
    bd.change(words, written, actor=author or OURSELVES, stdin=text)


def _spoken(comment: Any) -> tuple[str, str]:
    """The author and the text of a comment in a bead that comes from elsewhere."""
    if not isinstance(comment, dict):
        return OURSELVES, str(comment)
    return str(comment.get("author") or OURSELVES), str(comment.get("text") or shape.dumped(comment))


def _exported(bd: Bd) -> str:
    """Every issue of the database, the user's too, as JSON lines that `bd import` takes back."""
    done = bd.run(("export",), timeout=EXPORT_LIMIT * bd.timeout, reading=True)
    if not done.ok:
        raise bd.failure(("export",), done)
    return "".join(f"{line}\n" for line in done.stdout.split("\n") if line.strip())

"""The bd store: beads in the database of the real bd, reached through its command line only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from beads_ralph import files
from beads_ralph.errors import Code, RalphError
from beads_ralph.models import ASSIGNEE, Bead
from beads_ralph.protocols import AnyBead, Changes, Claim, Listing, Progress, Query, StoreInfo, silent
from beads_ralph.store import bd_edit, bd_insert, bd_rows, bd_setup, bd_shape, laws
from beads_ralph.store.bd_cli import OURSELVES, Bd, error_text
from beads_ralph.store.bd_setup import Found, initialise
from beads_ralph.store.bd_shape import Row
from beads_ralph.store.ralph_dir import ralph_dir
from beads_ralph.values import utc_text

__all__ = ["BdStore", "initialise"]

SNAPSHOTS_KEPT: Final = 10
EXPORT_LIMIT: Final = 4  # time limits of one call that an export may take
LONGEST_AGE: Final = timedelta(days=36500)  # bd counts in nanoseconds, and they end after 292 years
LOST_RACE: Final = ("already claimed", "not claimable")  # what bd says to a claim that came too late


class BdStore:
    """Safe among threads and processes: writers queue up, and bd itself decides who wins a claim."""

    kind = "bd"

    def __init__(self, root: Path, *, bd: str | None = None, timeout: float = 30.0) -> None:
        self._root = root.absolute()
        self._program = bd
        self._timeout = timeout
        self._opened: tuple[Bd, Found] | None = None
        self._snapshot_taken = False

    # --- preflight ----------------------------------------------------------------------------------

    def check(self) -> StoreInfo:
        _, found = self._open()
        return StoreInfo(self.kind, found.location, found.version, found.warnings)

    def _open(self) -> tuple[Bd, Found]:
        bd = Bd(bd_setup.program(self._program), self._root, self._timeout)
        self._opened = (bd, bd_setup.preflight(bd))
        return self._opened

    @property
    def _bd(self) -> Bd:
        """bd, after one look that it works on this repository's database and not on another one."""
        return (self._opened or self._open())[0]

    @contextmanager
    def _writing(self) -> Iterator[Bd]:
        """Our turn to write; before the first time a snapshot is taken and our words are registered."""
        bd = self._bd
        with bd_setup.writer_turn(bd):
            self._first_snapshot(bd)
            self._register(bd)
            yield bd

    def _register(self, bd: Bd, ids: Collection[str] = ()) -> None:
        _, found = self._opened or self._open()
        settings = bd_setup.register(bd, found.settings, ids)
        self._opened = (bd, replace(found, settings=settings))

    # --- reading ------------------------------------------------------------------------------------

    def show(self, bead_id: str) -> Bead:
        return self._bead(self._bd, bead_id)

    def _bead(self, bd: Bd, bead_id: str) -> Bead:
        return self._read(bd, bd_rows.one(bd, bead_id))

    def _read(self, bd: Bd, row: Row) -> Bead:
        return laws.sound(bd_shape.seed(row, bd_rows.comments(bd, row)), self._root)

    def find(self, query: Query) -> Listing:
        bd = self._bd
        rows = bd_rows.named(bd, query.ids) if query.ids else bd_rows.ours(bd)
        raws = (bd_shape.seed(row) for row in rows)
        return laws.listing([raw for raw in raws if _answers(raw, query)], self._root)

    def ready(self, limit: int | None = None) -> Listing:
        rows = [row for row in bd_rows.unblocked(self._bd) if not bd_shape.assigned_elsewhere(row)]
        strays = [row["id"] for row in rows if bd_shape.is_stray(row)]
        if strays:
            with self._writing() as bd:
                _return_to_pool(bd, strays)
        shown = rows if limit is None else rows[: max(limit, 0)]
        return laws.listing(map(bd_shape.seed, shown), self._root)

    # --- creating and changing ----------------------------------------------------------------------

    def create(self, beads: Sequence[AnyBead], progress: Progress = silent) -> list[str]:
        if not beads:
            return []
        with self._writing() as bd:
            bd_insert.check(bd, beads, self._root)
            self._register(bd, [bead.id for bead in beads])
            bd_insert.insert(bd, beads, progress)
            for bead in beads:
                for said in bead.comments:
                    _comment(bd, bead.id, *_spoken(said))
        return [bead.id for bead in beads]

    def update(self, bead_id: str, changes: Changes) -> Bead:
        with self._writing() as bd:
            row = bd_rows.one(bd, bead_id)
            bd_edit.check(bd, row, changes, self._root)
            bd_edit.edit(bd, row, changes)
            return self._bead(bd, bead_id)

    def comment(self, bead_id: str, author: str, text: str) -> None:
        with self._writing() as bd:
            bd_rows.one(bd, bead_id)
            _comment(bd, bead_id, author, text)

    # --- claims -------------------------------------------------------------------------------------

    def claim(self, bead_id: str, actor: str) -> Claim:
        laws.check_actor(actor)
        with self._writing() as bd:
            row = bd_rows.one(bd, bead_id)
            laws.sound(bd_shape.seed(row), self._root)  # what cannot be read cannot be worked on
            refusal = _refusal(bd, row, actor)
            if refusal:
                return Claim(None, refusal, bd_shape.holder(row), row.get("lease_expires_at"))
            said = "" if bd_shape.holder(row) == actor else _claim(bd, bead_id, actor)
            row = bd_rows.one(bd, bead_id)
            held, lease = bd_shape.holder(row), row.get("lease_expires_at")
            if held != actor:  # to bd `a-b` and `a_b` are the same worker; to us they are two
                return Claim(None, said or f"already claimed by {held}", held, lease)
            return Claim(self._read(bd, row), held_by=held, lease_expires_at=lease)

    def heartbeat(self, bead_id: str, actor: str) -> bool:
        laws.check_actor(actor)
        with self._writing() as bd:
            row = bd_rows.by_ids(bd, [bead_id]).get(bead_id)
            if row is None or not bd_shape.is_ours(row) or bd_shape.holder(row) != actor:
                return False
            before = row.get("lease_expires_at")
            words = ("heartbeat", bead_id)
            done = bd.change(
                words, lambda: bd_rows.one(bd, bead_id).get("lease_expires_at") != before, actor=actor
            )
            if done.ok or any(phrase in error_text(done) for phrase in LOST_RACE):
                return done.ok
            raise bd.failure(words, done)

    def release(self, bead_id: str, actor: str, *, status: str = "open", reason: str = "") -> None:
        laws.check_release(status)
        with self._writing() as bd:
            _check_held(bd_rows.one(bd, bead_id), actor)
            if reason:  # before the release: after a crash in between the bead still has its worker
                _comment(bd, bead_id, actor, reason)
            _release(bd, bead_id, actor, status)

    def reclaim(self, older_than: timedelta) -> list[str]:
        with self._writing() as bd:
            rows = bd_rows.ours(bd)
            leased = [row["id"] for row in rows if bd_shape.holder(row) and row.get("lease_expires_at")]
            reopened = _reclaim(bd, leased, older_than)
            _return_to_pool(bd, [*reopened, *(row["id"] for row in rows if bd_shape.is_stray(row))])
        return reopened

    def close(self, bead_id: str, actor: str, reason: str) -> Bead:
        with self._writing() as bd:
            row = bd_rows.one(bd, bead_id)
            if row["status"] != "closed":
                _check_held(row, actor)
                _close(bd, bead_id, actor, reason)
            return self._bead(bd, bead_id)

    # --- snapshots ----------------------------------------------------------------------------------

    def snapshot(self, target: Path) -> int:
        text = _exported(self._bd)
        files.write_text(target, text)
        return text.count("\n")

    def _first_snapshot(self, bd: Bd) -> None:
        """What the database held before we wrote to it; nothing is kept of an empty one."""
        if self._snapshot_taken:
            return
        text = _exported(bd)
        if text:
            directory = ralph_dir(self._root) / "snapshots"
            directory.mkdir(exist_ok=True)
            files.write_text(directory / f"bd-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.jsonl", text)
            for old in sorted(directory.glob("bd-*.jsonl"))[:-SNAPSHOTS_KEPT]:
                old.unlink(missing_ok=True)
        self._snapshot_taken = True


# --- rules ------------------------------------------------------------------------------------------


def _answers(raw: dict[str, Any], query: Query) -> bool:
    metadata = raw["metadata"] if isinstance(raw["metadata"], dict) else {}
    return (
        (not query.statuses or raw["status"] in query.statuses)
        and set(query.labels) <= set(raw["labels"])
        and query.plan_file in (None, metadata.get("plan_file"))
    )


def _check_held(row: Row, actor: str) -> None:
    held = bd_shape.holder(row)
    if held is None or held != actor:
        raise laws.not_held(row["id"], row["status"], held, actor)


def _refusal(bd: Bd, row: Row, actor: str) -> str:
    """Why the actor cannot have the bead; empty where it can, or has it already."""
    held = bd_shape.holder(row)
    if held is not None:
        return "" if held == actor else f"already claimed by {held}"
    if row["status"] != "open":
        return f"status {row['status']}"
    elsewhere = bd_shape.assigned_elsewhere(row)
    return f"assigned to {elsewhere}" if elsewhere else _obstacle(bd, row)


def _obstacle(bd: Bd, row: Row) -> str:
    """What the bead waits for: bd's `update --claim` does not ask."""
    waiting = bd_rows.not_closed(bd, bd_shape.blockers(row))
    if waiting:
        return f"blocked by {', '.join(waiting)}"
    if bd_shape.waits_otherwise(row) and all(other["id"] != row["id"] for other in bd_rows.unblocked(bd)):
        return "bd does not list it as ready"
    return ""


# --- steps; each assumes that the id was looked up exactly and that it is our turn to write ---------


def _claim(bd: Bd, bead_id: str, actor: str) -> str:
    """Ask for it; what bd said where somebody else was quicker."""
    words = ("update", bead_id, "--claim")
    done = bd.change(words, lambda: bd_shape.holder(bd_rows.one(bd, bead_id)) == actor, actor=actor)
    said = "" if done.ok else error_text(done)
    if said and not any(phrase in said for phrase in LOST_RACE):
        raise bd.failure(words, done)
    return said


def _release(bd: Bd, bead_id: str, actor: str, status: str) -> None:
    guards = ("--if-status=in_progress", f"--if-assignee={actor}")
    bd.must_change(
        ("update", bead_id, f"--status={status}", f"--assignee={ASSIGNEE}", *guards),
        lambda: bd_rows.one(bd, bead_id)["status"] == status,
        actor=actor,
    )


def _close(bd: Bd, bead_id: str, actor: str, reason: str) -> None:
    """Close it as its holder; then it belongs to the pool again, as every bead that nobody works on."""
    words = ("close", bead_id, "--reason-file", "-")
    done = bd.change(
        words,
        lambda: bool(bd_rows.one(bd, bead_id)["status"] == "closed"),
        actor=actor,
        stdin=reason.strip() or "closed",
    )
    if not done.ok and "cannot close" in error_text(done):
        raise RalphError(Code.CONFLICT, f"bd refuses: {error_text(done)}", details=bd.account(words, done))
    if not done.ok:
        raise bd.failure(words, done)
    bd.must_change(
        ("update", bead_id, f"--assignee={ASSIGNEE}"),
        lambda: bool(bd_rows.one(bd, bead_id)["assignee"] == ASSIGNEE),
        actor=actor,
    )


def _reclaim(bd: Bd, ids: Sequence[str], older_than: timedelta) -> list[str]:
    """bd reopens those whose lease ran out that long ago; which, the database tells."""
    if not ids:
        return []

    def reopened() -> list[str]:
        rows = bd_rows.by_ids(bd, ids)
        return [name for name in ids if name in rows and rows[name]["status"] == "open"]

    age = min(max(older_than, timedelta(0)), LONGEST_AGE).total_seconds()
    bd.must_change(
        ("reclaim", f"--older-than={age:.3f}s", *(f"--id={name}" for name in ids)), lambda: bool(reopened())
    )
    return reopened()


def _return_to_pool(bd: Bd, ids: Sequence[str]) -> None:
    """bd leaves reclaimed beads without an assignee, and then nobody would find them ready."""
    if not ids:
        return

    def all_back() -> bool:
        return not any(map(bd_shape.is_stray, bd_rows.by_ids(bd, ids).values()))

    words = ("update", *ids, f"--assignee={ASSIGNEE}", "--if-assignee=")
    done = bd.change(words, all_back)
    if not done.ok and not all_back():  # one that somebody took in the meantime is no failure
        raise bd.failure(words, done)


def _comment(bd: Bd, bead_id: str, author: str, text: str) -> None:
    since = utc_text(datetime.now(UTC))

    def written() -> bool:
        said = bd.read("comments", bead_id) or []
        return any(row["text"] == text and str(row["created_at"]) >= since for row in said)

    words = ("comments", "add", bead_id, f"--author={author}", "--file=/dev/stdin")
    bd.must_change(words, written, actor=author or OURSELVES, stdin=text)


def _spoken(comment: Any) -> tuple[str, str]:
    """The author and the text of a comment in a bead that comes from elsewhere."""
    if not isinstance(comment, dict):
        return OURSELVES, str(comment)
    return str(comment.get("author") or OURSELVES), str(comment.get("text") or bd_shape.dumped(comment))


def _exported(bd: Bd) -> str:
    """Every issue of the database, the user's too, as JSON lines that `bd import` takes back."""
    done = bd.run(("export",), timeout=EXPORT_LIMIT * bd.timeout, reading=True)
    if not done.ok:
        raise bd.failure(("export",), done)
    return "".join(f"{line}\n" for line in done.stdout.split("\n") if line.strip())

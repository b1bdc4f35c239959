"""Issues by the batch, all or none: new beads and items, what a formula pours, and the items of the store.

Items are bd's issues of every other type than ours, wisps among them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead import graph
from beads_ralph.bead.items import Item
from beads_ralph.bead.names import CONTAINERS, MOLECULE
from beads_ralph.bead.words import plural
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.process.jobs import Exit
from beads_ralph.store import rules
from beads_ralph.store.bd import setup, shape
from beads_ralph.store.bd.cli import ANY, OURSELVES, WISPS, Bd, error_text
from beads_ralph.store.bd.shape import Row
from beads_ralph.store.protocol import Listing, Poured, Progress, Settled, Stored
from beads_ralph.store.query import ItemQuery, nothing_there
from beads_ralph.store.rules import Container, settled

BATCH: Final = ("batch",)  # one transaction, and alone among bd's writing commands it never guesses an id
ALL_CLOSED: Final = "everything in it is closed"
EACH: Final = 0.6  # seconds that one issue or line of a batch may take
SECONDS_PER_BEAD: Final = 0.1  # as it mostly does
COMMAND: Final = ("create", "--graph", "/dev/stdin")
REFUSALS: Final = (
    ("already exists", Code.DUPLICATE_ID),
    ("duplicate explicit id", Code.DUPLICATE_ID),
    ("create a cycle", Code.CYCLE_DETECTED),
    ("self-dependency", Code.SELF_DEP),
    ("not found", Code.UNRESOLVED),
)
POUR_LIMIT: Final = 4  # time limits of one call that a pour may take: it may make a hundred steps
NOT_FOUND: Final = ("not found as formula", "proto not found", "is not a proto", "loading proto")
"""bd's words for a formula with a fault, as well as for one that is not there."""


# --- new beads and items --------------------------------------------------------------------------


def insert(bd: Bd, batch: Sequence[Stored], progress: Progress) -> None:
    """Insert what was checked. The caller holds the writer queue."""
    plan = shape.graph(batch)
    ids = [thing.id for thing in batch]
    progress(f"inserting {plural(len(ids), 'bead')} with bd, about {1 + SECONDS_PER_BEAD * len(ids):.0f} s")
    limit = bd.timeout + EACH * len(ids)

    def all_there() -> bool:
        there = bd.by_ids(ids)
        missing = [name for name in ids if name not in there]
        if missing and there:  # bd promises all or none; should it not keep its word, say what is where
            raise _partial("bd was stopped in the midst of an insert", list(there), missing)
        return not missing

    done = bd.change(COMMAND, all_there, expected=ANY, stdin=plan, timeout=limit)
    if not done.ok:
        raise _refused(bd, ids, done)
    if done.stdout or not all_there():  # unless bd did not come to say so
        _compare(bd, ids, done)
    progress(f"{plural(len(ids), 'bead')} inserted")


def check_new(bd: Bd, batch: Sequence[Stored], root: Path) -> None:
    """Refuse, before anything is written, what would not be sound."""
    reason = "bd cannot look up an id with a comma in it"
    commas = [f"{thing.id}: {reason}" for thing in batch if "," in thing.id]
    if commas:
        faults = [Fault(Code.CONSTRAINT, message, field="id") for message in commas]
        raise gathered(faults, f"{len(batch)} beads")
    entries = list(map(rules.Entry.of, batch))
    named = dict.fromkeys(name for entry in entries for name in (entry.id, *entry.named))
    there = bd.by_ids(list(named))
    rules.check_batch(entries, there.__contains__)
    if any(entry.parent in there for entry in entries):  # what is stored may wait for its new member
        stored = [rules.Entry(row["id"], shape.blockers(row), row.get("parent")) for row in bd.everything()]
        rules.refuse_cycle(rules.waiting([*stored, *entries]))
    for thing in batch:
        rules.checked_new(thing, thing.to_json(), root)


def _compare(bd: Bd, ids: Sequence[str], done: Exit) -> None:
    """bd names what it made; anything but what we asked for is a failure."""
    answer: Any = bd.parsed(COMMAND, done)
    made = list((answer.get("ids") or {}).values())
    missing = [name for name in ids if name not in set(made)]
    if missing or len(made) != len(ids):
        raise _partial("bd made other beads than it was asked for", made, missing)


def _refused(bd: Bd, ids: Sequence[str], done: Exit) -> RalphError:
    said = error_text(done)
    code = next((code for phrase, code in REFUSALS if phrase in said), Code.INSERT_FAILED)
    action = f"Fix what bd says, and see whether it is there: bd show {ids[0]} --json"
    return bd.error(code, f"bd refused the beads, none was inserted: {said}", COMMAND, done, action)


def _partial(message: str, inserted: Sequence[str], missing: Sequence[str]) -> RalphError:
    counted = f"{message}: {len(inserted)} are there, {len(missing)} are missing"
    action = f"Look at one of them: bd show {[*inserted, *missing][0]} --json"
    data = {"inserted": list(inserted), "missing": list(missing)}
    return RalphError(Code.INSERT_FAILED, counted, data=data, suggested_action=action)


# --- what a formula pours -------------------------------------------------------------------------


def pour(bd: Bd, formula: str, values: Mapping[str, str], *, wisp: bool, assignee: str | None) -> Poured:
    """All the steps, or nothing. The caller holds the writer queue."""
    words = ("mol", "wisp" if wisp else "pour", formula, *(f"--var={k}={v}" for k, v in values.items()))
    assigned = (f"--assignee={assignee}",) if assignee and not wisp else ()
    done = bd.run((*words, *assigned, "--json"), timeout=POUR_LIMIT * bd.timeout)
    if done.timed_out:
        message = f"bd did not end within {done.seconds:.0f} s; it may have poured {formula}, or nothing"
        action = "See whether it is there: bd query type=molecule"
        raise bd.error(Code.DATABASE_TIMEOUT, message, words, done, action)
    if not done.ok:
        raise _pour_refused(bd, formula, words, done)
    poured = _poured(bd.parsed(words, done))
    if wisp and assignee:  # `bd mol wisp` has no word for it
        bd.change(
            ("update", poured.root, f"--assignee={assignee}"),
            lambda: bool(bd.by_ids([poured.root])[poured.root].get("assignee") == assignee),
        )
    return poured


def _poured(answer: Any) -> Poured:
    root = str(answer["new_epic_id"])
    ids: Mapping[str, str] = answer["id_mapping"]
    name = next(key for key, made in ids.items() if made == root)
    return Poured(root, {key.removeprefix(f"{name}."): made for key, made in ids.items() if made != root})


def _pour_refused(bd: Bd, formula: str, words: Sequence[str], done: Exit) -> RalphError:
    said = _said(done)
    if any(phrase in said for phrase in NOT_FOUND):  # only `bd cook` says what is wrong with it
        cooked = bd.run(("cook", formula, "--dry-run"), reading=True)
        said = said if cooked.ok else _said(cooked)
    message = f"bd does not pour {formula}, and nothing was made: {said}"
    action = f"Fix the formula or its variables: beads-ralph formula check {formula}"
    return bd.error(Code.POUR_FAILED, message, words, done, action)


def _said(done: Exit) -> str:
    """bd's own words: of several faults it marks only the first line as an error."""
    plain = "" if done.stdout.strip() else done.stderr.strip()
    return plain.removeprefix("Error: ") if plain.startswith("Error: ") else error_text(done)


# --- items ----------------------------------------------------------------------------------------


class BdItems:
    """Each change is one transaction of bd's, made while it is our turn to write."""

    def __init__(
        self, root: Path, opened: Callable[[], Bd], writing: Callable[[], AbstractContextManager[Bd]]
    ) -> None:
        self._root = root
        self._opened = opened
        self._writing = writing

    def find(self, query: ItemQuery) -> list[Item]:
        raws = [shape.item(row) for row in self._opened().items(query)]
        return rules.items([raw for raw in raws if _answers(raw, query)], query)

    def wisps(self) -> tuple[Listing, list[Item]]:
        rows = sorted(self._opened().asked(WISPS), key=shape.store_order)
        beads = [shape.seed(row) for row in rows if shape.is_ours(row)]
        items = [shape.item(row) for row in rows if not shape.is_ours(row)]
        items.sort(key=lambda raw: (str(raw["created_at"]), str(raw["id"])))
        return rules.listing(beads, self._root), rules.items(items, ItemQuery())

    # --- changing -----------------------------------------------------------------------------------

    def close(self, item_id: str, actor: str, reason: str) -> Item:
        rules.check_actor(actor)
        with self._writing() as bd:
            row = bd.one_item(item_id)
            if row["status"] != "closed":
                unfinished = sorted(name for name, other in bd.members(row).items() if _is_open(other))
                rules.check_closable(item_id, unfinished, bd.not_closed(shape.blockers(row)))
                _batch(bd, [_closing(item_id, reason)], {item_id: "closed"}, actor)
                row = bd.one_item(item_id)
            return rules.sound_item(shape.item(row))

    def track(self, convoy_id: str, ids: Sequence[str]) -> Item:
        with self._writing() as bd:
            row = bd.one_item(convoy_id)
            rules.check_convoy(convoy_id, str(row["issue_type"]))
            there = bd.by_ids([*ids, *shape.tracked(row)])
            unknown = [name for name in ids if name not in there]
            if faults := rules.track_faults(convoy_id, ids, unknown):
                raise gathered(faults, f"convoy {convoy_id}")
            _track(bd, row, ids, there)
            return rules.sound_item(shape.item(bd.one_item(convoy_id)))

    def settle(self) -> Settled:
        """One question where nothing is to be done, a second one where there is a container at all."""
        if not self._opened().items(ItemQuery(types=CONTAINERS)):
            return Settled()
        if _settled(self._opened().everything()) == Settled():
            return Settled()
        with self._writing() as bd:
            outcome = _settled(bd.everything())  # anew: it may have changed before our turn came
            closing = [_closing(name, ALL_CLOSED) for name in outcome.closed]
            wanted = {**dict.fromkeys(outcome.closed, "closed"), **dict.fromkeys(outcome.reopened, "open")}
            _batch(bd, [*closing, *map(_opening, outcome.reopened)], wanted)
            if outcome.reopened:
                setup.graph_changed(bd)
        return outcome

    def burn(self, ids: Sequence[str]) -> list[str]:
        with self._writing() as bd:
            rows = {row["id"]: row for row in bd.everything()}
            burnt = _below(rows, ids)
            rules.check_burnable([_burning(rows, name) for name in burnt])
            _delete(bd, burnt)
        return burnt


# --- reading ----------------------------------------------------------------------------------------


def _answers(raw: Mapping[str, object], query: ItemQuery) -> bool:
    return (
        (not query.types or raw["issue_type"] in query.types)
        and (not query.statuses or raw["status"] in query.statuses)
        and (not query.parents or raw.get("parent") in query.parents)
        and (not query.wisps_only or bool(raw.get("ephemeral")))
    )


def _is_open(row: Row | None) -> bool:
    return row is not None and row["status"] != "closed"


# --- writing; each step assumes that the ids were looked up and that it is our turn ------------------


def _batch(bd: Bd, lines: Sequence[str], wanted: Mapping[str, str], actor: str = OURSELVES) -> None:
    """All the lines or none; `wanted` is the status of each id afterwards."""
    if not lines:
        return

    def took_effect() -> bool:
        rows = bd.by_ids(list(wanted))
        return all(name in rows and rows[name]["status"] == status for name, status in wanted.items())

    limit = bd.timeout + EACH * len(lines)
    bd.change(BATCH, took_effect, actor=actor, stdin="\n".join(lines) + "\n", timeout=limit)


def _closing(item_id: str, reason: str) -> str:
    words = " ".join(reason.split()) or "closed"
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return f'close {item_id} "{escaped}"'


def _opening(item_id: str) -> str:
    return f"update {item_id} status=open"


def _track(bd: Bd, row: Row, ids: Sequence[str], there: Mapping[str, Row]) -> None:
    convoy_id = row["id"]
    lines = [f"dep add {convoy_id} {name} tracks" for name in ids if name not in shape.tracked(row)]
    reopens = row["status"] == "closed" and any(map(_is_open, there.values()))
    status = "open" if reopens else str(row["status"])
    _batch(bd, [*lines, *([_opening(convoy_id)] if reopens else [])], {convoy_id: status})
    if reopens:
        setup.graph_changed(bd)


# --- settling ---------------------------------------------------------------------------------------


def _settled(everything: Sequence[Row]) -> Settled:
    rows = {row["id"]: row for row in everything}
    below = _children(everything)
    containers = [
        Container(
            name,
            row["status"] == "closed",
            (*below.get(name, ()), *shape.tracked(row)),
            tuple(shape.blockers(row)),
        )
        for name, row in rows.items()
        if _settles(row, rows)
    ]
    return settled(containers, lambda name: _is_open(rows.get(name)))


def _children(rows: Iterable[Row]) -> dict[str, list[str]]:
    below: dict[str, list[str]] = {}
    for row in rows:
        below.setdefault(str(row.get("parent") or ""), []).append(row["id"])
    return below


def _settles(row: Row, rows: Mapping[str, Row]) -> bool:
    """Molecules, as bd itself closes them; of epics and convoys, which others may keep in the same database
    for their own ends, those that we made and those of a molecule."""
    if row["issue_type"] not in CONTAINERS or row.get("is_template"):
        return False
    if row["issue_type"] == MOLECULE or row.get("created_by") == OURSELVES:
        return True
    above, seen = rows.get(str(row.get("parent"))), {row["id"]}
    while above is not None and above["id"] not in seen:
        if above["issue_type"] == MOLECULE:
            return True
        seen.add(above["id"])
        above = rows.get(str(above.get("parent")))
    return False


# --- burning ----------------------------------------------------------------------------------------


def _below(rows: Mapping[str, Row], ids: Collection[str]) -> list[str]:
    """The ids and everything below them, as created."""
    for name in ids:
        if name not in rows:
            raise nothing_there(name)
    found = graph.reachable(ids, _children(rows.values()))
    return sorted(found, key=lambda name: shape.store_order(rows[name])[1:])


def _burning(rows: Mapping[str, Row], name: str) -> rules.Burning:
    row = rows[name]
    dependents = [other["id"] for other in rows.values() if name in shape.blockers(other)]
    return rules.Burning(name, shape.is_wisp(row), shape.holder(row), tuple(dependents))


def _delete(bd: Bd, ids: Sequence[str]) -> None:
    """Exactly these, in one transaction; which are gone, the database tells."""
    words = ("delete", "--from-file=/dev/stdin", "--force")
    limit = bd.timeout + EACH * len(ids)
    done = bd.change(words, lambda: not bd.by_ids(ids), stdin="\n".join(ids) + "\n", timeout=limit)
    told = (bd.parsed(words, done) if done.stdout else {}).get("deleted") or []
    deleted = [told] if isinstance(told, str) else told  # of a single one bd says just the id
    wrong = [*bd.by_ids(ids), *(name for name in deleted if name not in ids)]
    if wrong:
        message = f"bd removed other wisps than it was asked to: {', '.join(wrong)}"
        raise bd.error(Code.CONFLICT, message, words, done)

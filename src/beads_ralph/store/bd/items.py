"""The items of the bd store: bd's issues of every other type than ours, wisps among them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from beads_ralph.bead.items import Item
from beads_ralph.bead.names import CONTAINERS, MOLECULE
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.store import rules
from beads_ralph.store.bd import queries, setup, shape
from beads_ralph.store.bd.cli import OURSELVES, Bd
from beads_ralph.store.bd.shape import Row
from beads_ralph.store.protocol import ItemQuery, Listing, Settled
from beads_ralph.store.rules import Container, settled

BATCH: Final = ("batch",)  # one transaction, and alone among bd's writing commands it never guesses an id
ALL_CLOSED: Final = "everything in it is closed"
EACH_LINE: Final = 0.6  # seconds that one line of a batch may take


class BdItems:
    """Each change is one transaction of bd's, made while it is our turn to write."""

    def __init__(
        self, root: Path, opened: Callable[[], Bd], writing: Callable[[], AbstractContextManager[Bd]]
    ) -> None:
        self._root = root
        self._opened = opened
        self._writing = writing

    def find(self, query: ItemQuery) -> list[Item]:
        raws = [shape.item(row) for row in queries.items(self._opened(), query)]
        return rules.items([raw for raw in raws if _answers(raw, query)], query)

    def wisps(self) -> tuple[Listing, list[Item]]:
        rows = sorted(queries.asked(self._opened(), queries.WISPS), key=shape.store_order)
        beads = [shape.seed(row) for row in rows if shape.is_ours(row)]
        items = [shape.item(row) for row in rows if not shape.is_ours(row)]
        items.sort(key=lambda raw: (str(raw["created_at"]), str(raw["id"])))
        return rules.listing(beads, self._root), rules.items(items, ItemQuery())

    # --- changing -----------------------------------------------------------------------------------

    def close(self, item_id: str, actor: str, reason: str) -> Item:
        rules.check_actor(actor)
        with self._writing() as bd:
            row = queries.one_item(bd, item_id)
            if row["status"] != "closed":
                rules.check_closable(
                    item_id, _open_members(bd, row), queries.not_closed(bd, shape.blockers(row))
                )
                _batch(bd, [_closing(item_id, reason)], {item_id: "closed"}, actor)
                row = queries.one_item(bd, item_id)
            return rules.sound_item(shape.item(row))

    def track(self, convoy_id: str, ids: Sequence[str]) -> Item:
        with self._writing() as bd:
            row = queries.one_item(bd, convoy_id)
            rules.check_convoy(convoy_id, str(row["issue_type"]))
            there = queries.by_ids(bd, [*ids, *shape.tracked(row)])
            unknown = [name for name in ids if name not in there]
            if faults := rules.track_faults(convoy_id, ids, unknown):
                raise gathered(faults, f"convoy {convoy_id}")
            _track(bd, row, ids, there)
            return rules.sound_item(shape.item(queries.one_item(bd, convoy_id)))

    def settle(self) -> Settled:
        """One question where nothing is to be done, a second one where there is a container at all."""
        if not queries.items(self._opened(), ItemQuery(types=CONTAINERS)):
            return Settled()
        if _settled(queries.everything(self._opened())) == Settled():
            return Settled()
        with self._writing() as bd:
            outcome = _settled(queries.everything(bd))  # anew: it may have changed before our turn came
            closing = [_closing(name, ALL_CLOSED) for name in outcome.closed]
            wanted = {**dict.fromkeys(outcome.closed, "closed"), **dict.fromkeys(outcome.reopened, "open")}
            _batch(bd, [*closing, *map(_opening, outcome.reopened)], wanted)
            if outcome.reopened:
                setup.graph_changed(bd)
        return outcome

    def burn(self, ids: Sequence[str]) -> list[str]:
        with self._writing() as bd:
            rows = {row["id"]: row for row in queries.everything(bd)}
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


def _open_members(bd: Bd, row: Row) -> list[str]:
    return sorted(name for name, other in queries.members(bd, row).items() if _is_open(other))


# --- writing; each step assumes that the ids were looked up and that it is our turn ------------------


def _batch(bd: Bd, lines: Sequence[str], wanted: Mapping[str, str], actor: str = OURSELVES) -> None:
    """All the lines or none; `wanted` is the status of each id afterwards."""
    if not lines:
        return

    def took_effect() -> bool:
        rows = queries.by_ids(bd, list(wanted))
        return all(name in rows and rows[name]["status"] == status for name, status in wanted.items())

    limit = bd.timeout + EACH_LINE * len(lines)
    done = bd.change(BATCH, took_effect, actor=actor, stdin="\n".join(lines) + "\n", timeout=limit)
    if not done.ok:
        raise bd.failure(BATCH, done)


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
    below: dict[str, list[str]] = {}
    for row in everything:
        below.setdefault(str(row.get("parent") or ""), []).append(row["id"])
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
            raise rules.nothing_there(name)
    found = set(ids)
    while more := {name for name, row in rows.items() if row.get("parent") in found and name not in found}:
        found |= more
    return sorted(found, key=lambda name: shape.store_order(rows[name])[1:])


def _burning(rows: Mapping[str, Row], name: str) -> rules.Burning:
    row = rows[name]
    dependents = [other["id"] for other in rows.values() if name in shape.blockers(other)]
    return rules.Burning(name, shape.is_wisp(row), shape.holder(row), tuple(dependents))


def _delete(bd: Bd, ids: Sequence[str]) -> None:
    """Exactly these, in one transaction; which are gone, the database tells."""
    words = ("delete", "--from-file=/dev/stdin", "--force")
    limit = bd.timeout + EACH_LINE * len(ids)
    done = bd.change(words, lambda: not queries.by_ids(bd, ids), stdin="\n".join(ids) + "\n", timeout=limit)
    if not done.ok:
        raise bd.failure(words, done)
    told = (bd.parsed(words, done) if done.stdout else {}).get("deleted") or []
    deleted = [told] if isinstance(told, str) else told  # of a single one bd says just the id
    wrong = [*queries.by_ids(bd, ids), *(name for name in deleted if name not in ids)]
    if wrong:
        message = f"bd removed other wisps than it was asked to: {', '.join(wrong)}"
        raise RalphError(Code.CONFLICT, message, details=bd.account(words, done))

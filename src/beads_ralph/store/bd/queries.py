"""Questions to bd's database, asked so that an id means exactly itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from beads_ralph.bead.names import CONVOY, ISSUE_TYPES
from beads_ralph.errors import Code, RalphError
from beads_ralph.process.jobs import Exit
from beads_ralph.store import rules
from beads_ralph.store.bd.cli import Bd
from beads_ralph.store.bd.shape import Row, far_blockers, is_ours, store_order, tracked
from beads_ralph.store.protocol import ItemQuery

IDS_PER_CALL: Final = 200  # an argument has room for some 128 kB, an id has at most 200 characters
EVERYTHING: Final = ("--all", "--limit=0", "--include-gates", "--include-infra", "--include-templates")
OURS: Final = " OR ".join(f"type={name}" for name in ISSUE_TYPES)
# The built-in types, which are never ours; `bd ready` takes a list of types to leave out, but none to show.
FOREIGN_TYPES: Final = "task,bug,feature,chore,epic,decision,spike,story,milestone,convoy"
ITEMS: Final = " AND ".join(f"type!={name}" for name in ISSUE_TYPES)
WISPS: Final = "ephemeral=true"
WORD: Final = re.compile(r"[A-Za-z0-9._-]+")  # what stands for itself in bd's query language


UNANSWERED: Final = ("dependencies", "comment_count", "parent")  # what `bd update` leaves out of its answer


def by_ids(bd: Bd, ids: Collection[str]) -> dict[str, Row]:
    """The issues that exist, of whatever type. `bd list --id` alone among bd's commands never guesses."""
    # bd splits at commas, and an empty list of ids would mean every issue.
    possible = [name for name in dict.fromkeys(ids) if name and "," not in name]
    found: dict[str, Row] = {}
    for part in _parts(possible):
        rows = bd.read("list", f"--id={','.join(part)}", *EVERYTHING)
        found |= {row["id"]: row for row in rows if row["id"] in part}
    return found


def one(bd: Bd, bead_id: str) -> Row:
    """Exactly this bead of ours."""
    row = by_ids(bd, [bead_id]).get(bead_id)
    if row is None:
        raise rules.nothing_there(bead_id)
    if not is_ours(row):
        raise rules.no_bead(bead_id, str(row.get("issue_type")))
    return row


def one_item(bd: Bd, item_id: str) -> Row:
    """Exactly this issue, which is no bead of ours."""
    row = by_ids(bd, [item_id]).get(item_id)
    if row is None:
        raise rules.nothing_there(item_id)
    if is_ours(row):
        raise rules.no_item(item_id)
    return row


def answered(bd: Bd, words: Sequence[str], done: Exit, known: Row) -> Row:
    """The issue after a `bd update`, from the update's own answer; what that leaves out, from before it.

    bd may have taken another issue where the one we know was deleted meanwhile: the id tells.
    """
    if not done.stdout:  # it was done, but bd did not come to say so
        return one(bd, known["id"])
    (row,) = bd.parsed(words, done)
    return {**row, **{key: known[key] for key in UNANSWERED if key in known}}


def changed(bd: Bd, words: Sequence[str], done: Exit, known: Row) -> Row:
    """The same where nothing else may have been changed."""
    row = answered(bd, words, done, known)
    if row["id"] != known["id"]:
        message = f"bd changed {row['id']} instead of {known['id']}, which somebody has deleted just now"
        advice = f"See what changed, and change it back: bd history {row['id']}"
        raise RalphError(Code.CONFLICT, message, suggested_action=advice)
    return row


def named(bd: Bd, ids: Collection[str]) -> list[Row]:
    """Those of the ids that are beads of ours."""
    return _sorted(list(by_ids(bd, ids).values()))


def ours(bd: Bd) -> list[Row]:
    """All our beads, closed ones and wisps included."""
    return ours_and_convoys(bd)[0]


def ours_and_convoys(bd: Bd) -> tuple[list[Row], bool]:
    """The same, and whether a convoy is open: to ask for both costs what asking for one does."""
    rows = asked(bd, f"{OURS} OR type={CONVOY}")
    return _sorted(rows), any(row["issue_type"] == CONVOY and row["status"] != "closed" for row in rows)


def items(bd: Bd, query: ItemQuery) -> list[Row]:
    """Items, in the order they were made; bd narrows it down where its language can say how."""
    if query.ids:
        rows = list(by_ids(bd, query.ids).values())
    elif len(query.parents) == 1:
        rows = below(bd, *query.parents)
    else:
        terms = [ITEMS, *_any("type", query.types), *([WISPS] if query.wisps_only else [])]
        rows = asked(bd, " AND ".join(terms))
    found = [row for row in rows if not is_ours(row) and not row.get("is_template")]
    return sorted(found, key=lambda row: store_order(row)[1:])


def _any(field: str, values: Collection[str]) -> list[str]:
    """`(field=a OR field=b)`; nothing where one of them might mean more than itself, or for too many."""
    if not 0 < len(values) <= IDS_PER_CALL or not all(map(WORD.fullmatch, values)):
        return []
    return [f"({' OR '.join(f'{field}={value}' for value in values)})"]


def asked(bd: Bd, expression: str) -> list[Row]:
    return list(bd.read("query", expression, "--all", "--limit=0") or ())


def below(bd: Bd, parent: str) -> list[Row]:
    """The children of an issue. bd knows `parent` only where it stands alone in a query."""
    rows = asked(bd, f"parent={parent}") if WORD.fullmatch(parent) else everything(bd)
    return [row for row in rows if row.get("parent") == parent]


def members(bd: Bd, row: Row) -> dict[str, Row]:
    """The children of an issue, and what it tracks."""
    return {other["id"]: other for other in below(bd, row["id"])} | by_ids(bd, tracked(row))


def everything(bd: Bd) -> list[Row]:
    return list(bd.read("list", *EVERYTHING) or ())


def unblocked(bd: Bd, *, wisps: bool = False) -> list[Row]:
    """Our open beads that wait for nothing, whoever they are assigned to."""
    more = ("--include-ephemeral",) if wisps else ()
    rows = _sorted(bd.read("ready", "--limit=0", f"--exclude-type={FOREIGN_TYPES}", *more))
    waiting = set(not_closed(bd, [name for row in rows for name in far_blockers(row)]))
    return [row for row in rows if waiting.isdisjoint(far_blockers(row))]


def not_closed(bd: Bd, ids: Sequence[str]) -> list[str]:
    """Those of the ids that still hold up what depends on them; one that is gone does, too."""
    there = by_ids(bd, ids)
    return [name for name in ids if name not in there or there[name]["status"] != "closed"]


def comments(bd: Bd, row: Row) -> list[Any]:
    """The comments of an issue that was looked up exactly."""
    return list(bd.read("comments", row["id"]) or []) if row.get("comment_count") else []


def _sorted(rows: Sequence[Row] | None) -> list[Row]:
    return sorted(filter(is_ours, rows or ()), key=store_order)


def _parts(ids: Sequence[str]) -> Iterator[list[str]]:
    remaining = iter(ids)
    while part := list(islice(remaining, IDS_PER_CALL)):
        yield part

"""Convoys: a set of beads and items, across plans, that is followed until all of it is closed.

A convoy holds nothing up. A molecule or an epic in it counts as what lies below it: its beads, people's
tasks and gates, each of them once.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONTAINERS, CONVOY, ISSUE_TYPES, slug
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.store.protocol import Settled, Store
from beads_ralph.store.query import ItemQuery, Query

PREFIX: Final = "bd-convoy-"
MOST_OF_ONE_NAME: Final = 100


@dataclass(frozen=True)
class Member:
    """One thing that must be closed before the convoy is."""

    id: str
    title: str
    type: str
    status: str
    of: str | None = None
    """The molecule or epic that is followed, where it is not followed itself."""
    waits_for: tuple[str, ...] = ()
    reason: str | None = None
    """Why it is blocked, where somebody has said so."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"waits_for": list(self.waits_for)}


@dataclass(frozen=True)
class Progress:
    """A convoy and how far it is."""

    convoy: Item
    members: tuple[Member, ...]

    @property
    def closed(self) -> int:
        return sum(member.status == "closed" for member in self.members)

    @property
    def blocked(self) -> list[str]:
        return [member.id for member in self.members if member.status in ("blocked", "missing")]

    def __str__(self) -> str:
        if self.members and self.closed == len(self.members):
            return f"convoy {self.convoy.title}: all {self.closed} closed"
        return f"convoy {self.convoy.title}: {self.closed} of {len(self.members)} closed"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.convoy.id,
            "name": self.convoy.title,
            "status": self.convoy.status,
            "closed": self.closed,
            "total": len(self.members),
            "blocked": self.blocked,
            "created_at": self.convoy.created_at,
            "closed_at": self.convoy.closed_at,
        }


# --- finding ----------------------------------------------------------------------------------------


def every(store: Store) -> list[Item]:
    return store.items.find(ItemQuery(types=[CONVOY]))


def named(store: Store, word: str) -> Item:
    """The convoy of that id, or the only one of that name."""
    known = every(store)
    found = [item for item in known if item.id == word] or [item for item in known if item.title == word]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(item.id for item in found)
        message, action = f"{len(found)} convoys are named {word}: {ids}", "Name one of them by its id"
        raise RalphError(Code.USAGE, message, suggested_action=action)
    words = [text for item in known for text in (item.title, item.id)]
    close = difflib.get_close_matches(word, words, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    action = "List them with: beads-ralph convoy list --all"
    raise RalphError(Code.BEAD_NOT_FOUND, f"there is no convoy {word}{hint}", suggested_action=action)


def progress(store: Store, convoys: Sequence[Item]) -> list[Progress]:
    """The progress of each, read from the store once."""
    stock = _stock(store, {name for convoy in convoys for name in convoy.tracks})
    return [Progress(convoy, tuple(stock.members(convoy.tracks))) for convoy in convoys]


def beads_of(store: Store, convoy: Item) -> frozenset[str]:
    """The beads that it follows, those below a molecule included."""
    (found,) = progress(store, [convoy])
    return frozenset(member.id for member in found.members if member.type in ISSUE_TYPES)


@dataclass(frozen=True)
class _Stock:
    """The members of convoys, and everything below them."""

    beads: Mapping[str, Bead]
    items: Mapping[str, Item]
    children: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def members(self, tracks: Iterable[str]) -> Iterator[Member]:
        seen: set[str] = set()
        for name in tracks:
            for leaf in self._leaves(name, set()):
                if leaf not in seen:
                    seen.add(leaf)
                    yield self._member(leaf, None if leaf == name else name)

    def _leaves(self, name: str, above: set[str]) -> Iterator[str]:
        item = self.items.get(name)
        if item is None or item.issue_type not in CONTAINERS:
            yield name
        elif name not in above:
            for child in self.children.get(name, ()):
                yield from self._leaves(child, above | {name})

    def _member(self, name: str, of: str | None) -> Member:
        found = self.beads.get(name) or self.items.get(name)
        if found is None:
            return Member(name, "", "missing", "missing", of)
        waits = () if found.status == "closed" else tuple(filter(self._holds_up, found.dependencies))
        result = found.metadata.scrum_result if isinstance(found, Bead) else None
        reason = result.error if result and found.status == "blocked" else None
        return Member(name, found.title, found.issue_type, found.status, of, waits, reason)

    def _holds_up(self, name: str) -> bool:
        """True where it is not known to be closed; what lies outside is known where it matters."""
        found = self.beads.get(name) or self.items.get(name)
        return found is None or found.status != "closed"


def _stock(store: Store, tracks: Collection[str]) -> _Stock:
    if not tracks:
        return _Stock({}, {})
    beads = {bead.id: bead for bead in store.find(Query()).beads}
    items: dict[str, Item] = {}
    wanted = ItemQuery(ids=sorted(set(tracks) - beads.keys()))
    while wanted.ids or wanted.parents:
        found = [item for item in store.items.find(wanted) if item.id not in items]
        items |= {item.id: item for item in found}
        wanted = ItemQuery(parents=[item.id for item in found if item.issue_type in CONTAINERS])
    children: dict[str, list[str]] = {}
    rest: set[str] = set()
    things: list[Bead | Item] = [*beads.values(), *items.values()]
    for thing in things:
        rest.update(thing.dependencies)
        if thing.parent is not None:
            children.setdefault(thing.parent, []).append(thing.id)
    rest -= beads.keys() | items.keys()
    if rest:
        items |= {item.id: item for item in store.items.find(ItemQuery(ids=sorted(rest)))}
    return _Stock(beads, items, children)


# --- making and adding ------------------------------------------------------------------------------


def create(store: Store, name: str, ids: Sequence[str]) -> Item:
    """A new convoy that follows these; a name is given once."""
    title = " ".join(name.split())
    stem = slug(title)
    if not stem:
        message, action = f"{name!r} does not name a convoy", "Use a name with a letter or a digit in it"
        raise RalphError(Code.CONSTRAINT, message, suggested_action=action)
    tracks = list(dict.fromkeys(ids))
    check(store, tracks)
    item = Item(id=_free_id(store, title, stem), title=title, issue_type=CONVOY, tracks=tracks)
    store.create([item])
    (made,) = store.items.find(ItemQuery(ids=[item.id]))
    return made


def _free_id(store: Store, title: str, stem: str) -> str:
    wanted = [f"{PREFIX}{stem}", *(f"{PREFIX}{stem}-{number}" for number in range(2, MOST_OF_ONE_NAME))]
    taken = {item.id: item.title for item in store.items.find(ItemQuery(ids=wanted))}
    taken |= {bead.id: "" for bead in store.find(Query(ids=wanted)).beads}
    same = [name for name, other in taken.items() if other == title]
    if same:
        action = f"Add to it: beads-ralph convoy add {same[0]} ID…; or choose another name"
        message = f"there is a convoy {title} already: {same[0]}"
        raise RalphError(Code.DUPLICATE_ID, message, suggested_action=action)
    return next(name for name in wanted if name not in taken)


def add(store: Store, convoy: Item, ids: Sequence[str]) -> Item:
    """The convoy, which follows these too; what it follows already it follows once."""
    new = [name for name in dict.fromkeys(ids) if name not in convoy.tracks]
    check(store, new)
    return store.items.track(convoy.id, new) if new else convoy


def check(store: Store, ids: Sequence[str]) -> None:
    """Every fault at once: what is not there, and what cannot be followed."""
    if not ids:
        return
    listing = store.find(Query(ids=ids))
    found: dict[str, Bead | Item | None] = {bead.id: bead for bead in listing.beads}
    found |= {broken.id: None for broken in listing.unreadable}
    found |= {item.id: item for item in store.items.find(ItemQuery(ids=ids))}
    faults = [fault for name in ids if (fault := _fault(name, found)) is not None]
    if faults:
        raise gathered(faults, "the convoy")


def _fault(name: str, found: Mapping[str, Bead | Item | None]) -> Fault | None:
    if name not in found:
        action = "See what there is: beads-ralph list"
        return Fault(Code.UNRESOLVED, f"{name} is not in the store", suggested_action=action)
    thing = found[name]
    if thing is not None and thing.ephemeral:
        action = "Pour the formula instead (beads-ralph pour), and follow that"
        message = f"{name} is a wisp, which is gone one day without a trace"
        return Fault(Code.CONSTRAINT, message, suggested_action=action)
    if isinstance(thing, Item) and thing.issue_type == CONVOY:
        action = "Add what it follows, instead"
        return Fault(Code.CONSTRAINT, f"{name} is a convoy itself", suggested_action=action)
    return None


def changed(store: Store, settled: Settled) -> tuple[list[Item], list[Item]]:
    """The containers that a settling has closed, and those that it has opened again."""
    ids = [*settled.closed, *settled.reopened]
    found = {item.id: item for item in store.items.find(ItemQuery(ids=ids))} if ids else {}
    return (
        [found[name] for name in settled.closed if name in found],
        [found[name] for name in settled.reopened if name in found],
    )


# --- settling -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settlement:
    """Containers whose status has followed what they hold."""

    closed: tuple[Item, ...] = ()
    reopened: tuple[Item, ...] = ()
    lines: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {word: [asdict(item.brief) for item in getattr(self, word)] for word in ("closed", "reopened")}


def settle(store: Store) -> Settlement:
    """Let them follow, and say so."""
    closed, reopened = changed(store, store.items.settle())
    again = (f"○ {item.issue_type} {item.title} is open again" for item in reopened)
    return Settlement(tuple(closed), tuple(reopened), (*ended(store, closed), *again))


def ended(store: Store, closed: Sequence[Item]) -> list[str]:
    """`✓ convoy Launch: all 5 closed`; of a molecule its id, too, since many have the same name."""
    followed = [item for item in closed if item.issue_type == CONVOY]
    rows = [str(one) for one in progress(store, followed)] if followed else []
    others = [item for item in closed if item.issue_type != CONVOY]
    rows += [f"{item.issue_type} {item.id} ({item.title}): all closed" for item in others]
    return [f"✓ {row}" for row in rows]

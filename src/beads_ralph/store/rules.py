"""Rules that every store keeps, in one set of words: reading, batches, claims, status, containers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph.bead import graph, schema
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import ASSIGNEE, CONVOY
from beads_ralph.bead.words import plural
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.store.protocol import Listing, Settled, Stored
from beads_ralph.store.query import ItemQuery, UnreadableBead

Raw = Mapping[str, Any]
SHOWN_IDS: Final = 5
RELEASE_IT: Final = "Release the bead; it becomes ready when those are closed"
HOW: Final = {"dependencies": "depends on", "parent": "lies below", "tracks": "tracks"}

# --- reading ----------------------------------------------------------------------------------------


def sound(raw: Raw, root: Path) -> Bead:
    """The bead, or an error that names every field that is wrong."""
    checked = schema.read(dict(raw), root)
    if isinstance(checked.bead, Bead):
        return checked.bead
    raise gathered(checked.faults, f"bead {raw.get('id')}")


def listing(raws: Iterable[Raw], root: Path) -> Listing:
    beads: list[Bead] = []
    unreadable: list[UnreadableBead] = []
    for raw in raws:
        checked = schema.read(dict(raw), root)
        if isinstance(checked.bead, Bead):
            beads.append(checked.bead)
        else:
            unreadable.append(UnreadableBead(str(raw.get("id")), raw, checked.faults))
    return Listing(tuple(beads), tuple(unreadable))


def sound_item(raw: Raw) -> Item:
    """The item, or an error that names every field that is wrong."""
    try:
        return Item.model_validate(dict(raw))
    except ValidationError as problem:
        raise gathered(schema.faults_of(problem), f"{raw.get('issue_type')} {raw.get('id')}") from problem


def items(raws: Iterable[Raw], query: ItemQuery) -> list[Item]:
    """The items that can be read; one that cannot is left out, unless it was asked for by its id."""
    found: list[Item] = []
    for raw in raws:
        try:
            found.append(sound_item(raw))
        except RalphError:
            if query.ids:
                raise
    return found


# --- new beads and items ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """Something new, as the rest of its batch sees it: who it is, and whom it names."""

    id: str
    needs: Sequence[str]
    parent: str | None = None
    tracks: Sequence[str] = ()

    @classmethod
    def of(cls, thing: Stored) -> Entry:
        tracks = thing.tracks if isinstance(thing, Item) else ()
        return cls(thing.id, thing.dependencies, thing.parent, tracks)

    @property
    def fields(self) -> dict[str, Sequence[str]]:
        """Whom it names, by the field that does."""
        above = (self.parent,) if self.parent else ()
        return {"dependencies": self.needs, "parent": above, "tracks": self.tracks}

    @property
    def named(self) -> list[str]:
        return list(dict.fromkeys(name for names in self.fields.values() for name in names))


def checked_new(thing: Stored, raw: Raw, root: Path) -> Bead | Item:
    """What may be stored, as the JSON that it is: a copy with changed fields was never validated."""
    return sound_item(raw) if isinstance(thing, Item) else sound(raw, root)


def check_batch(batch: Sequence[Entry], exists: Callable[[str], bool]) -> None:
    """Every fault of the batch at once; then a cycle, which only its own edges can close."""
    counts = Counter(entry.id for entry in batch)
    faults = [_duplicate(bead_id, count) for bead_id, count in counts.items() if count > 1 or exists(bead_id)]
    for entry in batch:
        unknown = {name for name in entry.named if name not in counts and not exists(name)}
        faults += [*_own_faults(entry), *_unresolved(entry, unknown)]
    if faults:
        raise gathered(faults, f"{len(batch)} beads")
    refuse_cycle(waiting(batch))


def _own_faults(entry: Entry) -> list[Fault]:
    return [
        Fault(Code.SELF_DEP, f"{entry.id} {HOW[field]} itself", field=field)
        for field, names in entry.fields.items()
        if entry.id in names
    ]


def _unresolved(entry: Entry, unknown: Collection[str]) -> list[Fault]:
    why = "which is neither in the store nor in the batch"
    return [
        Fault(Code.UNRESOLVED, f"{entry.id} {HOW[field]} {name}, {why}", field=field)
        for field, names in entry.fields.items()
        for name in dict.fromkeys(names)
        if name in unknown
    ]


def waiting(batch: Sequence[Entry]) -> dict[str, list[str]]:
    """The graph of waiting: a container for its members, and they for what it waits for."""
    known = {entry.id: entry for entry in batch}
    edges: dict[str, list[str]] = defaultdict(list)
    for entry in batch:
        edges[entry.id] += entry.needs
        above, seen = entry.parent, {entry.id}
        if above:
            edges[above].append(entry.id)
        while above in known and above not in seen:
            seen.add(above)
            edges[entry.id] += known[above].needs
            above = known[above].parent
    return edges


def _duplicate(bead_id: str, count: int) -> Fault:
    where = "twice in the batch" if count > 1 else "in the store already"
    return Fault(Code.DUPLICATE_ID, f"{bead_id} is {where}", field="id")


def needs_faults(bead_id: str, needs: Sequence[str], unknown: Collection[str]) -> list[Fault]:
    """Faults of a bead's dependencies, given those that nobody knows."""
    entry = Entry(bead_id, needs)
    return _own_faults(entry) or _unresolved(entry, unknown)


def track_faults(convoy_id: str, ids: Sequence[str], unknown: Collection[str]) -> list[Fault]:
    entry = Entry(convoy_id, (), tracks=ids)
    return _own_faults(entry) + _unresolved(entry, unknown)


def refuse_cycle(edges: graph.Edges) -> None:
    path = graph.cycle(edges)
    if path:
        raise RalphError(Code.CYCLE_DETECTED, f"dependencies form a cycle: {' → '.join(path)}")


# --- claims and status ------------------------------------------------------------------------------


def check_actor(actor: str) -> None:
    """A claim must name somebody, and the pool's name holds nothing."""
    if not actor.strip() or actor == ASSIGNEE:
        raise RalphError(Code.CONSTRAINT, f"{actor!r} cannot hold a bead", suggested_action="Name a worker")


def check_release(status: str) -> None:
    if status not in ("open", "blocked"):
        raise RalphError(Code.CONSTRAINT, f"a bead is released as open or blocked, not as {status}")


def not_held(bead_id: str, status: str, holder: str | None, actor: str) -> RalphError:
    message = f"{bead_id} (status {status}) is held by {holder or 'nobody'}, not by {actor}"
    return _conflict(message, f"Claim the bead first, or read it again: beads-ralph show {bead_id}")


def blocked_again(bead_id: str, waiting: Sequence[str]) -> RalphError:
    """What the work was built on is no longer proven."""
    return _conflict(f"{bead_id} cannot be closed: it is blocked by {', '.join(waiting)} again", RELEASE_IT)


def _conflict(message: str, action: str) -> RalphError:
    return RalphError(Code.CONFLICT, message, suggested_action=action)


def check_expected(bead_id: str, current: str, expected: str | None) -> None:
    if expected is not None and current != expected:
        raise RalphError(Code.CONFLICT, f"{bead_id} is {current} by now, not {expected}")


def check_status_change(bead_id: str, current: str, holder: str | None, wanted: str) -> None:
    """Anyone may open, block and reopen what nobody holds; work starts and ends by claim and close."""
    if wanted == current:
        return
    if holder is not None:
        message = f"{bead_id} is claimed by {holder}, so its status cannot become {wanted}"
        raise _conflict(message, "Release the bead first")
    if wanted not in ("open", "blocked") or (current == "closed" and wanted != "open"):
        action = "Claim a bead to start it, close it to end it, set a closed one to open"
        raise _conflict(f"{bead_id} is {current} and cannot simply become {wanted}", action)


# --- items ------------------------------------------------------------------------------------------


def check_convoy(item_id: str, kind: str) -> None:
    if kind != CONVOY:
        message = f"{item_id} is a {kind}, and only a convoy tracks others"
        advice = "Make a convoy: beads-ralph convoy create"
        raise RalphError(Code.BEAD_NOT_FOUND, message, suggested_action=advice)


def check_closable(item_id: str, open_members: Sequence[str], waiting: Sequence[str]) -> None:
    """A container ends with its members, and nothing ends before what it waits for."""
    if open_members:
        shown = ", ".join(open_members[:SHOWN_IDS]) + (" …" if len(open_members) > SHOWN_IDS else "")
        message = f"{item_id} cannot be closed: it has {plural(len(open_members), 'open member')}: {shown}"
        raise _conflict(message, "It closes by itself when they are closed")
    if waiting:
        raise _conflict(f"{item_id} cannot be closed: it waits for {', '.join(waiting)}", "Close those first")


def no_item(item_id: str) -> RalphError:
    message = f"{item_id} is a bead, and a run closes those, with their proof"
    action = "Let a run work on it: beads-ralph run"
    return RalphError(Code.BEAD_NOT_FOUND, message, suggested_action=action)


@dataclass(frozen=True)
class Burning:
    """What is to be removed, and what stands against it."""

    id: str
    ephemeral: bool
    holder: str | None
    dependents: tuple[str, ...]


def check_burnable(burning: Sequence[Burning]) -> None:
    """Every reason against it at once."""
    gone = {thing.id for thing in burning}
    faults = [Fault(Code.CONFLICT, reason) for thing in burning for reason in _against(thing, gone)]
    if faults:
        raise gathered(faults, f"{len(burning)} wisps")


def _against(thing: Burning, gone: Collection[str]) -> Iterator[str]:
    if not thing.ephemeral:
        yield f"{thing.id} is not a wisp; only wisps are burnt"
    if thing.holder:
        yield f"{thing.id} is claimed by {thing.holder}"
    outside = [name for name in thing.dependents if name not in gone]
    if outside:
        yield f"{', '.join(outside)} waits for {thing.id}"


# --- when a molecule, an epic or a convoy is done ---------------------------------------------------


@dataclass(frozen=True)
class Container:
    """A container as it is stored: what it holds, and what it waits for itself."""

    id: str
    closed: bool
    members: tuple[str, ...]
    needs: tuple[str, ...] = ()


def settled(containers: Iterable[Container], is_open: Callable[[str], bool]) -> Settled:
    """The containers to close and those to open again; `is_open` tells of anything that is none of them."""
    known = {container.id: container for container in containers}
    held_open = _held_open(known, is_open)
    return Settled(
        closed=tuple(name for name, it in known.items() if not it.closed and name not in held_open),
        reopened=tuple(name for name, it in known.items() if it.closed and name in held_open),
    )


def _held_open(known: dict[str, Container], is_open: Callable[[str], bool]) -> set[str]:
    """From what is open up through everything around it, so that nesting and even circles come to an end."""
    around: dict[str, list[str]] = defaultdict(list)
    for container in known.values():
        for name in (*container.members, *(() if container.closed else container.needs)):
            around[name].append(container.id)
    empty = [name for name, it in known.items() if not it.members and not it.closed]
    return set(graph.reachable([*empty, *filter(is_open, around.keys() - known.keys())], around))

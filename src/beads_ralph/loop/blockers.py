"""What beads wait for that is no bead: gates, people's tasks, epics. Each with who must do what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph.bead import json_fields
from beads_ralph.bead.items import ALONE, GateRule, Item, Standing
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import CONTAINERS, GATE
from beads_ralph.bead.words import moment_of, plural, seconds_of, utc_text
from beads_ralph.journal.events import WaitingFor
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import ItemQuery, Query

Look = Callable[[Item], Standing]
NOT_CLOSED: Final = ("open", "in_progress", "blocked")


@dataclass(frozen=True)
class OpenWork:
    """What is not closed, and what stands behind it."""

    beads: Mapping[str, Bead] = field(default_factory=dict)
    """Every bead of the store that is not closed."""
    items: Mapping[str, Item] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    """Ids that somebody waits for, and that are nothing in the store."""

    def before(self, thing: Bead | Item) -> list[str]:
        """What holds it up: what it waits for, and what everything above it waits for."""
        found = list(thing.dependencies)
        above, seen = thing.parent, set[str]()
        while above is not None and above not in seen and (item := self.items.get(above)) is not None:
            seen.add(above)
            found += item.dependencies
            above = item.parent
        return self.unmet(found)

    def unmet(self, ids: Iterable[str]) -> list[str]:
        """Those that hold up what depends on them."""
        return [name for name in dict.fromkeys(ids) if self._is_open(name)]

    def _is_open(self, name: str) -> bool:
        item = self.items.get(name)
        return name in self.gone or name in self.beads or (item is not None and item.status != "closed")


@dataclass(frozen=True)
class Wait:
    """One thing that beads wait for, and how it stands."""

    item: Item
    beads: tuple[str, ...]
    standing: Standing

    @property
    def kind(self) -> str:
        rule = rule_of(self.item)
        return f"{rule.type} gate" if rule else self.item.issue_type

    @property
    def command(self) -> str | None:
        """What a person does about it; nothing where it goes on by itself, or cannot yet."""
        helps = self.standing.state in ("person", "failed") and self.item.issue_type not in CONTAINERS
        return f"beads-ralph close {self.item.id}" if helps else None

    @property
    def told(self) -> WaitingFor:
        """In an event or an answer."""
        rule = rule_of(self.item)
        return WaitingFor(
            id=self.item.id,
            type=self.item.issue_type,
            gate=rule.type if rule else None,
            title=self.item.title,
            state=self.standing.state,
            reason=self.standing.text,
            beads=tuple(self.beads),
            command=self.command,
        )

    def to_json(self) -> dict[str, Any]:
        said: dict[str, Any] = json_fields.to_json(self.told)
        return said

    def __str__(self) -> str:
        return f"{self.kind} {self.item.id} ({self.item.title}): {self.standing.text}"


@dataclass(frozen=True)
class Survey:
    """All that the beads of a run wait for."""

    waits: tuple[Wait, ...] = ()
    hopeful: bool = False
    """Whether a bead can start without anybody's doing, when its gates have passed."""
    until: datetime | None = None
    """When the first timer runs out."""

    @property
    def passed(self) -> list[Wait]:
        return [wait for wait in self.waits if wait.standing.state == "passed"]

    @property
    def pending(self) -> list[Wait]:
        """What a run waits for."""
        return [wait for wait in self.waits if wait.standing.state == "waits"]

    @property
    def for_people(self) -> list[Wait]:
        return [wait for wait in self.waits if wait.command is not None]


def rule_of(item: Item) -> GateRule | None:
    """What a gate waits for; None of anything else, and of a gate of a kind that nobody here knows."""
    try:
        return item.gate
    except ValidationError:
        return None


# --- finding out ------------------------------------------------------------------------------------


def strangers(beads: Iterable[Bead], known: Collection[str]) -> set[str]:
    """What they wait for that is no bead that is known."""
    return {name for bead in beads for name in bead.dependencies if name not in known}


def gather(
    store: Store, left: Iterable[Bead], open_beads: Iterable[Bead], closed: Collection[str]
) -> OpenWork:
    """Everything that the beads wait for: themselves, what lies above them, and items before them. `closed`
    need not be looked up."""
    beads = {bead.id: bead for bead in open_beads}
    items: dict[str, Item] = {}
    asked: set[str] = set()
    about = list(left)
    wanted = (strangers(about, beads) | {bead.parent for bead in about if bead.parent}) - set(closed)
    while wanted:
        asked |= wanted
        found = store.items.find(ItemQuery(ids=sorted(wanted)))
        items |= {item.id: item for item in found}
        behind = {name for item in found if item.status != "closed" for name in _behind(item)}
        behind |= {item.parent for item in found if item.parent and item.status != "closed"}
        wanted = behind - asked - set(closed) - beads.keys()
    rest = asked - items.keys()
    others = store.find(Query(ids=sorted(rest))).beads if rest else ()
    beads |= {bead.id: bead for bead in others if bead.status != "closed"}
    return OpenWork(beads, items, frozenset(rest - {bead.id for bead in others}))


def _behind(item: Item) -> list[str]:
    rule = rule_of(item)
    awaited = [rule.await_id] if rule and rule.type == "bead" and rule.await_id else []
    return [*item.dependencies, *awaited]


def unseen(gate: Item) -> Standing:
    """For those who ask nobody outside: what the gate waits for, not how that stands."""
    rule = rule_of(gate)
    return Standing("waits", f"{rule.type} {rule.await_id}; a run looks at it" if rule else "")


@dataclass(frozen=True)
class Overview:
    """What beads wait for besides beads, for those who do nothing about it."""

    survey: Survey = field(default_factory=Survey)
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Bead → what holds it up, with what holds up everything above it."""


def overview(store: Store, left: Sequence[Bead], beads: Iterable[Bead], *, hurried: bool = False) -> Overview:
    """Where beads wait for beads alone, the store is not asked. `beads` are all there are, `left` those it
    is about. In a hurry it is not asked either whether something holds up an epic."""
    everything = list(beads)
    above = not hurried and any(bead.parent for bead in left)
    if not above and not strangers(left, {bead.id for bead in everything}):
        return Overview()
    open_beads = [bead for bead in everything if bead.status != "closed"]
    scene = gather(store, left, open_beads, {bead.id for bead in everything if bead.status == "closed"})
    found = survey(scene, left, unseen)
    passed = {wait.item.id for wait in found.passed}
    needs = {bead.id: [name for name in scene.before(bead) if name not in passed] for bead in left}
    return Overview(found, needs)


# --- judging ----------------------------------------------------------------------------------------


def survey(scene: OpenWork, left: Sequence[Bead], look: Look, now: datetime | None = None) -> Survey:
    """What these beads wait for. `look` is asked about what lies outside."""
    moment = now or datetime.now(UTC)
    held = _held_up(scene, left)
    waits = tuple(
        Wait(scene.items[name], tuple(beads), standing(scene, scene.items[name], look, moment))
        for name, beads in held.items()
    )
    ends = [end for wait in waits if wait.standing.state == "waits" and (end := _end(wait.item)) is not None]
    states = {wait.item.id: wait.standing.state for wait in waits}
    hope = _Hope(scene, {bead.id for bead in left}, states)
    return Survey(waits, any(hope.of_bead(bead) for bead in left), min(ends, default=None))


def _held_up(scene: OpenWork, left: Sequence[Bead]) -> dict[str, list[str]]:
    """Open items → the beads that wait for them, be it behind another item."""
    held: dict[str, list[str]] = {}
    for bead in left:
        for name in _items_before(scene, bead, set()):
            held.setdefault(name, []).append(bead.id)
    return held


def _items_before(scene: OpenWork, thing: Bead | Item, seen: set[str]) -> Iterator[str]:
    for name in scene.before(thing):
        item = scene.items.get(name)
        if item is not None and name not in seen:
            seen.add(name)
            yield name
            yield from _items_before(scene, item, seen)


def standing(scene: OpenWork, item: Item, look: Look, now: datetime) -> Standing:
    """How an open item stands."""
    if item.issue_type in CONTAINERS:
        return Standing("waits", "closes when everything below it is closed")
    if before := scene.before(item):
        return Standing("waits", f"waits for {', '.join(before)}")
    if item.issue_type != GATE:
        who = f", {item.assignee}" if item.assignee else ""
        return Standing("person", f"a person's task{who}")
    rule = rule_of(item)
    if rule is None or rule.type not in ALONE:
        what = f": {rule.await_id}" if rule and rule.await_id else ""
        return Standing("person", f"waits for a person{what}")
    if rule.type == "timer":
        return _timer(item, now)
    return _awaited(scene, rule) if rule.type == "bead" else look(item)


def _timer(item: Item, now: datetime) -> Standing:
    end = _end(item)
    if end is None:
        return Standing("failed", "its timeout cannot be read; write it as 90s, 30m or 1h30m")
    said = utc_text(end)
    return (
        Standing("passed", f"timer ran out at {said}") if now >= end else Standing("waits", f"until {said}")
    )


def _end(item: Item) -> datetime | None:
    """When a timer runs out."""
    rule = rule_of(item)
    seconds = seconds_of(rule.timeout or "") if rule and rule.type == "timer" else None
    if seconds is None or item.created_at is None:
        return None
    try:
        return moment_of(item.created_at) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None


def _awaited(scene: OpenWork, rule: GateRule) -> Standing:
    name = rule.await_id or ""
    if not name or name in scene.gone:
        return Standing("failed", f"there is no bead {name}" if name else "it does not say which bead")
    if not scene.unmet([name]):
        return Standing("passed", f"{name} is closed")
    found = scene.beads.get(name) or scene.items[name]
    if found.status == "blocked":
        return Standing("failed", f"{name} is blocked")
    return Standing("waits", f"{name} is {found.status}")


@dataclass
class _Hope:
    """Whether a bead may start when nothing but time and the world outside go on."""

    scene: OpenWork
    ours: set[str]
    """The beads of the run."""
    states: Mapping[str, str]
    found: dict[str, bool] = field(default_factory=dict)

    def of_bead(self, bead: Bead) -> bool:
        """One that waits for nothing could have been started, and was not."""
        before = self.scene.before(bead)
        return bead.status == "open" and bool(before) and all(map(self.of, before))

    def of(self, name: str) -> bool:
        if name not in self.found:
            self.found[name] = False  # two that wait for one another wait for ever
            self.found[name] = self._of(name)
        return self.found[name]

    def _of(self, name: str) -> bool:
        bead, item = self.scene.beads.get(name), self.scene.items.get(name)
        if bead is not None:
            return name in self.ours and self.of_bead(bead)
        if item is None or item.issue_type != GATE:
            return False
        before = self.scene.before(item)
        if before:
            return (rule_of(item) or _PERSON).type in ALONE and all(map(self.of, before))
        return self.states.get(name) in ("waits", "passed") and self._of_awaited(item)

    def _of_awaited(self, gate: Item) -> bool:
        """A bead of the run closes only here; any other may be closed by somebody else."""
        rule = rule_of(gate)
        awaited = rule.await_id if rule and rule.type == "bead" else None
        return awaited not in self.ours or self.of(awaited or "")


_PERSON: Final = GateRule(type="human")


# --- telling ----------------------------------------------------------------------------------------


def sentence(waits: Sequence[Wait], shown: int = 3) -> str:
    """`2 beads wait for people: human gate x (Release): …`"""
    beads = {bead for wait in waits for bead in wait.beads}
    verb = "waits" if len(beads) == 1 else "wait"
    more = f"; and {len(waits) - shown} more" if len(waits) > shown else ""
    return f"{plural(len(beads), 'bead')} {verb} for {'; '.join(map(str, waits[:shown]))}{more}"

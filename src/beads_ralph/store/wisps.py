"""Wisps as trees: what belongs together, how old it is, and what may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from beads_ralph.bead import graph
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import MOLECULE
from beads_ralph.bead.words import moment_of
from beads_ralph.errors import Code, RalphError
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import UnreadableBead

OLD: Final = timedelta(hours=24)
Wisp = Bead | Item | UnreadableBead


def seen(wisp: Wisp, field: str) -> Any:
    """A field of what may be unreadable."""
    return wisp.raw.get(field) if isinstance(wisp, UnreadableBead) else getattr(wisp, field)


def age(wisp: Wisp, now: datetime) -> timedelta:
    """Since somebody or something last changed it; nothing where the store does not say."""
    texts = [text for field in ("updated_at", "created_at") if isinstance(text := seen(wisp, field), str)]
    try:
        return max(now - max(map(moment_of, texts)), timedelta())
    except ValueError:
        return timedelta()


@dataclass(frozen=True)
class Tree:
    """A wisp that belongs to no other one, and everything below it."""

    root: Wisp
    wisps: tuple[Wisp, ...]

    @property
    def is_molecule(self) -> bool:
        return bool(seen(self.root, "issue_type") == MOLECULE)

    @property
    def ids(self) -> list[str]:
        return [wisp.id for wisp in self.wisps]

    def age(self, now: datetime) -> timedelta:
        """A tree is as young as its youngest part."""
        return min(age(wisp, now) for wisp in self.wisps)

    def why_kept(self, now: datetime, oldest: timedelta) -> str:
        """Why it stays; empty where it may go."""
        working = [wisp.id for wisp in self.wisps if seen(wisp, "status") == "in_progress"]
        if working:
            return f"{working[0]} is in progress"
        return "" if self.age(now) >= oldest else "it was touched lately"


def trees(store: Store) -> list[Tree]:
    """All wisps of a store, by what belongs together."""
    listing, items = store.items.wisps()
    everything: list[Wisp] = [*items, *listing.beads, *listing.unreadable]
    wisps = {wisp.id: wisp for wisp in everything}
    return _trees(wisps, [wisp for wisp in wisps.values() if seen(wisp, "parent") not in wisps])


def _trees(wisps: Mapping[str, Wisp], roots: Sequence[Wisp]) -> list[Tree]:
    below: dict[str, list[str]] = {}
    for wisp in wisps.values():
        below.setdefault(str(seen(wisp, "parent")), []).append(wisp.id)
    return [Tree(root, tuple(wisps[name] for name in graph.reachable([root.id], below))) for root in roots]


def tree_at(found: Sequence[Tree], identity: str) -> Tree:
    """The wisp with that id and everything below it; DATABASE.BEAD_NOT_FOUND where there is none."""
    for tree in found:
        wisps = {wisp.id: wisp for wisp in tree.wisps}
        if identity in wisps:
            return _trees(wisps, [wisps[identity]])[0]
    message = f"there is not a wisp {identity}"
    raise RalphError(Code.BEAD_NOT_FOUND, message, suggested_action="List them: beads-ralph wisp list")

"""What every command says of molecules, epics and convoys that were closed or opened again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from beads_ralph.bead.items import Item
from beads_ralph.bead.names import CONVOY
from beads_ralph.store import convoys
from beads_ralph.store.protocol import Store


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
    closed, reopened = convoys.changed(store, store.items.settle())
    again = (f"○ {item.issue_type} {item.title} is open again" for item in reopened)
    return Settlement(tuple(closed), tuple(reopened), (*ended(store, closed), *again))


def ended(store: Store, closed: Sequence[Item]) -> list[str]:
    """`✓ convoy Launch: all 5 closed`; of a molecule its id, too, since many have the same name."""
    followed = [item for item in closed if item.issue_type == CONVOY]
    rows = [str(progress) for progress in convoys.progress(store, followed)] if followed else []
    others = [item for item in closed if item.issue_type != CONVOY]
    rows += [f"{item.issue_type} {item.id} ({item.title}): all closed" for item in others]
    return [f"✓ {row}" for row in rows]

"""When a molecule, an epic or a convoy is done: as soon as everything in it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from beads_ralph.store.protocol import Settled


@dataclass(frozen=True)
class Container:
    """A container as it is stored: what it holds, and what it waits for itself."""

    id: str
    closed: bool
    members: tuple[str, ...]
    needs: tuple[str, ...] = ()


def settled(containers: Iterable[Container], is_open: Callable[[str], bool]) -> Settled:
    """Which of them to close and which to open again; `is_open` tells of anything that is none of them."""
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
    waiting = [*empty, *(name for name in around if name not in known and is_open(name))]
    found = set(empty)
    while waiting:
        reached = [name for name in around[waiting.pop()] if name not in found]
        found.update(reached)
        waiting += reached
    return found

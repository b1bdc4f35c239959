"""The queues that hosts poll: one for all, one for each set of labels, one for each host by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.names import RUNS_ON

MOST_LABELS: Final = 6
"""A worker polls a queue for every set of its labels."""


def queue_of(base: str, bead: Bead) -> str:
    """The queue of hosts that have all the labels that a bead asks for."""
    return _named(base, [label.removeprefix(RUNS_ON) for label in bead.labels if label.startswith(RUNS_ON)])


def queues_of(base: str, labels: Iterable[str]) -> Sequence[str]:
    """Every queue whose beads a host with these labels can take, the plain one first."""
    own = sorted({label.lower() for label in labels})
    sets = chain.from_iterable(combinations(own, size) for size in range(len(own) + 1))
    return [_named(base, chosen) for chosen in sets]


def own_queue(base: str, host: str) -> str:
    return f"{base}@{host}"


def _named(base: str, labels: Iterable[str]) -> str:
    return "+".join([base, *sorted(set(labels))])

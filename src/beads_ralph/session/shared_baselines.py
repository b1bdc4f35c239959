"""The baselines of a run: beads that start at one commit with the same verifiers have one between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field

from beads_ralph.bead.evidence import Evidence
from beads_ralph.process.opened_files import OpenedFiles


@dataclass(frozen=True)
class Baseline:
    """How the verifiers ended before the work began, and which files they opened."""

    bead: str
    """The one whose session ran them."""
    evidence: tuple[Evidence, ...]
    opened: OpenedFiles

    @property
    def is_shared(self) -> bool:
        """Only what passed as a whole, on files that were watched: of anything else each bead makes sure by
        itself, since a check that is red, slow or cut off may be so by chance."""
        green = all(row.ruling == "pass" and row.kind == "verifier" for row in self.evidence)
        return green and not self.opened.problem


@dataclass
class Baselines:
    """In memory alone, and of one run: no agent can reach them."""

    taken: dict[Hashable, asyncio.Future[Baseline | None]] = field(default_factory=dict)

    async def of(self, asked: Hashable, take: Callable[[], Awaitable[Baseline]]) -> Baseline:
        """The one that was taken for whoever asked the same first, or one of its own."""
        if (first := self.taken.get(asked)) is not None:
            return await asyncio.shield(first) or await take()
        first = self.taken[asked] = asyncio.get_running_loop().create_future()
        found: Baseline | None = None
        try:
            found = await take()
            return found
        finally:
            first.set_result(found if found is not None and found.is_shared else None)
            if found is None:
                del self.taken[asked]

"""The leases of the beads at work, kept while a run lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from beads_ralph.bead.model import Bead
from beads_ralph.errors import RalphError
from beads_ralph.journal.events import WarningGiven
from beads_ralph.loop.run_store import Pool
from beads_ralph.session import Outcome

Running = Mapping[asyncio.Task[Outcome], Bead]


async def keep(pool: Pool, running: Running, lost: set[str], seconds: float) -> None:
    """Until it is cancelled. What another has taken is lost to us, and its agents end."""
    while True:
        await asyncio.sleep(seconds)
        for task, bead in list(running.items()):
            if not await _is_held(pool, bead) and not task.done():
                lost.add(bead.id)
                task.cancel()


async def _is_held(pool: Pool, bead: Bead) -> bool:
    try:
        return await pool.holds(bead)
    except RalphError as error:  # the next beat comes before the lease runs out
        pool.journal.emit(WarningGiven(bead=bead.id, message=f"no heartbeat: {error.message}"))
        return True

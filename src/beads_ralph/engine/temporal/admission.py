"""How much a host takes on: so many sessions, and none while memory or disk is short."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from temporalio.worker import (
    CustomSlotSupplier,
    FixedSizeSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
    WorkerTuner,
)

from beads_ralph.engine.refusal import shortage

LOOK_SECONDS: Final = 0.2
REST_SECONDS: Final = 10.0
"""A host that has refused a bead leaves the next one to others for so long."""


@dataclass
class Admission(CustomSlotSupplier):
    """One for all queues of a host."""

    slots: int
    home: Path
    busy: int = 0
    resting_until: float = 0.0

    def tuner(self) -> WorkerTuner:
        few = FixedSizeSlotSupplier(1)
        return WorkerTuner.create_composite(
            workflow_supplier=few, activity_supplier=self, local_activity_supplier=few, nexus_supplier=few
        )

    def rest(self) -> None:
        self.resting_until = time.monotonic() + REST_SECONDS

    @property
    def has_room(self) -> bool:
        resting = time.monotonic() < self.resting_until
        return self.busy < self.slots and not resting and not shortage(self.home)

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        while not self.has_room:
            await asyncio.sleep(LOOK_SECONDS)
        return SlotPermit()

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        return SlotPermit() if self.has_room else None

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        self.busy += 1

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        if ctx.slot_info is not None:
            self.busy -= 1

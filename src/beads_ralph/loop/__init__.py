"""The loop: ready → claim → start all you may, reap one, repeat; and at the end say why."""

from beads_ralph.loop.health_gates import GATE_IS_RED
from beads_ralph.loop.run_settings import Ended, Scope, Settings, Why, foresee
from beads_ralph.loop.run_store import named
from beads_ralph.loop.scheduler import Loop

__all__ = ["GATE_IS_RED", "Ended", "Loop", "Scope", "Settings", "Why", "foresee", "named"]

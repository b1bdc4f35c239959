"""The loop: ready → claim → start all you may, reap one, repeat; and at the end say why."""

from beads_ralph.loop.gating import GATE_IS_RED
from beads_ralph.loop.pool import named
from beads_ralph.loop.terms import Ended, Scope, Settings, Why, foresee
from beads_ralph.loop.turns import Loop

__all__ = ["GATE_IS_RED", "Ended", "Loop", "Scope", "Settings", "Why", "foresee", "named"]

"""The loop: find what is ready, claim it, start all you may, reap one, repeat; and at the end say why.

It decides what runs when, and writes to the store. How one bead is worked on belongs to `session`.
"""

from beads_ralph.loop.run_end import ENDS, Why
from beads_ralph.loop.run_settings import Ended, Scope, Settings, foresee
from beads_ralph.loop.scheduler import Loop

__all__ = ["ENDS", "Ended", "Loop", "Scope", "Settings", "Why", "foresee"]

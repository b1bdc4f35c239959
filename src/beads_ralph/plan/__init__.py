"""The plan: markdown in, sprints with line numbers out; the law of their numbers; annotate() is the way back.

It knows what a plan says, not what becomes of it: beads are made in `compile`.
"""

from beads_ralph.plan.model import At, Given, Phase, Plan, Pour, Sprint, SprintCheck, Struck
from beads_ralph.plan.parse import annotate, parse

__all__ = ["At", "Given", "Phase", "Plan", "Pour", "Sprint", "SprintCheck", "Struck", "annotate", "parse"]

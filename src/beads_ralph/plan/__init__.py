"""The plan: markdown in, sprints with line numbers out; annotate() is the way back."""

from beads_ralph.plan.annotate import annotate
from beads_ralph.plan.model import At, Given, Phase, Plan, Pour, Sprint, SprintCheck, Struck
from beads_ralph.plan.parse import parse

__all__ = ["At", "Given", "Phase", "Plan", "Pour", "Sprint", "SprintCheck", "Struck", "annotate", "parse"]

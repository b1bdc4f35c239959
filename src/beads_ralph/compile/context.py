"""What a plan says around its sprints: kept with each bead, for those who work on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import PlanContext, RunState
from beads_ralph.compile.molecule import Molecule
from beads_ralph.plan import Plan
from beads_ralph.store.protocol import AnyBead

MOST_INTRODUCTION: Final = 6000
MOST_GOAL: Final = 2000


def with_context(part: AnyBead | Molecule, plan: Plan) -> AnyBead | Molecule:
    """A bead, or each bead of a molecule, with the plan around it; those of the old schema have no place."""
    if isinstance(part, Molecule):
        members = (_told(one, plan) if isinstance(one, Bead) else one for one in part.members)
        return replace(part, members=tuple(members))
    return _told(part, plan) if isinstance(part, Bead) else part


def _told(bead: Bead, plan: Plan) -> Bead:
    context = _context(plan, bead.metadata.phase)
    if context is None:
        return bead
    return bead.model_copy(update={"metadata": bead.metadata.changed(RunState(plan_context=context))})


def _context(plan: Plan, phase: str) -> PlanContext | None:
    """None where the plan says nothing around its sprints; a title alone says nothing."""
    own = next((one for one in plan.phases if one.phase == phase), None)
    introduction = _cut(plan.introduction, MOST_INTRODUCTION)
    if all(line.startswith("#") or not line.strip() for line in introduction.splitlines()):
        introduction = ""
    found = PlanContext(
        introduction=introduction or None,
        phase=(own.title if own else "") or None,
        goal=(_cut(own.goal, MOST_GOAL) if own else "") or None,
    )
    return found if found != PlanContext() else None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()}…"

"""Where a molecule stands: a pour of its own, or a sprint of a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from beads_ralph.bead.model import Bead
from beads_ralph.compile.setting import ID_PREFIX
from beads_ralph.config import PlanDefaults
from beads_ralph.plan import Sprint

DIGITS: Final = 3
"""Instances are counted 001, 002, …, 999, 1000."""
LONGEST: Final = 90
"""So that a formula's name and a step's key both fit into an id."""


@dataclass(frozen=True)
class Place:
    """What the members of a molecule take from around them."""

    root_id: str
    file: str
    """What their metadata names as the plan: the formula's file, or the plan that asked for the pour."""
    number: int = 1
    """Which pour of the formula it is."""
    sprint: Sprint | None = None
    """The sprint of a plan; what it says holds for every step that does not say otherwise."""
    branch: str | None = None
    """The branch of that sprint. A bead alone is worked on there; of several each has its own, with the
    step behind that name."""
    waits: tuple[str, ...] = ()
    """Ids outside that the first steps wait for."""
    branches: Mapping[str, str] = field(default_factory=dict)
    """The branches of beads outside, so that a merge step knows what to merge."""
    defaults: PlanDefaults | None = None
    """The plan's defaults; those of the settings where there is no plan."""
    known: Mapping[str, Bead] = field(default_factory=dict)
    """Step → the bead it has already. It keeps id, branch, worktree and team, as in a plan."""
    line: int | None = None
    label: str = ""
    """How people know this pour among others, such as `row 41`."""


def root_id(formula: str, number: int) -> str:
    """`bd-<formula>-<NNN>`."""
    return f"{ID_PREFIX}-{id_word(formula)}-{number:0{DIGITS}d}"


def member_id(root: str, key: str) -> str:
    return f"{root}-{id_word(key)}"


def id_word(name: str) -> str:
    """A name as part of an id: bd reads meaning into dots, and ids become file names."""
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:LONGEST] or "x"


def number_in(identity: str, formula: str) -> int | None:
    """Which pour of the formula an id or a branch belongs to, None where it is none of its."""
    found = re.search(
        rf"(?:^{ID_PREFIX}-|^|/){re.escape(id_word(formula))}-(\d{{{DIGITS},9}})(?:-|$)", identity
    )
    return int(found[1]) if found else None

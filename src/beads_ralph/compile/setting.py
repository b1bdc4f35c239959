"""The surroundings of a compilation: repository, defaults, moment, place of a molecule."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from beads_ralph.bead import graph
from beads_ralph.bead.legacy import SCRUM_MASTER
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import branch_slug
from beads_ralph.config.model import Config, PlanDefaults
from beads_ralph.errors import Fault, RalphError
from beads_ralph.formula.model import Formula
from beads_ralph.plan import Sprint

DEFAULT_RIG: Final = "beads-ralph"
BRANCH_TEMPLATE: Final = "{source}/{sprint}-{name}"
CLASH_TEMPLATE: Final = "feature/{sprint}-{name}"
SECOND_CLASH_TEMPLATE: Final = "sprint/{sprint}-{name}"
WORKTREE_ROOT: Final = "../{repo}-worktrees"
ID_PREFIX: Final = "bd"


@dataclass(frozen=True)
class KnownMolecule:
    """A sprint's formula as it is poured already: its root, the sprint's branch, and step → bead."""

    root: str
    branch: str | None
    steps: Mapping[str, Bead]


@dataclass(frozen=True)
class Setting:
    """Plain data, so that the same plan in the same setting always gives the same beads."""

    root: Path
    plan_file: str
    now: datetime
    config: Config = field(default_factory=Config)
    branches: frozenset[str] = frozenset()
    checked_out: str | None = None
    """The branch of the main checkout."""
    is_set_up: bool = True
    """False where there are no settings at all."""
    schema: Literal["4.1a", "legacy"] = "4.1a"
    id_suffix: str = ""
    agent_check: bool = True
    warnings: tuple[Fault, ...] = ()
    """Warnings about the settings themselves."""
    known: Mapping[str, Bead] = field(default_factory=dict)
    """Sprint → the bead it has already. It keeps that id, and its branch, worktree and team unless the
    plan names others: a new title must not part a bead from the work done for it."""
    molecules: Mapping[str, KnownMolecule] = field(default_factory=dict)
    """The same of the sprints whose formulas are poured already."""
    taken: frozenset[str] = frozenset()
    """The ids that the plan's beads have already: a new sprint gets another one."""
    checkout: Path | None = None
    """The working tree that we stand in, where that is a worktree beside the main one."""
    formulas: Mapping[str, Formula | RalphError] = field(default_factory=dict)
    """The formulas of the plan by name, or why one cannot be read."""

    @property
    def repo_name(self) -> str:
        return self.root.name

    def branch(self, source: str, sprint: str, title: str, defaults: PlanDefaults) -> str:
        """`<source>/<sprint>-<name>`, or the clash-free form where git could not hold both names."""
        # git cannot hold both a branch `main` and a branch `main/x`.
        second = SECOND_CLASH_TEMPLATE if "feature" in self.branches else CLASH_TEMPLATE
        free = second if source in self.branches else BRANCH_TEMPLATE
        template = free if defaults.branch_template is None else defaults.branch_template
        names = {
            "source": source.replace(".", "-"),
            "sprint": sprint.replace(".", "-"),
            "name": branch_slug(title),
            "repo": self.repo_name,
        }
        return _filled(template, names).rstrip("-/")

    def has_file(self, plan_file: str) -> bool:
        """True where the file of a plan is still where its beads say."""
        return any((place / plan_file).exists() for place in (self.root, self.checkout) if place)

    def is_impossible(self, branch: str) -> bool:
        """`main/x` beside a `main` that was made since: git will not have it, so no work can be there."""
        return any(branch.startswith(f"{other}/") for other in self.branches)

    def known_place(self, sprint: Sprint) -> tuple[str | None, str | None]:
        """The id and the branch that a sprint has already. One that was written out and is poured now, or
        the other way round, has none yet."""
        if sprint.is_poured:
            molecule = self.molecules.get(sprint.id.text)
            return (molecule.root, molecule.branch) if molecule else (None, None)
        bead = self.known.get(sprint.id.text)
        return (bead.id, bead.metadata.branch) if bead else (None, None)

    def worktree(self, branch: str, defaults: PlanDefaults) -> str:
        place = _filled(defaults.worktree_root or WORKTREE_ROOT, {"repo": self.repo_name})
        return self.absolute(f"{place}/{branch}")

    def absolute(self, path: str) -> str:
        # os.path's, since pathlib's raises for a user that does not exist
        return os.path.normpath(self.root / os.path.expanduser(path))  # noqa: PTH111

    def scrum_master(self, defaults: PlanDefaults) -> AgentSpec:
        chosen = defaults.scrum_master
        return chosen or AgentSpec(role="polecat", agent=SCRUM_MASTER, model="sonnet")


def _filled(template: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        template = template.replace("{" + name + "}", value)
    return template


# --- the place of a molecule ------------------------------------------------------------------------


DIGITS: Final = 3
"""Instances are counted 001, 002, …, 999, 1000."""
LONGEST: Final = 90
"""So that a formula's name and a step's key both fit into an id."""


@dataclass(frozen=True)
class Place:
    """Values that the members of a molecule take from around them."""

    root_id: str
    file: str
    """The plan in their metadata: the formula's file, or the plan that asked for the pour."""
    number: int = 1
    """The number of this pour of the formula."""
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
    """A label for people, such as `row 41`."""


def root_id(formula: str, number: int) -> str:
    """`bd-<formula>-<NNN>`."""
    return f"{ID_PREFIX}-{id_word(formula)}-{number:0{DIGITS}d}"


def member_id(root: str, key: str) -> str:
    return f"{root}-{id_word(key)}"


def id_word(name: str) -> str:
    """A name as part of an id: bd reads meaning into dots, and ids become file names."""
    return re.sub(r"[^\w-]+", "-", name).strip("-")[:LONGEST] or "x"


def number_in(identity: str, formula: str) -> int | None:
    """The number of the pour that an id or a branch belongs to; None where it is not this formula's."""
    found = re.search(
        rf"(?:^{ID_PREFIX}-|^|/){re.escape(id_word(formula))}-(\d{{{DIGITS},9}})(?:-|$)", identity
    )
    return int(found[1]) if found else None


# --- beads without checks ---------------------------------------------------------------------------


def without_verifier(beads: Iterable[Bead]) -> list[str]:
    """The ids of those that can be closed on review alone: no verifier is theirs, nor that of a bead whose
    work they carry along, on a branch that they merge or before them on their own."""
    known = {bead.id: bead for bead in beads}
    verified: dict[tuple[str, str], list[Bead]] = {}
    for bead in known.values():
        if bead.metadata.dod:
            verified.setdefault((bead.metadata.plan_file, bead.metadata.branch), []).append(bead)
    edges = {name: bead.dependencies for name, bead in known.items()}
    bare = (bead for bead in known.values() if not bead.metadata.dod)
    return [bead.id for bead in bare if not _carries_verified(bead, verified, edges)]


def _carries_verified(
    bead: Bead, verified: Mapping[tuple[str, str], list[Bead]], edges: Mapping[str, list[str]]
) -> bool:
    place = bead.metadata
    if any((place.plan_file, branch) in verified for branch in place.branches_to_merge or ()):
        return True
    beside = verified.get((place.plan_file, place.branch), ())
    if not beside:
        return False
    before = graph.reachable([bead.id], edges)
    return any(other.status == "closed" or other.id in before for other in beside)

"""What mason knows besides the plan: the repository, the defaults, the moment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from beads_ralph.bead.legacy import SCRUM_MASTER
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.slugs import branch_slug
from beads_ralph.config import Config, PlanDefaults
from beads_ralph.errors import Fault, RalphError
from beads_ralph.formula.model import Formula

DEFAULT_RIG: Final = "beads-ralph"
BRANCH_TEMPLATE: Final = "{source}/{sprint}-{name}"
CLASH_TEMPLATE: Final = "feature/{sprint}-{name}"
SECOND_CLASH_TEMPLATE: Final = "sprint/{sprint}-{name}"
WORKTREE_ROOT: Final = "../{repo}-worktrees"
ID_PREFIX: Final = "bd"


@dataclass(frozen=True)
class KnownMolecule:
    """What a sprint's formula was poured into already: its root, the sprint's branch, and step → bead."""

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
    schema: Literal["4.1a", "legacy"] = "4.1a"
    id_suffix: str = ""
    agent_check: bool = True
    warnings: tuple[Fault, ...] = ()
    """What was odd about the settings themselves."""
    known: Mapping[str, Bead] = field(default_factory=dict)
    """Sprint → the bead it has already. It keeps that id, and its branch, worktree and team unless the
    plan names others: a new title must not part a bead from the work done for it."""
    molecules: Mapping[str, KnownMolecule] = field(default_factory=dict)
    """The same of the sprints whose formulas are poured already."""
    formulas: Mapping[str, Formula | RalphError] = field(default_factory=dict)
    """What the plan may pour, by name; or why it cannot be read."""

    @property
    def repo_name(self) -> str:
        return self.root.name

    def branch(self, source: str, sprint: str, title: str, defaults: PlanDefaults) -> str:
        """`<source>/<sprint>-<name>`, or the clash-free form where git could not hold both names."""
        template = defaults.branch_template
        if template is None:
            template = self._free_template(source)
        names = {
            "source": source.replace(".", "-"),
            "sprint": sprint.replace(".", "-"),
            "name": branch_slug(title),
            "repo": self.repo_name,
        }
        return _filled(template, names).rstrip("-/")

    def _free_template(self, source: str) -> str:
        """git cannot hold both a branch `main` and a branch `main/x`."""
        if source not in self.branches:
            return BRANCH_TEMPLATE
        return SECOND_CLASH_TEMPLATE if "feature" in self.branches else CLASH_TEMPLATE

    def is_impossible(self, branch: str) -> bool:
        """`main/x` beside a `main` that was made since: git will not have it, so no work can be there."""
        return any(branch.startswith(f"{other}/") for other in self.branches)

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

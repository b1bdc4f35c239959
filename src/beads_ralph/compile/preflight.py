"""What a run would refuse of beads and of the repository that they are for.

The list is one for `run`, `run --dry-run`, `plan check` and `doctor`; what only a run needs, and what takes
time to find out, `loop/preflight.py` adds. An obstacle is the run's, and then nothing starts; or it is one
bead's, which is blocked when its turn comes, while the others go on; or it is only worth knowing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beads_ralph.agents import programs
from beads_ralph.agents.players import agents_of, players
from beads_ralph.agents.protocol import AgentCLI, select
from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import persona_name
from beads_ralph.bead.personas import PersonaFiles
from beads_ralph.compile.build import setting_of
from beads_ralph.compile.places import place_faults
from beads_ralph.config.model import Config
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.git import merges, worktree_status

if TYPE_CHECKING:
    from beads_ralph.forge.protocol import Forge

IDENTITY: Final = "Run: git config --global user.name NAME && git config --global user.email ADDRESS"
MORE_SPACE: Final = "Free some space, or lower min_free_gb in beads-ralph.yaml"


@dataclass(frozen=True)
class Obstacle:
    """Something that a run would stumble over."""

    error: RalphError
    bead: str | None = None
    """Whose it is alone; None where it is the run's."""
    remark: bool = False
    """True if it keeps nothing from starting, and a person should know it all the same."""

    @property
    def stops_all(self) -> bool:
        return self.bead is None and not self.remark

    @property
    def faults(self) -> Sequence[Fault]:
        error = self.error
        return error.faults or (Fault(error.code, error.message, suggested_action=error.suggested_action),)

    @property
    def reason(self) -> str:
        """The cause and the next step, for a bead that is blocked by it."""
        return f"{self.error.message} ({self.error.suggested_action})"


@dataclass(frozen=True)
class RunScene:
    """What a run would meet."""

    space: Workspace
    config: Config
    """The settings, with what the command line says instead."""
    beads: Sequence[Bead] = ()
    """Those that would start."""
    agents: Sequence[AgentSpec] = ()
    """Agents that no bead has yet, such as those of the settings."""
    forge: Forge | None = None
    """Where finished branches would go; None where that is not looked at."""
    select: Callable[[str], AgentCLI] = select

    @property
    def root(self) -> Path:
        return self.space.root

    @cached_property
    def personas(self) -> PersonaFiles:
        return PersonaFiles.taken(self.root)


Check = Callable[[RunScene], Iterator[Obstacle]]


# --- the repository -----------------------------------------------------------------------------------


def committer(scene: RunScene) -> Iterator[Obstacle]:
    """An agent that cannot commit has done nothing, and would try three times."""
    if scene.config.agent_home is None and not worktree_status.names_committer(scene.root):
        yield obstacle(Code.GIT_ERROR, "git has no user.name and user.email to commit with", IDENTITY)


def first_commit(scene: RunScene) -> Iterator[Obstacle]:
    yield from raised(lambda: worktree_status.head(scene.root))


def source_branches(scene: RunScene) -> Iterator[Obstacle]:
    if not any(first_commit(scene)):
        for bead, error in merges.without_source(scene.root, scene.beads):
            yield Obstacle(error, bead.id)


def branches_and_worktrees(scene: RunScene) -> Iterator[Obstacle]:
    """Places that git, or a run, would not let a bead have."""
    setting = setting_of(scene.space, scene.root)
    beads = {bead.id: bead for bead in scene.beads}
    for fault in place_faults(beads, setting):
        message = fault.message.removeprefix(f"{fault.owner}: ")
        plan = beads[fault.owner].metadata.plan_file if fault.owner in beads else "PLAN"
        action = f"{fault.action}, then: beads-ralph mason {plan} --update"
        yield obstacle(Code.CONSTRAINT, message, action, bead=fault.owner)


def free_gb(place: Path) -> float:
    return shutil.disk_usage(place).free / 1e9


def free_space(scene: RunScene) -> Iterator[Obstacle]:
    wanted, free = scene.config.min_free_gb, free_gb(scene.root)
    if scene.config.check_before_start and free < wanted:
        yield obstacle(Code.WRITE_FAILED, f"{free:.1f} GB are free, {wanted:g} GB are wanted", MORE_SPACE)


# --- the agents ---------------------------------------------------------------------------------------


def agent_files(scene: RunScene) -> Iterator[Obstacle]:
    for bead in scene.beads:
        for fault in personas.check_agents(bead, scene.root):
            yield obstacle(fault.code, fault.message, fault.suggested_action, bead=bead.id)


def agent_programs(scene: RunScene) -> Iterator[Obstacle]:
    """Of each agent one of its programs must be there; which of them are not is worth knowing."""
    missing = missing_programs(scene)
    absent: dict[str, str] = {}
    for owner, spec in agents_in(scene):
        able = [player.program for player in players(spec, scene)]
        lacking = {program: why for program in able if (why := missing(program, spec))}
        if len(lacking) < len({*able}):
            absent |= lacking
            continue
        first = able[0]
        message = f"agent {persona_name(spec.agent)} cannot run: {'; '.join(lacking.values())}"
        yield obstacle(Code.FILE_NOT_FOUND, message, programs.remedy(first, scene.root), bead=owner)
    for program, why in absent.items():
        message = f"{why}; the next of its agent's programs stands in"
        yield obstacle(Code.FILE_NOT_FOUND, message, programs.remedy(program, scene.root), remark=True)


def agents_in(scene: RunScene) -> Iterator[tuple[str | None, AgentSpec]]:
    """Every agent, and whose it is; agents that are alike count once for each bead."""
    yield from ((None, spec) for spec in scene.agents)
    for bead in scene.beads:
        yield from ((bead.id, spec) for spec in agents_of(bead))


def missing_programs(scene: RunScene) -> Callable[[str, AgentSpec], str]:
    """Why a program cannot be started for an agent. Each place is looked at once."""

    @cache
    def why_not(program: str, search: str | None) -> str:
        built_in = scene.select(program).profile.built_in
        return "" if built_in else programs.why_not(program, scene.root, search)

    return lambda program, spec: why_not(program, (spec.env or {}).get("PATH"))


# --- all of them --------------------------------------------------------------------------------------


OF_THE_PLACE: Final[Mapping[str, Check]] = {
    "identity": committer,
    "commit": first_commit,
    "disk": free_space,
    "agent files": agent_files,
    "source branches": source_branches,
    "branches": branches_and_worktrees,
    "agents": agent_programs,
}
"""By the name that `doctor` shows: what files tell, without a process that takes its time."""
OF_ONE_BEAD: Final = (agent_files, source_branches, branches_and_worktrees, agent_programs)
"""The same, where a fault of one bead keeps no other from starting."""


def obstacle(
    code: Code, message: str, action: str | None = None, *, bead: str | None = None, remark: bool = False
) -> Obstacle:
    return Obstacle(RalphError(code, message, suggested_action=action), bead, remark)


def raised(check: Callable[[], object]) -> Iterator[Obstacle]:
    """What a check raises, as a problem of the run."""
    try:
        check()
    except RalphError as error:
        yield Obstacle(error)

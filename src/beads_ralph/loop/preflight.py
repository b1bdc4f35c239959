"""Everything that a run would refuse, found before the first agent starts.

One list of checks, for `run`, `run --dry-run`, `plan check` and `doctor` alike. A problem is the run's, and
then nothing starts; or it is one bead's, which is blocked when its turn comes, while the others go on; or it
is only worth knowing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from beads_ralph.agents import probe
from beads_ralph.agents.protocol import AgentCLI, select
from beads_ralph.bead import personas
from beads_ralph.bead.model import AgentSpec, Bead
from beads_ralph.bead.names import persona_name
from beads_ralph.bead.run_state import RunState, ScrumResult
from beads_ralph.bead.words import several
from beads_ralph.compile.build import setting_of
from beads_ralph.compile.places import place_faults
from beads_ralph.compile.setting import without_verifier
from beads_ralph.config.model import Config
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import gates
from beads_ralph.errors import Code, Fault, RalphError, gathered
from beads_ralph.files.text_files import RALPH_DIR
from beads_ralph.git import merges, worktree_status
from beads_ralph.loop import blockers
from beads_ralph.loop.run_settings import Scope, foresee
from beads_ralph.session import Outcome, agent_calls, confinement, programs
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import Query

OURS: Final = (CONFIG_NAME, ".gitignore", f"{RALPH_DIR}/", ".beads/")
"""Files that agents need not see, so that it does not matter whether they are committed."""
IDENTITY: Final = "Run: git config --global user.name NAME && git config --global user.email ADDRESS"


@dataclass(frozen=True)
class Problem:
    """Something that a run would stumble over."""

    error: RalphError
    bead: str | None = None
    """Whose it is alone; None where it is the run's."""
    remark: bool = False
    """Whether it keeps nothing from starting, and a person should know it all the same."""

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
class Scene:
    """What a run would meet."""

    space: Workspace
    config: Config
    """The settings, with what the command line says instead."""
    beads: Sequence[Bead] = ()
    """Those that would start."""
    agents: Sequence[AgentSpec] = ()
    """Agents that no bead has yet, such as those of the settings."""
    select: Callable[[str], AgentCLI] = select

    @property
    def root(self) -> Path:
        return self.space.root


Check = Callable[[Scene], Iterator[Problem]]


# --- the repository -----------------------------------------------------------------------------------


def committer(scene: Scene) -> Iterator[Problem]:
    """An agent that cannot commit has done nothing, and would try three times."""
    if scene.config.agent_home is None and not worktree_status.names_committer(scene.root):
        yield _problem(Code.GIT_ERROR, "git knows no user.name and user.email to commit with", IDENTITY)


def first_commit(scene: Scene) -> Iterator[Problem]:
    yield from _raised(lambda: worktree_status.head(scene.root))


def source_branches(scene: Scene) -> Iterator[Problem]:
    if not any(first_commit(scene)):
        yield from _raised(lambda: merges.require_sources(scene.root, scene.beads))


def branches_and_worktrees(scene: Scene) -> Iterator[Problem]:
    """Places that git, or a run, would not let a bead have."""
    setting = setting_of(scene.space, scene.root)
    for fault in place_faults({bead.id: bead for bead in scene.beads}, setting):
        message = fault.message.removeprefix(f"{fault.owner}: ")
        action = f"{fault.action}, then: beads-ralph mason PLAN --update"
        yield _problem(Code.CONSTRAINT, message, action, bead=fault.owner)


def uncommitted_files(scene: Scene) -> Iterator[Problem]:
    """Agents work on what is committed: what is not, they do not see."""
    plans = {bead.metadata.plan_file for bead in scene.beads}
    try:
        files = worktree_status.uncommitted(scene.root)
    except RalphError:  # git takes too long to look at them all
        return
    unseen = [name for name in files if name not in plans and not name.startswith(OURS)]
    if unseen:
        message = f"not committed, so agents do not see it: {several(unseen)}"
        yield _problem(Code.GIT_ERROR, message, "Commit it where the work needs it", remark=True)


def free_space(scene: Scene) -> Iterator[Problem]:
    wanted = scene.config.min_free_gb
    free = shutil.disk_usage(scene.root).free / 1e9
    if scene.config.check_before_start and free < wanted:
        message = f"{free:.1f} GB are free, {wanted:g} GB are wanted"
        yield _problem(
            Code.WRITE_FAILED, message, "Free some space, or lower min_free_gb in beads-ralph.yaml"
        )


# --- the agents ---------------------------------------------------------------------------------------


def agent_settings(scene: Scene) -> Iterator[Problem]:
    """Homes, limits and the sandbox, as they are set."""
    yield from _raised(lambda: confinement.require(scene.config, scene.root))
    yield from _raised(lambda: confinement.refuse_unreachable(scene.config, scene.root, scene.beads))


def agent_files(scene: Scene) -> Iterator[Problem]:
    found = (fault for bead in scene.beads for fault in personas.check_agents(bead, scene.root))
    faults = list({str(fault): fault for fault in found}.values())
    if faults:
        yield Problem(gathered(faults, "the beads"))


def agent_programs(scene: Scene) -> Iterator[Problem]:
    """Of each agent one of its programs must be there; which of them are not is worth knowing."""
    missing = _missing_programs(scene)
    absent: dict[str, str] = {}
    for owner, spec in _agents(scene):
        able = [player.program for player in agent_calls.players(spec, scene)]
        lacking = {program: why for program in able if (why := missing(program, spec))}
        if len(lacking) < len({*able}):
            absent |= lacking
            continue
        first = able[0]
        message = f"agent {persona_name(spec.agent)} cannot run: {'; '.join(lacking.values())}"
        yield _problem(Code.FILE_NOT_FOUND, message, programs.remedy(first, scene.root), bead=owner)
    for program, why in absent.items():
        message = f"{why}; the next of its agent's programs stands in"
        yield _problem(Code.FILE_NOT_FOUND, message, programs.remedy(program, scene.root), remark=True)


def agents_signed_in(scene: Scene) -> Iterator[Problem]:
    """As far as files and variables tell: no program is asked, since that might cost tokens."""
    missing = _missing_programs(scene)
    known = [spec for _, spec in _agents(scene)]
    asked = {player.program: spec for spec in known for player in agent_calls.players(spec, scene)}
    for program, spec in asked.items():
        profile = scene.select(program).profile
        home = confinement.home_of(scene.config, scene.root)
        env = {**os.environ, **({"HOME": str(home)} if home else {}), **(spec.env or {})}
        if not missing(program, spec) and probe.signed_in(profile, env) == "no":
            message = f"{profile.title} seems not to be signed in"
            yield _problem(Code.AGENT_FAILED, message, profile.sign_in, remark=True)


def _agents(scene: Scene) -> Iterator[tuple[str | None, AgentSpec]]:
    """Every agent, and whose it is; agents that are alike count once for each bead."""
    yield from ((None, spec) for spec in scene.agents)
    for bead in scene.beads:
        yield from ((bead.id, spec) for spec in agent_calls.agents_of(bead))


def _missing_programs(scene: Scene) -> Callable[[str, AgentSpec], str]:
    """Why a program cannot be started for an agent. Each place is looked at once."""

    @cache
    def why_not(program: str, search: str | None) -> str:
        built_in = scene.select(program).profile.built_in
        return "" if built_in else programs.why_not(program, scene.root, search)

    return lambda program, spec: why_not(program, (spec.env or {}).get("PATH"))


# --- all of them --------------------------------------------------------------------------------------


CHECKS: Final[Mapping[str, Check]] = {
    "identity": committer,
    "commit": first_commit,
    "agent settings": agent_settings,
    "disk": free_space,
    "agent files": agent_files,
    "source branches": source_branches,
    "branches": branches_and_worktrees,
    "agents": agent_programs,
    "sign-in": agents_signed_in,
    "working tree": uncommitted_files,
}
"""By the name that `doctor` shows."""
OF_ONE_BEAD: Final = (branches_and_worktrees, agent_programs)


def _problem(
    code: Code, message: str, action: str | None = None, *, bead: str | None = None, remark: bool = False
) -> Problem:
    return Problem(RalphError(code, message, suggested_action=action), bead, remark)


def _raised(check: Callable[[], object]) -> Iterator[Problem]:
    """What a check raises, as a problem of the run."""
    try:
        check()
    except RalphError as error:
        yield Problem(error)


# --- a run --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rehearsal:
    """What a run would do, and what it would stumble over."""

    scene: Scene
    waves: list[list[str]]
    waiting: dict[str, str]
    """What would not start, and why."""
    without_verifier: list[str]
    """Those of the waves that would be closed on review alone."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By bead: why it is blocked when its turn comes."""
    remarks: tuple[str, ...] = ()

    @cached_property
    def _passed(self) -> frozenset[str]:
        return frozenset(bead.id for bead in self.scene.beads) - self.refused.keys()

    def refusal(self, bead: Bead) -> Outcome | None:
        """How a bead ends that cannot start here, without an attempt; None where it can. One that could when
        the run began is not looked at again: a program that is just being updated is not missing."""
        if bead.id in self._passed:
            return None
        scene = replace(self.scene, beads=[bead], agents=())
        found = (problem for check in OF_ONE_BEAD for problem in check(scene) if problem.bead)
        if (problem := next(found, None)) is None:
            return None
        attempts = bead.metadata.attempt_count
        said = ScrumResult.made(
            bead_id=bead.id, success=False, attempt_count=attempts, error=problem.reason, fatal=False
        )
        return Outcome("blocked", problem.reason, RunState(scrum_result=said))


def rehearse(
    space: Workspace, config: Config, store: Store, scope: Scope, planned: Sequence[Bead] = ()
) -> Rehearsal:
    """Foresee a run, or raise why there can be none. `planned` are beads as it would put them into the
    store."""
    stage = _Stage.of(store, scope, planned)
    scene = Scene(space, config, stage.starting())
    problems = [problem for found in examine(scene).values() for problem in found]
    _refuse([problem for problem in problems if problem.stops_all])
    refused = {problem.bead: problem for problem in reversed(problems) if problem.bead}
    reasons = {bead_id: problem.reason for bead_id, problem in refused.items()}
    waves, waiting = stage.foresee(reasons)
    if scene.beads and not waves:
        _refuse(list(refused.values()))
    bare = {*without_verifier(stage.beads)}
    reviewed = [bead_id for wave in waves for bead_id in wave if bead_id in bare]
    remarks = tuple(problem.reason for problem in problems if problem.remark)
    return Rehearsal(scene, waves, waiting, reviewed, reasons, remarks)


def examine(scene: Scene) -> dict[str, list[Problem]]:
    """The problems that each check finds."""
    return {name: list(check(scene)) for name, check in CHECKS.items()}


def would_start(store: Store) -> list[Bead]:
    """The beads of the store that a run of all of them would start."""
    return _Stage.of(store, Scope()).starting()


@dataclass(frozen=True)
class _Stage:
    """The beads of a run, and what they wait for."""

    beads: Sequence[Bead]
    scope: Scope
    seen: blockers.Overview

    @classmethod
    def of(cls, store: Store, scope: Scope, planned: Sequence[Bead] = ()) -> _Stage:
        new = {bead.id: bead for bead in planned}
        stored = store.find(Query(wisps=scope.wisps)).beads
        beads = [*new.values(), *(bead for bead in stored if bead.id not in new)]
        left = [bead for bead in beads if bead.status != "closed" and scope.holds(bead)]
        return cls(beads, scope, blockers.overview(store, left, beads))

    def foresee(self, refused: Mapping[str, str] | None = None) -> tuple[list[list[str]], dict[str, str]]:
        return foresee(self.beads, self.scope, self.seen, refused)

    def starting(self) -> list[Bead]:
        """Those of all waves."""
        named = {bead_id for wave in self.foresee()[0] for bead_id in wave}
        return [bead for bead in self.beads if bead.id in named]


def _refuse(problems: Sequence[Problem]) -> None:
    """Raise them as one error; nothing has been started or written by then."""
    if len(problems) == 1:
        raise problems[0].error
    faults = {str(fault): fault for problem in problems for fault in problem.faults}
    if faults:
        raise gathered(list(faults.values()), "what the run would meet")


def waiting_gates(root: Path, store: Store) -> dict[str, str]:
    """The gates that are not green, with what a run does about them."""
    why = "is a gate: a run checks it first, and starts no feature while it is red"
    known = gates.known(root, store.find(Query()).beads, store)
    return {gate.key: why for gate in known if gate.colour != "green"}

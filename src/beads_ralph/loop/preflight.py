"""Before a run starts: everything that it would refuse, and what a person should know."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from beads_ralph.agents import sign_in
from beads_ralph.agents.players import players
from beads_ralph.agents.sign_in import Caller
from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import RunState, ScrumResult
from beads_ralph.bead.words import several
from beads_ralph.compile.preflight import (
    OF_ONE_BEAD,
    OF_THE_PLACE,
    Check,
    Obstacle,
    RunScene,
    agents_in,
    first_commit,
    missing_programs,
    obstacle,
    raised,
)
from beads_ralph.compile.setting import without_verifier
from beads_ralph.config.model import Config
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import gates
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.files.text_files import RALPH_DIR
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Forge
from beads_ralph.git import commands, large_files, merges, submodules, worktree_status
from beads_ralph.loop import blockers
from beads_ralph.loop.budget import budgets_bind
from beads_ralph.loop.run_settings import Scope, foresee
from beads_ralph.prompts import PromptFiles
from beads_ralph.session import Outcome, confinement
from beads_ralph.store.protocol import Store
from beads_ralph.store.query import Query

OURS: Final = (CONFIG_NAME, ".gitignore", f"{RALPH_DIR}/", ".beads/")
"""Files that agents need not see, so that it does not matter whether they are committed."""


def uncommitted_files(scene: RunScene) -> Iterator[Obstacle]:
    """Agents work on what is committed: what is not, they do not see."""
    plans = {bead.metadata.plan_file for bead in scene.beads}
    try:
        files = worktree_status.uncommitted(scene.root)
    except RalphError:  # git takes too long to look at them all
        return
    unseen = [name for name in files if name not in plans and not name.startswith(OURS)]
    if unseen:
        message = f"not committed, so agents do not see it: {several(unseen)}"
        yield obstacle(Code.GIT_ERROR, message, "Commit it where the work needs it", remark=True)


def agent_settings(scene: RunScene) -> Iterator[Obstacle]:
    """Prompts, homes, limits and the sandbox, as they are set."""
    yield from raised(lambda: PromptFiles.taken(scene.root))
    yield from raised(lambda: confinement.require(scene.config, scene.root))
    yield from raised(lambda: confinement.refuse_unreachable(scene.config, scene.root, scene.beads))


def agents_signed_in(scene: RunScene) -> Iterator[Obstacle]:
    """As far as files and variables tell: no program is asked, since that might cost tokens."""
    missing = missing_programs(scene)
    known = [spec for _, spec in agents_in(scene)]
    asked = {player.program: player.spec for spec in known for player in players(spec, scene)}
    for program, spec in asked.items():
        cli = scene.select(program)
        home = confinement.home_of(scene.config, scene.root)
        found = sign_in.look(cli.name, Caller.of(spec, cli.profile, scene.config.agent_env, home))
        if not missing(program, spec) and found.found == "no":
            message = f"{cli.profile.title} seems not to be signed in"
            yield obstacle(Code.AGENT_FAILED, message, found.action, remark=True)


def submodules_at_hand(scene: RunScene) -> Iterator[Obstacle]:
    """Every worktree gets those of its commit: from here, or from where they come from."""
    unreachable = _unreachable(scene)
    near = [scene.root / ".git" / "modules"]
    for commit, beads in _starting_points(scene).items():
        for one in submodules.at(scene.root, commit):
            if submodules.nearest(one, near) is None and unreachable(one.url):
                message = f"the submodule {one.path} is neither here nor available from {one.url}"
                action = f"Fetch it: git submodule update --init {one.path}"
                yield from (obstacle(Code.GIT_ERROR, message, action, bead=bead.id) for bead in beads)


def _unreachable(scene: RunScene) -> Callable[[str], bool]:
    """Whether a repository cannot be fetched from its address. Each is asked for once."""
    network = Network.of(scene.config)

    @cache
    def asked(url: str) -> bool:
        words = ("ls-remote", "--quiet", "--", url, "HEAD")
        return not commands.run(*words, cwd=scene.root, timeout=network.timeout).ok

    return asked


def _starting_points(scene: RunScene) -> dict[str, list[Bead]]:
    """By commit: the beads that start there. Not those whose source is still to be made."""
    known = merges.find_branches(scene.root, [bead.metadata.source_branch for bead in scene.beads])
    found: dict[str, list[Bead]] = {}
    for bead in scene.beads:
        if source := known.get(bead.metadata.source_branch):
            found.setdefault(source.commit, []).append(bead)
    return found


def large_files_at_hand(scene: RunScene) -> Iterator[Obstacle]:
    """Without git-lfs a worktree has, in place of each large file, a few lines that name it."""
    needing = [commit for commit in _starting_points(scene) if large_files.are_named(scene.root, commit)]
    if needing and not large_files.are_served(scene.root):
        message = "git-lfs keeps files of this repository, and is not set up here: agents would not see them"
        yield obstacle(Code.GIT_ERROR, message, "Install git-lfs, then run: git lfs install", remark=True)


def push_target(scene: RunScene) -> Iterator[Obstacle]:
    """Work that nobody can be given is paid for all the same."""
    if scene.forge is not None and scene.beads and not any(first_commit(scene)):
        yield from raised(scene.forge.require_target)


CHECKS: Final[Mapping[str, Check]] = {
    **OF_THE_PLACE,
    "agent settings": agent_settings,
    "budget": budgets_bind,
    "submodules": submodules_at_hand,
    "large files": large_files_at_hand,
    "push": push_target,
    "sign-in": agents_signed_in,
    "working tree": uncommitted_files,
}
"""By the name that `doctor` shows."""


# --- a run --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DryRun:
    """What a run would do, and what it would stumble over."""

    scene: RunScene
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
        checks = (*OF_ONE_BEAD, submodules_at_hand, budgets_bind)
        found = (problem for check in checks for problem in check(scene) if problem.bead)
        if (problem := next(found, None)) is None:
            return None
        attempts = bead.metadata.attempt_count
        said = ScrumResult.made(
            bead_id=bead.id, success=False, attempt_count=attempts, error=problem.reason, fatal=False
        )
        return Outcome("blocked", problem.reason, RunState(scrum_result=said))


def rehearse(
    space: Workspace,
    config: Config,
    store: Store,
    scope: Scope,
    planned: Sequence[Bead] = (),
    forge: Forge | None = None,
) -> DryRun:
    """Foresee a run, or raise why there can be none. `planned` are beads as it would put them into the
    store."""
    ahead = _Ahead.of(store, scope, planned)
    scene = RunScene(space, config, ahead.starting(), forge=forge)
    problems = [problem for found in examine(scene).values() for problem in found]
    _refuse([problem for problem in problems if problem.stops_all])
    refused: dict[str, Obstacle] = {}
    for problem in problems:
        if problem.bead:
            refused.setdefault(problem.bead, problem)
    reasons = {bead_id: problem.reason for bead_id, problem in refused.items()}
    waves, waiting = ahead.foresee(reasons)
    if scene.beads and not waves:
        _refuse(list(refused.values()))
    bare = {*without_verifier(ahead.beads)}
    reviewed = [bead_id for wave in waves for bead_id in wave if bead_id in bare]
    remarks = tuple(problem.reason for problem in problems if problem.remark)
    return DryRun(scene, waves, waiting, reviewed, reasons, remarks)


def examine(scene: RunScene) -> dict[str, list[Obstacle]]:
    """By the name of each check: what it finds. They are made side by side: most of them wait for git."""
    with ThreadPoolExecutor(len(CHECKS)) as pool:
        found = pool.map(lambda check: list(check(scene)), CHECKS.values())
        return dict(zip(CHECKS, found, strict=True))


def would_start(store: Store) -> list[Bead]:
    """The beads of the store that a run of all of them would start."""
    return _Ahead.of(store, Scope()).starting()


@dataclass(frozen=True)
class _Ahead:
    """The beads of a run, and what they wait for."""

    beads: Sequence[Bead]
    scope: Scope
    seen: blockers.Overview

    @classmethod
    def of(cls, store: Store, scope: Scope, planned: Sequence[Bead] = ()) -> _Ahead:
        new = {bead.id: bead for bead in planned}
        stored = store.find(scope.query(wisps=scope.wisps)).beads
        beads = [*new.values(), *(bead for bead in stored if bead.id not in new)]
        left = [bead for bead in beads if bead.status != "closed" and scope.holds(bead)]
        return cls(beads, scope, blockers.overview(store, left, beads))

    def foresee(self, refused: Mapping[str, str] | None = None) -> tuple[list[list[str]], dict[str, str]]:
        return foresee(self.beads, self.scope, self.seen, refused)

    def starting(self) -> list[Bead]:
        """Those of all waves."""
        named = {bead_id for wave in self.foresee()[0] for bead_id in wave}
        return [bead for bead in self.beads if bead.id in named]


def _refuse(problems: Sequence[Obstacle]) -> None:
    """Raise them as one error, each with the beads that it is about; nothing has been started or written by
    then."""
    if len({problem.error.message for problem in problems}) == 1:
        raise _named(problems)[0]
    faults = [fault for error in _named(problems) for fault in Obstacle(error).faults]
    if faults:
        raise gathered(faults, "what the run would meet")


def _named(problems: Sequence[Obstacle]) -> list[RalphError]:
    """Each error once. Its message ends with the beads that have it, where they are not all."""
    whose: dict[str, list[str]] = {}
    errors = {problem.error.message: problem.error for problem in problems}
    for problem in problems:
        whose.setdefault(problem.error.message, []).extend([problem.bead] if problem.bead else [])
    return [_about(error, whose[message]) for message, error in errors.items()]


def _about(error: RalphError, beads: Sequence[str]) -> RalphError:
    if not beads:
        return error
    message = f"{error.message} ({several(beads)})"
    return RalphError(error.code, message, suggested_action=error.suggested_action)


def named(store: Store, ids: Collection[str]) -> Sequence[Bead]:
    """The beads asked for by name; each must exist."""
    found = store.find(Query(ids=list(ids))).beads if ids else ()
    missing = sorted(set(ids) - {bead.id for bead in found})
    if missing:
        raise RalphError(Code.BEAD_NOT_FOUND, f"no such bead: {', '.join(missing)}")
    return found


def waiting_gates(root: Path, store: Store) -> dict[str, str]:
    """The gates that are not green, with what a run does about them."""
    why = "is a gate: a run checks it first, and starts no feature while it is red"
    known = gates.known(root, store.find(Query()).beads, store)
    return {gate.key: why for gate in known if gate.colour != "green"}

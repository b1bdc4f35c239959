"""Plan a run: the plan is compiled, the store is brought to it, and what would happen is foreseen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from beads_ralph import forge
from beads_ralph.app.parts import forge_of
from beads_ralph.app.request import RunRequest
from beads_ralph.app.running import PlannedRun
from beads_ralph.bead.model import MODELS, is_player
from beads_ralph.bead.usage import Budget
from beads_ralph.compile import diff
from beads_ralph.compile.reconcile import Reconciled, Settle, preferring, reconcile, refuse_changes
from beads_ralph.config import workspace
from beads_ralph.config.model import AgentDefaults, Config
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.protocol import PushTarget
from beads_ralph.forge.push_answers import PushAnswers
from beads_ralph.git import commands
from beads_ralph.journal import runs
from beads_ralph.loop import Scope, Settings, preflight
from beads_ralph.process import reaper
from beads_ralph.store import convoys
from beads_ralph.store.protocol import Progress, Store, silent
from beads_ralph.store.registry import open_store

AskPush = Callable[[PushTarget], bool | None]


def plan_run(
    request: RunRequest,
    start: Path | None = None,
    progress: Progress = silent,
    settle: Settle = diff.refuse_conflicts,
    tell: Callable[[diff.Diff], None] = lambda _: None,
    ask_push: AskPush | None = None,
) -> PlannedRun:
    """Compile the plan where there is one, bring the store to it, and say what the run is about. `settle`
    answers where both the plan and a person have changed something; `tell` hears what differs. `ask_push`
    is asked once for each remote whether branches may be pushed there; None is no answer."""
    space = workspace.find(start, config_file=request.config)
    if space.repository is None:
        raise commands.no_repository(space.root)
    if not request.dry_run and (request.executor or space.config.executor) == "local":
        reaper.prepare()
    scope = _scope(space, request)
    plan: Reconciled | None = None
    if request.plan is not None:
        # an agent file that is missing is a fault of its beads alone, which the rehearsal finds
        plan = reconcile(
            space, request.plan, lambda: open_store(space, request.store).store, agent_check=False
        )
        plan = _decided(plan, request, space, settle)
    planned = plan.beads if plan else ()
    opened = open_store(space, request.store)
    found = preflight.named(opened.store, request.beads - {bead.id for bead in planned})
    # A wisp that is asked for by name is asked for.
    scope = replace(scope, wisps=scope.wisps or any(bead.ephemeral for bead in found))
    config = _with_push(_config(space, request), space, None if request.dry_run else ask_push)
    chosen = forge_of(space.root, config)
    foreseen = preflight.rehearse(space, config, opened.store, scope, planned, chosen)
    if plan is not None:
        tell(plan.diff)
        if not request.dry_run:
            plan.apply(progress)
    return PlannedRun(request, space, opened, scope, planned, _settings(space, request), foreseen)


def _decided(plan: Reconciled, request: RunRequest, space: Workspace, settle: Settle) -> Reconciled:
    """The differences between the plan and the store as they are to be applied, or a refusal."""
    if (request.plan_changes or space.config.plan_changes) == "refuse":
        plan = plan.settled(refuse_changes)
    return plan.settled(preferring(request.prefer) if request.prefer else settle)


def _config(space: Workspace, request: RunRequest) -> Config:
    """The settings, with what the request says instead."""
    push = {None: None, True: "yes", False: "no"}[request.push]
    said = {"engine": request.engine, "executor": request.executor, "forge": request.forge, "push": push}
    agents = {"agent_defaults": _agents(space.config.agent_defaults, request)}
    return space.config.model_copy(update={key: value for key, value in said.items() if value} | agents)


def _agents(defaults: AgentDefaults, request: RunRequest) -> AgentDefaults:
    """Who plays the agents, as the request says it."""
    if not (request.agent or request.model):
        return defaults
    program = request.agent or defaults.override_executable or ""
    pair = ":".join(filter(None, (program, request.model)))
    if program and not is_player(pair):
        message = f"{pair!r} names no program and model"
        action = f"Say --agent PROGRAM --model MODEL; models of claude are {', '.join(MODELS)}"
        raise RalphError(Code.USAGE, message, suggested_action=action)
    changes = {"override_executable": request.agent, "override_model": request.model}
    return defaults.model_copy(update={key: value for key, value in changes.items() if value})


def _with_push(config: Config, space: Workspace, ask: AskPush | None) -> Config:
    """The settings with a person's answer in place of `push: ask`; without one they stay as they are."""
    target = forge.origin(space.root) if config.push == "ask" and config.forge != "none" else None
    if target is None:
        return config
    kept = PushAnswers(space.home)
    said = kept.read(target.url)
    if said is None and ask is not None and (answer := ask(target)) is not None:
        said = "yes" if answer else "no"
        kept.write(target.url, said)
    return config if said is None else config.model_copy(update={"push": said})


def _scope(space: Workspace, request: RunRequest) -> Scope:
    """What the run is about, as far as the request says it."""
    beads = request.beads
    if request.convoys:
        store = open_store(space, request.store).store
        beads = beads.union(*(_beads_of(store, name) for name in request.convoys))
    plan_file = space.relative(request.plan) if request.plan else None
    return Scope(beads, request.teams, plan_file, request.wisps, request.convoys)


def _beads_of(store: Store, name: str) -> frozenset[str]:
    convoy = convoys.named(store, name)
    if beads := convoys.beads_of(store, convoy):
        return beads
    action = f"Add some: beads-ralph convoy add {convoy.id} ID…"
    raise RalphError(Code.CONFLICT, f"the convoy {convoy.title} follows no beads", suggested_action=action)


def _settings(space: Workspace, request: RunRequest) -> Settings:
    config, run_id = space.config, runs.new_run_id()
    return Settings(
        run_id=run_id,
        actor=runs.actor_name(space.root, run_id),
        max_parallel=request.max_parallel or config.max_parallel_sessions,
        once=request.once,
        stop_on_failure=request.stop_on_failure,
        force_gates=request.force_gates,
        poll_seconds=config.poll_interval,
        budget=Budget(config.budget_minutes, config.budget_usd, config.budget_tokens),
    )

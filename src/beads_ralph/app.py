"""The composition root: builds a run, an execution, a check of gates or a question from the settings.

Here and nowhere else a store, a forge, an executor, the agents, a journal and the signals come together.
Commands call this and print; a script may do the same (`import beads_ralph`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from beads_ralph import forge
from beads_ralph.agents import players, probe
from beads_ralph.agents.environment import passed_on
from beads_ralph.agents.protocol import select
from beads_ralph.bead import redaction
from beads_ralph.bead.model import Bead
from beads_ralph.bead.usage import Budget
from beads_ralph.compile import diff
from beads_ralph.compile.plan_watch import PlanWatch
from beads_ralph.compile.reconcile import Reconciled, Settle, preferring, reconcile, refuse_changes
from beads_ralph.config import workspace
from beads_ralph.config.model import Config
from beads_ralph.config.settings_file import StoreChoice, settings_file
from beads_ralph.config.workspace import Workspace
from beads_ralph.dod import execute, gates
from beads_ralph.dod.file_session import Desk, Done
from beads_ralph.dod.files import BeadFile
from beads_ralph.dod.gates import Gate
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import disk, scratch, text_files
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.forge.adapters.github import GitHubGates
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import Forge, PushTarget
from beads_ralph.forge.push_answers import PushAnswers
from beads_ralph.git import commands, proofs, settings, worktree_removal
from beads_ralph.journal import diagnosis, runs
from beads_ralph.journal.events import GatesOverridden, StraysEnded, WarningGiven
from beads_ralph.journal.journal import Journal, read
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.keeper import Keeper
from beads_ralph.loop import Ended, Loop, Scope, Settings, named, preflight
from beads_ralph.loop.known_beads import Known, neighbours
from beads_ralph.process import executors, process_tree
from beads_ralph.process.calls import Retry, in_thread, run_until_ended
from beads_ralph.process.jobs import RUN_ID, Executor
from beads_ralph.process.sandbox import Sandboxed
from beads_ralph.session import (
    Order,
    Tools,
    agent_calls,
    confinement,
    in_process,
    past_sessions,
    verifier_world,
)
from beads_ralph.session.past_sessions import Heard, Talk
from beads_ralph.session.preview import PromptRole, Shown, shown
from beads_ralph.session.program_limits import ProgramLimits
from beads_ralph.session.run_inputs import RunInputs
from beads_ralph.session.verify import Bench
from beads_ralph.store import convoys
from beads_ralph.store.people import PersonsItem, peoples_items
from beads_ralph.store.protocol import Progress, Store, silent
from beads_ralph.store.query import Query
from beads_ralph.store.registry import OpenStore, open_store

SPARE_THREADS = 8

# --- a run ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked to do; None where the settings say it."""

    plan: Path | None = None
    max_parallel: int | None = None
    teams: frozenset[str] = frozenset()
    beads: frozenset[str] = frozenset()
    convoys: tuple[str, ...] = ()
    wisps: bool = False
    once: bool = False
    dry_run: bool = False
    stop_on_failure: bool = False
    force_gates: bool = False
    plan_changes: Literal["apply", "refuse"] | None = None
    """What becomes of a plan that was edited since it was compiled."""
    prefer: diff.Choice | None = None
    """Whose value counts where both the plan and a person have changed it."""
    watch_plan: bool | None = None
    """Whether edits of the plan are taken up while the run is on; None: where agents cannot write to it."""
    push: bool | None = None
    """Whether finished branches are pushed in this run, whatever was said before."""
    executor: str | None = None
    forge: str | None = None
    store: StoreChoice | None = None
    config: Path | None = None


@dataclass(frozen=True)
class PlannedRun:
    """A run that could start: its plan is compiled, its store is open."""

    request: RunRequest
    space: Workspace
    opened: OpenStore
    scope: Scope
    planned: Sequence[Bead]
    settings: Settings
    foreseen: preflight.DryRun
    """What it would do, and what it would stumble over."""

    def rehearse(self) -> preflight.DryRun:
        """The waves that would start, and why the others would not."""
        red = preflight.waiting_gates(self.space.root, self.opened.store)
        return replace(self.foreseen, waiting={**self.foreseen.waiting, **red})

    def peoples_items(self) -> list[PersonsItem]:
        """The open steps of people in the scope of the run: who names beads or teams asks for these alone."""
        scope = self.scope
        if scope.beads or scope.teams:
            return []
        return peoples_items(self.opened.store, only_open=True, plan_file=scope.plan_file, wisps=scope.wisps)

    def start(self, watch: Watch = lambda _: nullcontext(), note: Progress = silent) -> Ended:
        """Run until it ends. `watch` gets the journal before the first event; `note` is told beforehand
        what a person should know."""
        beads = self.foreseen.scene.beads
        config, root, run_id = self.space.config, self.space.root, self.settings.run_id
        full = disk.named(root, self.space.home, self.space.state)
        with full, diagnosis.logged(config.logging, root), _alone(self.space, run_id) as (folder, journal):
            inputs = RunInputs.taken(root, self.space.home, self._named_files)
            tools = replace(tools_at(root, self.config, folder), inputs=inputs)
            for text in (self.push_line, *(f"note: {remark}" for remark in self.foreseen.remarks)):
                if text:
                    note(text)
            _tell_permissions(beads, tools, note)
            keeper = Keeper(StateFolder(self.space.state), root, run_id)
            killed = [list(read(left.journal)) for left in runs.left_unfinished(folder.home, run_id)]
            with runs.unfinished(folder), keeper.listening(journal, killed), watch(journal):
                how = (self.settings, self.scope, in_process(tools), GitHubGates(root, Network.of(config)))
                for told in (inputs.since_last_run(), *confinement.sandbox_gaps(self.config, root)):
                    if told:
                        _warn(journal, told)
                loop = Loop(self.opened.store, tools, journal, *how)
                loop.open_ends = self._beside_plan
                loop.closing_remarks = lambda: tuple(filter(None, [inputs.end()]))
                loop.refusal = self.foreseen.refusal
                if self.request.plan is not None and self.watches_plan:
                    tell = partial(_warn, journal)
                    loop.edits = PlanWatch(self.space, self.request.plan, self.opened.store, tell).take_up
                return asyncio.run(_supervised(loop, _programs(beads, tools)))

    @property
    def _named_files(self) -> list[Path]:
        """The settings and the plan, wherever they lie; not a plan whose edits are taken up."""
        said = settings_file(self.space.root, self.request.config)
        plan = None if self.watches_plan else self.request.plan
        return [path.absolute() for path in (said and said.path, plan) if path is not None]

    @property
    def watches_plan(self) -> bool:
        """Whether edits of the plan are taken up while the run is on. An agent that is not sandboxed could
        write to it, and nobody would know whose word it is."""
        if self.request.watch_plan is not None:
            return self.request.watch_plan
        applies = (self.request.plan_changes or self.space.config.plan_changes) == "apply"
        return applies and self.sandbox != "none"

    def _beside_plan(self) -> list[Fault]:
        """A run of a plan is done when the store has all that the plan says, as it is by then."""
        if self.request.plan is None:
            return []
        try:
            return self.at_end.diff.open_ends()
        except RalphError as error:
            return [*error.faults] or [Fault(error.code, error.message)]

    @cached_property
    def at_end(self) -> Reconciled:
        """The plan and the store, met once more when the work is over."""
        assert self.request.plan is not None  # noqa: S101 - for the type checker
        return reconcile(self.space, self.request.plan, lambda: self.opened.store, agent_check=False)

    @property
    def sandbox(self) -> str:
        """What agents and checks are sandboxed with here; `none` for nothing."""
        closed_in = confinement.sandbox_of(self.space.config, self.space.root)
        return closed_in.kind if closed_in else "none"

    @property
    def config(self) -> Config:
        """The settings, with what was said instead."""
        return self.foreseen.scene.config

    @property
    def push_target(self) -> PushTarget | None:
        chosen = self.foreseen.scene.forge
        return chosen.push_target() if chosen else None

    @property
    def push_line(self) -> str:
        """What becomes of finished branches, where there is a remote that could have them."""
        if target := self.push_target:
            return f"pushes bead branches to {target}"
        there = forge.origin(self.space.root) if self.config.push == "ask" else None
        return f"pushes nothing; push: yes in beads-ralph.yaml would push to {there}" if there else ""


def _warn(journal: Journal, message: str) -> None:
    journal.emit(WarningGiven(message=message))


Watch = Callable[[Journal], AbstractContextManager[object]]
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
    found = named(opened.store, request.beads - {bead.id for bead in planned})
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
    said = {"executor": request.executor, "forge": request.forge, "push": push}
    return space.config.model_copy(update={key: value for key, value in said.items() if value})


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


@contextmanager
def _alone(space: Workspace, run_id: str) -> Iterator[tuple[runs.RunFolder, Journal]]:
    """The only loop on this repository; what a killed one left running and lying about is ended first."""
    home = ralph_dir(space.root)
    with runs.exclusive(home, run_id):
        text_files.tighten(home)
        StateFolder(space.state).tighten()
        runs.order(home, None)
        swept = _sweep(home) + _sweep(_asks_home(space))
        worktree_removal.prune(space.root)
        scratch.sweep()
        for place, deep in ((space.root, False), (home, True), (space.state, True)):
            text_files.sweep(place, deep=deep)
        with _recorded(home, run_id) as (folder, journal), settings.until_done(space.root):
            if swept:
                journal.emit(StraysEnded(pids=tuple(swept)))
            yield folder, journal


@contextmanager
def _recorded(home: Path, run_id: str) -> Iterator[tuple[runs.RunFolder, Journal]]:
    """A folder for what is run now, and its journal."""
    folder = runs.RunFolder(home, run_id)
    with closing(Journal(folder.journal, run_id)) as journal:
        yield folder, journal


def _sweep(home: Path) -> list[int]:
    """End what killed runs left running. A mark is set when it is done: this, too, may be cut short."""
    ended: list[int] = []
    for left in runs.unswept(home):
        ended += process_tree.sweep(RUN_ID, left.run_id)
        runs.mark_swept(left)
    return ended


def _tell_permissions(beads: Sequence[Bead], tools: Tools, note: Progress) -> None:
    """Nobody should have to look for it that nobody is asked."""
    found = {one for bead in beads for one in agent_calls.unasked(bead, tools)}
    for program, said in sorted(found):
        key = "default_options" if said == agent_calls.SKIP else "program_options"
        note(
            f"note: {program} runs with {said}: its agents may do whatever you may. "
            f"agent_defaults.{key} in beads-ralph.yaml changes that."
        )


def _programs(beads: Sequence[Bead], tools: Tools) -> set[str]:
    """Everything that may play an agent in this run."""
    keys = {key for bead in beads for agent in players.of_bead(bead, tools) for key in agent}
    return {key.partition(":")[0] for key in keys}


async def _supervised(loop: Loop, programs: Iterable[str]) -> Ended:
    """First Ctrl-C: finish what runs. Second, or the terminal is closed: end it."""

    def interrupted() -> None:
        if loop.interrupted:
            loop.cancel()
        else:
            loop.drain("interrupted", "interrupted")
            loop.interrupted = True

    running = asyncio.get_running_loop()
    # A bead waits for git or the store in a thread, and no bead should wait for another one's.
    running.set_default_executor(ThreadPoolExecutor(2 * loop.settings.max_parallel + SPARE_THREADS))
    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, interrupted)
    _on((signal.SIGHUP,), loop.cancel)
    versions = asyncio.create_task(_warn_of_versions(programs, loop.journal))
    try:
        return await loop.run()
    finally:
        versions.cancel()


def _on(numbers: Iterable[signal.Signals], handler: Callable[[], object]) -> None:
    """Handle these signals, except those that are ignored, as nohup has it."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, handler)


async def _warn_of_versions(programs: Iterable[str], journal: Journal) -> None:
    """While the first agents work: some programs take a second to say their version."""
    for program in sorted(programs):
        cli = select(program)
        if cli.profile.tested:  # nobody knows what a program of the user's own does with --version
            found = await in_thread(probe.look_at, cli, program)
            if found.untested:
                journal.emit(WarningGiven(message=found.untested))


# --- the parts --------------------------------------------------------------------------------------


def tools_at(root: Path, config: Config, folder: runs.RunFolder) -> Tools:
    """What sessions work with in the repository at `root`, with git's settings as they are now."""
    redaction.know(os.environ, config.agent_env, root)
    settings.take(root).moves = config.source_moves
    proofs.at(root).tidy()
    executor, environment = _executor(root, config), _environment(config, folder)
    world = _world(root, config, executor, environment)
    return Tools(
        root,
        config,
        executor,
        folder,
        environment,
        select,
        forge_of(root, config),
        world=world,
        ports=confinement.ports_of(config),
    )


def forge_of(root: Path, config: Config) -> Forge:
    """The forge that the settings ask for, which pushes where they allow it."""
    return forge.choose(config.forge, root, network=Network.of(config), push=config.push)


def _executor(root: Path, config: Config) -> Executor:
    """The executor and the sandbox that the settings ask for."""
    return executors.choose(config.executor, confinement.sandbox_of(config, root))


def _world(
    root: Path, config: Config, executor: Executor, environment: Mapping[str, str]
) -> verifier_world.VerifierWorld:
    """The machine as checks find it, as it is now."""
    closed_in = executor.sandbox if isinstance(executor, Sandboxed) else None
    return verifier_world.begin(root, config, environment, closed_in)


def _environment(config: Config, folder: runs.RunFolder) -> dict[str, str]:
    """What checks and setup inherit."""
    return {**passed_on(os.environ, config.agent_env), RUN_ID: folder.run_id}


# --- a question -------------------------------------------------------------------------------------


def _asks_home(space: Workspace) -> Path:
    """Where `ask` keeps what agents answered: apart from the runs, of which status shows the last."""
    return ralph_dir(space.root) / "asks"


def ask(space: Workspace, bead: Bead, talk: Talk, question: str) -> Heard:
    """Take an agent's recorded session up again with a question."""
    confinement.require(space.config, space.root)
    home = _asks_home(space)
    _sweep(home)
    config = space.config.model_copy(update={"executor": "local", "forge": "none"})
    with _recorded(home, runs.new_run_id()) as (folder, journal), settings.until_done(space.root):
        try:
            tools = tools_at(space.root, config, folder)
            return run_until_ended(past_sessions.ask_afterwards(bead, talk, question, tools, journal))
        finally:
            runs.mark_swept(folder)


def preview(space: Workspace, store: Store, bead_id: str, role: PromptRole, number: int) -> Shown:
    """What an agent of the bead would be told now."""
    bead = store.show(bead_id)
    known = {one.id: Known.of(one) for one in store.find(Query(wisps=True)).beads}
    branches = [known[name].branch for name in bead.dependencies if name in known]
    others = neighbours(bead, known)
    run_id = runs.new_run_id()
    tools = Tools(
        space.root,
        space.config,
        executors.choose("local", None),
        runs.RunFolder(_asks_home(space), run_id),
        {},
        select,
        forge_of(space.root, space.config.model_copy(update={"forge": "none"})),
    )
    order = Order(
        bead, run_id, run_id, space.root, space.config, tuple(dict.fromkeys(branches)), neighbours=others
    )
    with settings.until_done(space.root):
        return shown(order, tools, role, number)


# --- gates ------------------------------------------------------------------------------------------


def check_gates(
    space: Workspace, store: Store, *, override_by: str | None = None, warn: Progress = silent
) -> list[Gate]:
    """Run the verifiers of the gates; `override_by` lets features start although some are red."""
    run_id = runs.new_run_id()
    home = gates.home_of(space.root)
    redaction.know(os.environ, space.config.agent_env, space.root)
    with runs.exclusive(home, run_id, subject=gates.BEING_CHECKED):
        _sweep(home)
        with _recorded(home, run_id) as (folder, journal):
            executor, environment = _executor(space.root, space.config), _environment(space.config, folder)
            world = _world(space.root, space.config, executor, environment)
            bench = Bench(executor, folder, journal, environment)
            actor = runs.actor_name(space.root, run_id)
            checker = gates.Checker(space.root, space.config, bench, store, actor, warn, world)
            found = run_until_ended(checker.check(gates.find(space.root, store)))
            red = [gate.key for gate in found if gate.holds]
            if override_by is not None and red:
                found = checker.override(found, override_by, lasting=True)
                journal.emit(GatesOverridden(gates=tuple(red), by=override_by))
            return found


# --- Ralph beads as files ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ExecRequest:
    """How Ralph beads are to be executed; None where the settings say it."""

    program: str | None = None
    backoff: float | None = None
    verify_only: bool = False
    config: Path | None = None


def execute_files(beads: Sequence[BeadFile], request: ExecRequest, say: Progress = silent) -> list[Done]:
    """Work on Ralph beads in the current folder, one after the other, until their verifiers hold."""
    space = workspace.find(config_file=request.config)
    confinement.require(space.config, space.root)
    redaction.know(os.environ, space.config.agent_env, space.root)
    desk = _desk(space, request, say)
    with diagnosis.logged(space.config.logging, space.root):
        work = execute.one_by_one(beads, desk, verify_only=request.verify_only)
        return run_until_ended(work, "the beads are as far as they were")


def _desk(space: Workspace, request: ExecRequest, say: Progress) -> Desk:
    config = space.config
    first = config.exec_backoff if request.backoff is None else request.backoff
    return Desk(
        place=Path.cwd(),
        root=space.root,
        config=config,
        executor=_executor(space.root, config),
        select=select,
        forge=forge.choose("none", space.root),
        state=space.state,
        program=request.program,
        pace=Retry(first=first, longest=max(config.exec_backoff_max, first), jitter=0),
        say=say,
        programs=ProgramLimits.under(config),
    )

"""What `run` does. It needs the loop and everything below it, which no other command should wait for."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beads_ralph import forge, workspace
from beads_ralph.agents import probe, registry
from beads_ralph.agents.environment import passed_on
from beads_ralph.bead import personas
from beads_ralph.bead.field_types import plural
from beads_ralph.bead.model import Bead
from beads_ralph.bead.usage import Budget
from beads_ralph.cli import mason, settling
from beads_ralph.cli.answer import FAILED, INTERRUPTED, OK, Answer, speaker
from beads_ralph.cli.board import Board
from beads_ralph.cli.style import current_style
from beads_ralph.dod import gates
from beads_ralph.errors import Code, RalphError, gathered
from beads_ralph.files.ralph_dir import ralph_dir
from beads_ralph.forge.github_gates import GitHubGates
from beads_ralph.forge.network import Network
from beads_ralph.git import checkouts, commands, source_branch, worktree_status, worktrees
from beads_ralph.journal import diagnosis, runs
from beads_ralph.journal.events import StraysEnded, WarningGiven
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.records import Keeper, StateFolder
from beads_ralph.loop import GATE_IS_RED, Ended, Loop, Scope, Settings, blockers, foresee, named
from beads_ralph.process import executors, process_tree
from beads_ralph.process.threads import in_thread
from beads_ralph.session import Tools, confinement, fallback
from beads_ralph.session.verify import Bench
from beads_ralph.store import convoys
from beads_ralph.store.protocol import Query, Store
from beads_ralph.workspace import OpenStore, StoreChoice, Workspace

if TYPE_CHECKING:
    from rich.console import Console

SPARE_THREADS = 8


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for; None where the settings say it."""

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
    executor: str | None = None
    forge: str | None = None
    store: StoreChoice | None = None
    config: Path | None = None


def run(wishes: Wishes) -> Answer:
    space = workspace.find(config_file=wishes.config)
    if space.repository is None:
        raise RalphError(Code.GIT_NOT_REPO, f"{space.root} is not a git repository")
    scope = _scope(space, wishes)
    planned: Sequence[Bead] = ()
    if wishes.plan is not None:
        planned = mason.compile_plan(
            wishes.plan,
            space,
            wishes.store,
            insert=not wishes.dry_run,
            check=lambda beads: _require_sources(space.root, beads, scope),
        )
    opened = workspace.open_store(space, wishes.store)
    found = named(opened.store, wishes.beads - {bead.id for bead in planned})
    # A wisp that is asked for by name is asked for.
    scope = replace(scope, wisps=scope.wisps or any(bead.ephemeral for bead in found))
    if wishes.dry_run:
        return _dry_run(space.root, opened, scope, planned)
    beads = _preflight(space, opened, scope)
    settings = _settings(space, wishes)
    chosen = (wishes.executor or space.config.executor, wishes.forge or space.config.forge)
    ended = _run(space, opened, settings, scope, chosen, beads)
    return Answer(
        ended.to_json() | {"run_id": settings.run_id, "store": opened.store.kind},
        lambda console: show_end(console, ended, opened.store),
        exit_code=_exit_code(ended),
    )


def _scope(space: Workspace, wishes: Wishes) -> Scope:
    """What the run is about, as far as the command line says it."""
    beads = wishes.beads
    if wishes.convoys:
        store = workspace.open_store(space, wishes.store).store
        beads = beads.union(*(_beads_of(store, name) for name in wishes.convoys))
    plan_file = space.relative(wishes.plan) if wishes.plan else None
    return Scope(beads, wishes.teams, plan_file, wishes.wisps)


def _beads_of(store: Store, name: str) -> frozenset[str]:
    convoy = convoys.named(store, name)
    beads = convoys.beads_of(store, convoy)
    if not beads:
        action = f"Add some: beads-ralph convoy add {convoy.id} ID…"
        raise RalphError(
            Code.CONFLICT, f"the convoy {convoy.title} follows no beads", suggested_action=action
        )
    return beads


def _settings(space: Workspace, wishes: Wishes) -> Settings:
    run_id = runs.new_run_id()
    return Settings(
        run_id=run_id,
        actor=runs.actor_name(space.root, run_id),
        max_parallel=wishes.max_parallel or space.config.max_parallel_sessions,
        once=wishes.once,
        stop_on_failure=wishes.stop_on_failure,
        force_gates=wishes.force_gates,
        poll_seconds=space.config.poll_interval,
        budget=_budget(space),
    )


def _exit_code(ended: Ended) -> int:
    """0 only where everything that was asked for is closed."""
    if ended.complete:
        return OK
    return INTERRUPTED if ended.why == "interrupted" else FAILED


def _budget(space: Workspace) -> Budget:
    config = space.config
    return Budget(config.budget_minutes, config.budget_usd, config.budget_tokens)


# --- before -----------------------------------------------------------------------------------------


def _dry_run(root: Path, opened: OpenStore, scope: Scope, planned: Sequence[Bead]) -> Answer:
    """What would start, and what would not; `planned` are beads that a run would put into the store."""
    stored = opened.store.find(Query(wisps=scope.wisps)).beads
    beads = [*{bead.id: bead for bead in (*planned, *stored)}.values()]
    left = [bead for bead in beads if bead.status != "closed" and scope.holds(bead)]
    seen = blockers.overview(opened.store, left, beads)
    _require_sources(root, beads, scope, seen)
    waves, waiting = foresee(beads, scope, seen)
    for gate in gates.known(root, stored, opened.store):
        if gate.colour != "green":
            waiting[gate.key] = "is a gate: a run checks it first, and starts no feature while it is red"

    def show(console: Console) -> None:
        for number, wave in enumerate(waves, 1):
            console.print(f"[cyan]wave {number}[/cyan]  " + ", ".join(wave))
        for bead_id, reason in waiting.items():
            console.print(f"[yellow]✗[/yellow] {bead_id}  {reason}")
        console.print("nothing was started" if waves or waiting else "nothing is left to do")

    rows = [{"id": bead_id, "reason": reason} for bead_id, reason in waiting.items()]
    return Answer({"dry_run": True, "waves": waves, "waiting": rows, "store": opened.store.kind}, show)


def _preflight(space: Workspace, opened: OpenStore, scope: Scope) -> list[Bead]:
    """What would make every bead fail is better said before the first one starts. Gives those to come."""
    worktree_status.head(
        space.root
    )  # says what to do where there is no commit that a branch could start from
    confinement.require(space.config, space.root)
    if space.config.check_before_start:
        _require_space(space)
    stored = opened.store.find(Query(wisps=scope.wisps)).beads
    beads = [bead for bead in stored if bead.status != "closed" and scope.holds(bead)]
    faults = {str(fault): fault for bead in beads for fault in personas.check_agents(bead, space.root)}
    if faults:
        raise gathered(list(faults.values()), "the beads")
    _require_sources(space.root, stored, scope, blockers.overview(opened.store, beads, stored, hurried=True))
    return beads


def _require_sources(
    root: Path, beads: Sequence[Bead], scope: Scope, seen: blockers.Overview | None = None
) -> None:
    """Of those that would start; what is blocked, or waits for it, needs no branch yet."""
    waves, _ = foresee(beads, scope, seen)
    starting = {bead_id for wave in waves for bead_id in wave}
    source_branch.require(root, [bead for bead in beads if bead.id in starting])


def _tell_permissions(beads: Sequence[Bead], tools: Tools) -> None:
    """Nobody should have to look for it that nobody is asked."""
    programs = {program for bead in beads for program in fallback.unasked(bead, tools)}
    for program in sorted(programs):
        speaker(current_style())(
            f"note: {program} runs with {fallback.SKIP}: its agents may do whatever you may. "
            "agent_defaults.default_options in beads-ralph.yaml changes that."
        )


def _require_space(space: Workspace) -> None:
    wanted = space.config.min_free_gb
    free = shutil.disk_usage(space.root).free / 1e9
    if free < wanted:
        message = f"{free:.1f} GB are free, {wanted:g} GB are wanted"
        action = "Free some space, or lower min_free_gb in beads-ralph.yaml"
        raise RalphError(Code.WRITE_FAILED, message, suggested_action=action)


@contextmanager
def _alone(space: Workspace, run_id: str) -> Iterator[tuple[Path, list[int]]]:
    """The only loop on this repository; what a killed one left running and lying about is ended first."""
    home = ralph_dir(space.root)
    with runs.exclusive(home, run_id):
        runs.order(home, None)
        swept = sweep(home) + sweep(asks_home(space))
        worktrees.prune(space.root)
        checkouts.prune_checks(space.root)
        yield home, swept


def asks_home(space: Workspace) -> Path:
    """Where `ask` keeps what agents answered: apart from the runs, of which status shows the last."""
    return ralph_dir(space.root) / "asks"


def sweep(home: Path) -> list[int]:
    """End what killed runs left running. A mark is set when it is done: this, too, may be cut short."""
    ended: list[int] = []
    for left in runs.unswept(home):
        ended += process_tree.sweep("BEADS_RALPH_RUN_ID", left.run_id)
        runs.mark_swept(left)
    return ended


# --- during -----------------------------------------------------------------------------------------


def _run(
    space: Workspace,
    opened: OpenStore,
    settings: Settings,
    scope: Scope,
    chosen: tuple[str, str],
    beads: Sequence[Bead],
) -> Ended:
    log = diagnosis.logged(space.config.logging, space.root)
    with log, _alone(space, settings.run_id) as (home, swept):
        folder = runs.RunFolder(home, settings.run_id)
        with closing(Journal(folder.journal, settings.run_id)) as journal:
            if swept:
                journal.emit(StraysEnded(pids=tuple(swept)))
            tools = tools_for(space, folder, journal, chosen)
            _tell_permissions(beads, tools)
            keeper = Keeper(StateFolder(space.state), space.root, settings.run_id)
            with keeper.listening(journal), Board(journal, current_style()):
                loop = Loop(opened.store, tools, settings, scope, home)
                return asyncio.run(_supervised(loop, _programs(beads, tools)))


def tools_for(space: Workspace, folder: runs.RunFolder, journal: Journal, chosen: tuple[str, str]) -> Tools:
    config = space.config
    environment = {**passed_on(os.environ, config.agent_env), "BEADS_RALPH_RUN_ID": folder.run_id}
    sandbox = confinement.sandbox_of(config, space.root)
    if sandbox is not None:
        commands.forgo_hooks()
    executor = executors.choose(chosen[0], sandbox)
    bench = Bench(executor, folder, journal, environment)
    network = Network.of(config)
    return Tools(
        space.root,
        config,
        bench,
        registry.select,
        forge.choose(chosen[1], space.root, network=network),
        ports=confinement.ports_of(config),
        look=GitHubGates(space.root, network),
    )


def _programs(beads: Sequence[Bead], tools: Tools) -> set[str]:
    """Everything that may play an agent in this run."""
    keys = {key for bead in beads for agent in fallback.of_bead(bead, tools) for key in agent}
    return {key.partition(":")[0] for key in keys}


async def _warn_of_versions(programs: Iterable[str], journal: Journal) -> None:
    """While the first agents work: some programs take a second to say their version."""
    for program in sorted(programs):
        cli = registry.select(program)
        if cli.profile.tested:  # nobody knows what a program of the user's own does with --version
            found = await in_thread(probe.look_at, cli, program)
            if found.untested:
                journal.emit(WarningGiven(message=found.untested))


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
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        running.add_signal_handler(signal.SIGHUP, loop.cancel)
    versions = asyncio.create_task(_warn_of_versions(programs, loop.journal))
    try:
        return await loop.run()
    finally:
        versions.cancel()


# --- after ------------------------------------------------------------------------------------------

WORDS: dict[str, str] = {
    "done": "[green]✓ done[/green]",
    "blocked": "[red]✗ blocked[/red]",
    "stopped": "[yellow]■ stopped[/yellow]",
    "interrupted": "[yellow]■ interrupted[/yellow]",
    "no_progress": "[yellow]? no progress[/yellow]",
}


def show_end(console: Console, ended: Ended, store: Store | None = None) -> None:
    """The summary: what was closed, what blocked, who must do what, where to look next."""
    from rich.markup import escape

    console.print(f"\n{WORDS[ended.why]}: {escape(ended.reason)}")
    counts = f"{len(ended.closed)} closed, {len(ended.blocked)} blocked, {plural(ended.attempts, 'attempt')}"
    console.print(f"{counts}, {ended.seconds:.1f} s")
    for bead_id, pull in ended.pull_requests:
        where = pull.url or pull.branch
        console.print(f"  [green]✓[/green] {bead_id}  {escape(where)}  [dim]{pull.commit[:12]}[/dim]")
    for bead_id, reason in ended.blocked:
        console.print(f"  [red]✗[/red] {bead_id}  {escape(reason.splitlines()[0] if reason else '')}")
    for wait in ended.waits:
        console.print(f"  [yellow]…[/yellow] {escape(str(wait))}")
        console.print(f"    [dim]{escape('holds up ' + ', '.join(wait.beads))}[/dim]")
    for line in settling.ended(store, ended.finished) if store is not None else ():
        console.print(f"  {escape(line)}")
    for item in ended.for_people:
        console.print(f"  [yellow]…[/yellow] {escape(f'left for you: {item.id} ({item.title})')}")
    for step in _next_steps(ended):
        console.print(f"  → {step}")


def _next_steps(ended: Ended) -> list[str]:
    steps: list[Any] = []
    if ended.blocked:
        first, reason = ended.blocked[0]
        if reason.startswith(GATE_IS_RED):
            return ["beads-ralph gate check"]
        steps += [f"beads-ralph logs {first}", f"beads-ralph retry {first}"]
    steps += [wait.command for wait in ended.waits if wait.command is not None]
    steps += [f"beads-ralph close {item.id}" for item in ended.for_people]
    if ended.why in ("stopped", "interrupted") and not ended.complete:
        steps.append("beads-ralph run")
    return steps

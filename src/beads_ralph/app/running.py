"""Start a planned run, alone on its repository, and see it through signals to its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from beads_ralph import forge
from beads_ralph.agents import players, probe
from beads_ralph.agents.protocol import select
from beads_ralph.app.many_machines import Engine, engine_of
from beads_ralph.app.parts import asks_home, recorded, sweep, tools_at
from beads_ralph.app.request import RunRequest
from beads_ralph.bead.model import Bead
from beads_ralph.compile.plan_watch import PlanWatch
from beads_ralph.compile.reconcile import Reconciled, reconcile
from beads_ralph.config.model import Config
from beads_ralph.config.settings_file import settings_file, users_file
from beads_ralph.config.workspace import Workspace
from beads_ralph.errors import Fault, RalphError
from beads_ralph.files import disk, scratch, text_files
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.forge.adapters.github import GitHubGates
from beads_ralph.forge.network import Network
from beads_ralph.forge.protocol import PushTarget
from beads_ralph.git import git_files, settings, worktree_removal
from beads_ralph.journal import diagnosis, runs
from beads_ralph.journal.events import StraysEnded, WarningGiven
from beads_ralph.journal.journal import Journal, read
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.keeper import Keeper
from beads_ralph.loop import Ended, Loop, Scope, Settings, preflight
from beads_ralph.process.calls import in_thread
from beads_ralph.session import (
    Tools,
    agent_calls,
    confinement,
    in_process,
)
from beads_ralph.session.run_inputs import RunInputs
from beads_ralph.store.people import PersonsItem, peoples_items
from beads_ralph.store.protocol import Progress, silent
from beads_ralph.store.registry import OpenStore

if TYPE_CHECKING:
    from beads_ralph.notify.channels import Channel

SPARE_THREADS = 8
Watch = Callable[[Journal], AbstractContextManager[object]]


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
        receivers = _receivers(config)
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
            telling = _telling(journal, receivers, note)
            with runs.unfinished(folder), keeper.listening(journal, killed), watch(journal), telling:
                engine = engine_of(tools)
                run_session = engine or in_process(tools)
                how = (self.settings, self.scope, run_session, GitHubGates(root, Network.of(config)))
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
                return asyncio.run(_supervised(loop, _programs(beads, tools), engine))

    @property
    def _named_files(self) -> list[Path]:
        """The settings and the plan, wherever they lie; not a plan whose edits are taken up."""
        said = settings_file(self.space.root, self.request.config)
        plan = None if self.watches_plan else self.request.plan
        named = (users_file(), said and said.path, plan)
        return [path.absolute() for path in named if path is not None]

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


@contextmanager
def _alone(space: Workspace, run_id: str) -> Iterator[tuple[runs.RunFolder, Journal]]:
    """The only loop on this repository; what a killed one left running and lying about is ended first."""
    home = ralph_dir(space.root)
    with runs.exclusive(home, run_id):
        text_files.tighten(home)
        StateFolder(space.state).tighten()
        runs.order(home, None)
        swept = sweep(home) + sweep(asks_home(space))
        worktree_removal.prune(space.root)
        scratch.sweep()
        git_folder = next(iter(git_files.folders_of(space.root)), space.root / ".git")
        text_files.sweep(space.root)
        for place in (home, space.state, git_folder / "worktrees", git_folder / "beads-ralph"):
            text_files.sweep(place, deep=True)
        with recorded(home, run_id) as (folder, journal), settings.until_done(space.root):
            if swept:
                journal.emit(StraysEnded(pids=tuple(swept)))
            yield folder, journal


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


async def _supervised(loop: Loop, programs: Iterable[str], engine: Engine | None) -> Ended:
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
        if engine is None:
            return await loop.run()
        loop.pool.elsewhere = engine.elsewhere
        async with engine.opened(loop.journal):
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


# --- telling people -------------------------------------------------------------------------------------


def _receivers(config: Config) -> list[Channel]:
    """The ways to tell a person; one that cannot work here is a fault before anything starts."""
    if not config.notify:
        return []
    from beads_ralph.notify import channels

    return channels.opened(config.notify)


def _telling(
    journal: Journal, receivers: Sequence[Channel], note: Progress
) -> AbstractContextManager[object]:
    if not receivers:
        return nullcontext()
    from beads_ralph.notify import sender

    return sender.listening(journal, receivers, note)

"""A bead file at work: what differs from a bead of a store, and nothing else.

Its agents are called as those of a run are (`session/asking.py`), with the same programs, limits and records.
It differs in where the work comes from (a file), where the checks run (in place), and where its state is kept
(in `ralph_meta` of the file).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from beads_ralph import __version__
from beads_ralph.agents.environment import passed_on
from beads_ralph.agents.players import players
from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.healing import healed
from beads_ralph.bead.model import CLAUDE, AgentSpec, Verifier
from beads_ralph.bead.run_state import MOST_ATTEMPTS, RunState, Spending
from beads_ralph.bead.standing import PROVEN, Standing
from beads_ralph.bead.usage import Budget
from beads_ralph.bead.words import plural, utc_text
from beads_ralph.compile.setting import Setting
from beads_ralph.config.model import Config
from beads_ralph.dod.files import LONGEST_SECONDS, BeadFile
from beads_ralph.dod.imports import bead_of
from beads_ralph.forge.protocol import Forge
from beads_ralph.git import commands
from beads_ralph.journal import runs
from beads_ralph.journal.events import StraysEnded, WarningGiven
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.runs import Shelf
from beads_ralph.process import process_tree
from beads_ralph.process.calls import Retry, in_thread
from beads_ralph.process.jobs import RUN_ID, Executor
from beads_ralph.session import Order, Tools, confinement, verify
from beads_ralph.session.history import BeadHistory
from beads_ralph.session.program_limits import LocalHost, ProgramLimits
from beads_ralph.session.state import BeadSession, Exhausted
from beads_ralph.session.verify import Subject

Say = Callable[[str], None]
DETACHED: Final = "detached"
INTERRUPTIONS_KEPT: Final = 20
KEPT: Final = ("dev_agent_executions", "spent", "interruptions")
"""The parts of a run state that `ralph_meta` has, too."""


@dataclass(frozen=True)
class Desk:
    """What beads are executed with, one after the other."""

    place: Path
    """Where agents and verifiers work."""
    root: Path
    """Where the settings and the agent files are."""
    config: Config
    executor: Executor
    select: Callable[[str], AgentCLI]
    forge: Forge
    state: Path
    """Where run and result records lie."""
    program: str | None
    pace: Retry
    """How long to pause between attempts; how many there may be, the bead says."""
    say: Say
    programs: ProgramLimits = field(default_factory=ProgramLimits)
    """Those that rest, as all these beads have met them."""

    def tools(self, folder: runs.RunFolder, key: str) -> Tools:
        config = self.config.model_copy(update={"dev_agent_timeout": self.config.exec_agent_timeout})
        own = {RUN_ID: folder.run_id, "BEADS_RALPH_BEAD": key}
        known = {**passed_on(os.environ, config.agent_env), **own}
        return Tools(self.root, config, self.executor, folder, known, self.select, self.forge)

    @property
    def agent(self) -> AgentSpec:
        """The program asked for, else the first dev agent of the settings, else the default program."""
        if self.program is not None:
            return AgentSpec(role="polecat", agent=CLAUDE, executable=self.program)
        return next(iter(self.config.plan.dev_agents or ()), AgentSpec(role="polecat", agent=CLAUDE))


@contextmanager
def at_work(found: BeadFile, desk: Desk) -> Iterator[tuple[FileSession, Journal]]:
    """The bead is ours alone; what a killed execution of it left running is ended first."""
    shelf = Shelf(desk.place, found.key)
    shelf.make()
    run_id = runs.new_run_id()
    folder = runs.RunFolder(shelf.home, run_id)
    with runs.exclusive(shelf.home, run_id, subject=f"{found.key} is worked on"):
        left = [(old, process_tree.sweep(RUN_ID, old.run_id)) for old in runs.unswept(shelf.home)]
        with closing(Journal(folder.journal, run_id)) as journal:
            for old, pids in left:
                runs.mark_swept(old)
                if pids:
                    journal.emit(StraysEnded(bead=found.key, pids=tuple(pids)))
            yield FileSession.of(found, desk, folder, journal), journal


@dataclass(frozen=True)
class Done:
    """How the execution of a bead ended."""

    file: Path
    key: str
    title: str
    status: str
    """What the bead's file says now."""
    passed: bool
    reason: str
    attempts: int
    rows: Sequence[Evidence]
    evidence: list[str]
    seconds: float
    warnings: list[str] = field(default_factory=list)

    @property
    def standing(self) -> Standing | None:
        """proven, if its verifiers passed: a bead file has at least one."""
        return PROVEN if self.passed else None

    def to_json(self) -> dict[str, Any]:
        told = {name: value for name, value in vars(self).items() if name not in ("key", "rows")}
        rows, seconds = [row.to_json() for row in self.rows], round(self.seconds, 3)
        more = {"id": self.key, "standing": self.standing, "verifiers": rows, "seconds": seconds}
        return {**told, "file": str(self.file), **more}


@dataclass(frozen=True)
class FileHost(LocalHost):
    """The executor as the session of a bead file sees it."""

    found: BeadFile
    changed: Path
    """Where a version of the file goes that somebody else wrote."""

    async def keep(self, state: RunState) -> None:
        told = state.to_metadata()
        self.found.save(self.changed, **{key: told[key] for key in KEPT if key in told})

    async def why_pause(self) -> str:
        return ""

    async def branches_beside(self) -> Sequence[str]:
        return ()


@dataclass
class FileSession(BeadSession):
    """A bead file at work, in the folder where it is to come true."""

    found: BeadFile = field(kw_only=True)
    desk: Desk = field(kw_only=True)
    most: int = field(kw_only=True)
    """Attempts in all."""
    cut: int = field(kw_only=True)
    """The attempt that a killed run was at; it is made again."""
    warned: int = 0

    @classmethod
    def of(cls, found: BeadFile, desk: Desk, folder: runs.RunFolder, journal: Journal) -> FileSession:
        tools, home = desk.tools(folder, found.key), Shelf(desk.place, found.key).home
        source = commands.branch_at(desk.place) or DETACHED
        bead = bead_of(found, Setting(desk.place, str(found.path), datetime.now(UTC), tools.config), source)
        place = {"worktree_path": str(desk.place), "branch": source, "dev_agents": [desk.agent]}
        state, cut = _taken_up(found, desk.agent.agent, players(desk.agent, tools)[0].program)
        metadata = bead.metadata.model_copy(update=place).changed(state)
        bead = bead.model_copy(update={"metadata": metadata})
        order = Order(bead, folder.run_id, f"exec-{folder.run_id}", tools.root, tools.config)
        given = "max_iterations" in found.bead.constraints.model_fields_set
        return cls(
            order,
            tools,
            FileHost(bead, journal, desk.programs, found, home),
            BeadHistory.of(bead, order.session_id),
            base=commands.commit_of("HEAD", desk.place) or "",
            found=found,
            desk=desk,
            most=found.bead.constraints.max_iterations if given else tools.config.exec_max_iterations,
            cut=cut,
        )

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.worktree, self.bead.id)

    @property
    def program(self) -> str:
        """The one that was called last, or would be now."""
        record = self.record
        return record.dev[-1].program if record.dev else players(self.desk.agent, self.tools)[0].program

    # --- limits ---

    @property
    def budget(self) -> Budget:
        minutes = self.found.bead.constraints.time_budget_minutes
        known = super().budget
        return known if minutes is None else replace(known, minutes=min(minutes, LONGEST_SECONDS / 60))

    @property
    def again(self) -> str:
        return "executed again, it has as much again"

    @property
    def retry(self) -> str:
        return f"beads-ralph exec {self.found.path}"

    @property
    def go_on(self) -> str:
        return self.retry

    def exhausted(self, wanted: float = 0.0) -> Exhausted | None:
        """Of the two limits of time, the one that is reached first, within the seconds that are wanted."""
        left = self.time_left
        if left.seconds is None or left.seconds > wanted:
            return super().exhausted()
        if left.deadline_is_first:
            text = f"the deadline {self.metadata.deadline} has passed or is too near"
            return Exhausted(text, "deadline-passed")
        return Exhausted(f"the time budget of {self.budget.minutes:g} minutes is used up", "budget-used-up")

    # --- the agent and the checks ---

    def prompt(self, attempt: int, feedback: str) -> str:
        ralph, shelf = self.found.bead, self.shelf
        folder = shelf.shown(shelf.evidence)
        shows = (
            f"Put at least one file that shows that it works into {folder}/, such as the output of a test."
        )
        return self.tools.prompts.render(
            "ralph",
            bead_id=shelf.key,
            place=str(shelf.place),
            attempt=attempt,
            max_attempts=self.most,
            title=ralph.name,
            intent=ralph.intent,
            verifiers=[_described(verifier) for verifier in ralph.verifiers()],
            feedback=feedback,
            evidence=shows if ralph.dod.evidence_required else "",
        )

    async def examine(self) -> list[Evidence]:
        """Run the verifiers where the work is, and look for its evidence."""
        ralph = self.found.bead
        commit = await in_thread(commands.commit_of, "HEAD", self.worktree) or ""
        limit = confinement.memory_limit_mb(self.bead, self.tools.config)
        subject = Subject(
            self.bead.id, self.record.attempts, self.worktree, commit, memory_limit_mb=limit, env=self.env
        )
        rows = await verify.run_verifiers(ralph.verifiers(), subject, self.bench)
        if ralph.dod.evidence_required and all(row.ruling == "pass" for row in rows):
            rows.append(verify.attachments(self.shelf, commit))
        for row in rows:
            self.desk.say(f"  ✓ {row.name}" if row.ruling == "pass" else f"  ✗ {row.name}: {row.message}")
        return rows

    def done(self, status: str, reason: str, rows: Sequence[Evidence], *, passed: bool) -> Done:
        """How it ends, if that is now."""
        return Done(
            file=self.found.path,
            key=self.found.key,
            title=self.found.bead.name,
            status=status,
            passed=passed,
            reason=reason,
            attempts=max(self.record.attempts, self.cut),
            rows=rows,
            evidence=[self.shelf.shown(path) for path in self.shelf.attached()],
            seconds=self.record.seconds,
        )

    # --- the file ---

    def save(self, **said: Any) -> None:
        """Put it into the file, with how long the work has taken so far."""
        self.found.save(
            self.shelf.home,
            executor_version=__version__,
            run_id=self.order.run_id,
            elapsed_seconds=round(self.record.seconds, 3),
            **said,
        )
        for text in self.found.warnings[self.warned :]:
            self.tell(WarningGiven(message=text))
            self.desk.say(f"! {text}")
        self.warned = len(self.found.warnings)


def _described(verifier: Verifier) -> str:
    """The command, and what is expected of it where that is not only success."""
    expect = verifier.expect
    wants = [f"exit code {expect.exit_code}"] if expect.exit_code else []
    for name, text in (("stdout", expect.stdout_contains), ("stderr", expect.stderr_contains)):
        wants += [f"{text!r} in {name}"] if text is not None else []
    limit = f"within {plural(verifier.timeout_seconds, 'second')}"
    return f"{verifier.name}: {verifier.command}\n({', '.join([*wants, limit])})"


def _taken_up(found: BeadFile, agent: str, program: str) -> tuple[RunState, int]:
    """What a run that is no more has done counts; with it, the attempt that it was cut short in, which is
    made again. Anybody may have written there: what cannot be read is left out."""
    meta = found.meta
    if found.bead.status != "in_progress":
        return RunState(), 0
    kept: dict[str, Any] = {key: meta[key] for key in KEPT if key in meta}
    attempts = int(count_of(meta.get("attempt_count")))
    cut = attempts if meta.get("stage") == "agent" else 0
    if cut:
        row = {"run_id": meta.get("run_id"), "attempt": cut, "noticed_at": utc_text(datetime.now(UTC))}
        kept["interruptions"] = [*_list(kept.get("interruptions")), row][-INTERRUPTIONS_KEPT:]
    if isinstance(session := meta.get("session"), dict) and "dev_agent_executions" not in kept:
        # A file of version 0.1 has no calls, but the session of the last one.
        call = {"attempt": 1, "role": "dev", "agent_path": agent, "program": program, "status": "completed"}
        told = {"session_id": session.get("id"), "session_usage": session.get("counted")}
        kept["dev_agent_executions"] = [{**call, **told, "started_at": meta.get("started_at")}]
    state = healed(kept).state
    spent = state.spent or Spending(seconds=count_of(meta.get("elapsed_seconds")))
    done = max(attempts - 1, 0) if cut else attempts
    return state.changed(RunState(attempt_count=done, spent=spent)), cut


def count_of(value: Any) -> float:
    """A number that a file says, if it is one."""
    return value if isinstance(value, int | float) and 0 < value < MOST_ATTEMPTS else 0


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

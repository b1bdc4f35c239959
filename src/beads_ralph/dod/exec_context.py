"""What Ralph beads are executed with, one after the other; and how each of them ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beads_ralph.agents.protocol import AgentCLI
from beads_ralph.bead.evidence import Evidence
from beads_ralph.config.model import Config
from beads_ralph.dod.calling import Caller, commit_of, environment, spec_of
from beads_ralph.dod.files import BeadFile
from beads_ralph.forge.protocol import Forge
from beads_ralph.journal import runs
from beads_ralph.journal.events import StraysEnded
from beads_ralph.journal.evidence_folder import Shelf
from beads_ralph.journal.journal import Journal
from beads_ralph.process import process_tree
from beads_ralph.process.calls import Retry, in_thread
from beads_ralph.process.jobs import Executor
from beads_ralph.session import Tools, verify
from beads_ralph.session.verify import Bench, Subject

Say = Callable[[str], None]


@dataclass(frozen=True)
class ExecBench(Bench):
    """What the checks of an execution are run with, and the journal of it."""

    journal: Journal


@dataclass(frozen=True)
class Desk:
    """What beads are executed with."""

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

    def bench(self, shelf: Shelf, folder: runs.RunFolder, journal: Journal) -> ExecBench:
        known = environment(shelf, folder.run_id, self.config.agent_env)
        return ExecBench(self.executor, folder, journal, known, journal)

    def caller(self, found: BeadFile, shelf: Shelf, bench: ExecBench) -> Caller:
        config = self.config.model_copy(update={"dev_agent_timeout": self.config.exec_agent_timeout})
        where = (bench.executor, bench.folder, bench.environment)
        tools = Tools(self.root, config, *where, self.select, self.forge)
        return Caller(found, shelf, tools, bench.events, spec_of(tools, self.program), bench.folder.run_id)


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
    evidence: Sequence[str]
    seconds: float
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "id": self.key,
            "title": self.title,
            "status": self.status,
            "passed": self.passed,
            "reason": self.reason,
            "attempts": self.attempts,
            "verifiers": [row.to_json() for row in self.rows],
            "evidence": list(self.evidence),
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
        }


@contextmanager
def held(found: BeadFile, desk: Desk) -> Iterator[tuple[Shelf, ExecBench]]:
    """The bead is ours alone; what a killed execution of it left running is ended first."""
    shelf = Shelf(desk.place, found.key)
    shelf.make()
    run_id = runs.new_run_id()
    folder = runs.RunFolder(shelf.home, run_id)
    with runs.exclusive(shelf.home, run_id, subject=f"{found.key} is worked on"):
        left = [
            (old, process_tree.sweep("BEADS_RALPH_RUN_ID", old.run_id)) for old in runs.unswept(shelf.home)
        ]
        with closing(Journal(folder.journal, run_id)) as journal:
            for old, pids in left:
                runs.mark_swept(old)
                if pids:
                    journal.emit(StraysEnded(bead=found.key, pids=tuple(pids)))
            yield shelf, desk.bench(shelf, folder, journal)


@dataclass(frozen=True)
class Examiner:
    """Runs the verifiers of a bead, and looks for its evidence."""

    found: BeadFile
    shelf: Shelf
    bench: Bench

    async def examine(self, attempt: int) -> list[Evidence]:
        bead = self.found.bead
        commit = await in_thread(commit_of, self.shelf.place)
        subject = Subject(self.shelf.key, attempt, self.shelf.place, commit)
        rows = await verify.run_verifiers(bead.verifiers(), subject, self.bench)
        held = all(row.ruling == "pass" for row in rows)
        if held and bead.dod.evidence_required:
            rows.append(verify.attachments(self.shelf, commit))
        return rows


def show(rows: Sequence[Evidence], say: Say) -> None:
    for row in rows:
        say(f"  ✓ {row.name}" if row.ruling == "pass" else f"  ✗ {row.name}: {row.message}")

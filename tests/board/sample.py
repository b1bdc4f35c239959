"""A repository in the middle of a large run, without one: its beads in the store, its journal, its lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from beads_ralph.bead.model import Bead
from beads_ralph.journal import runs
from beads_ralph.journal.journal import moment_text
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from beads_ralph.store.query import Query
from tests.board.journals import RUN, row, used
from tests.cli.running import compiled_here
from tests.compile.plans import plan, sprint

WORDS = ("Parser", "Cache of prices", "Sign-in", "Export", "Search index", "Invoices", "Import", "Reminders")
CALL = {"attempt": 1, "role": "dev", "agent": "developer", "program": "claude", "model": "sonnet"}


@dataclass(frozen=True)
class Sample:
    """The ids of its beads."""

    done: list[str]
    working: list[str]
    blocked: str
    waiting: list[str]

    @property
    def names(self) -> list[str]:
        return [*self.done, *self.working, self.blocked, *self.waiting]


def sprints(phases: int, letters: int) -> Iterator[str]:
    """In each phase one sprint, then some side by side, then one that waits for all of them."""
    for phase in range(1, phases + 1):
        yield sprint(f"{phase}.1", f"{WORDS[phase % 8]}: groundwork")
        for at in range(letters):
            yield sprint(f"{phase}.2{chr(97 + at)}", f"{WORDS[(phase + at) % 8]} part {at + 1}")
        yield sprint(f"{phase}.3", f"{WORDS[phase % 8]} put together")


@contextmanager
def large_run(root: Path, phases: int = 5, letters: int = 6) -> Iterator[Sample]:
    """A third of the phases is done, the next one is at work, and one bead of it is blocked."""
    compiled_here(root, plan(*sprints(phases, letters)))
    store = EmbeddedStore(root)
    beads = sorted(store.find(Query()).beads, key=_place)
    done = phases // 3 * (letters + 2) + 1
    names = [bead.id for bead in beads]
    sample = Sample(
        names[:done],
        names[done : done + letters - 1],
        names[done + letters - 1],
        names[done + letters :],
    )
    _fill(store, runs.actor_name(root, RUN), sample)
    folder = runs.RunFolder(root / ".ralph", RUN)
    jobs = folder.path / "jobs" / sample.working[0]
    jobs.mkdir(parents=True)
    (jobs / "a1-dev.out").write_text("I read the plan.\n<b>Then I wrote the parser.</b>\n", encoding="utf-8")
    rows = _rows(beads[: done + letters], sample)
    folder.journal.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    with runs.exclusive(root / ".ralph", RUN):
        yield sample


def _place(bead: Bead) -> tuple[int, str]:
    phase, _, rest = bead.metadata.sprint.partition(".")
    return int(phase), rest


def _fill(store: EmbeddedStore, actor: str, sample: Sample) -> None:
    for name in sample.done:
        assert store.claim(name, actor).won
        store.close(name, actor, "proven")
    for name in sample.working:
        assert store.claim(name, actor).won
    store.update(sample.blocked, Changes(status="blocked"))


def _rows(beads: list[Bead], sample: Sample) -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC)

    def told(ago: float, kind: str, bead: str | None = None, **facts: Any) -> dict[str, Any]:
        return row(kind, 0, bead, **facts) | {"at": moment_text(now - timedelta(seconds=ago))}

    yield told(5000, "run_started", max_parallel=8, actor="somebody")
    for place, bead in enumerate(beads):
        name, begun = bead.id, 4500 - place * 120
        facts = {"title": bead.title, "sprint": bead.metadata.sprint, "branch": bead.metadata.branch}
        more = {"bead_kind": "work", "plan_file": "plan.md", "max_attempts": 3, "attempt": 1}
        yield told(begun, "bead_claimed", name, **facts, **more)
        yield told(begun - 5, "worktree_prepared", name, path="/w", branch="b", conflict="")
        yield told(begun - 8, "agent_started", name, **CALL, transcript=None)
        if name in sample.working:
            continue
        usage = used(40_000 + 900 * place, 0.31 + 0.02 * place)
        ended = {"seconds": 70.0, "problem": "", "trouble": "", "usage": usage}
        yield told(begun - 78, "agent_ended", name, **CALL, **ended)
        check = {"attempt": 1, "name": "make test", "seconds": 12.0, "commit": "c" * 40, "stage": "verify"}
        if name == sample.blocked:
            yield told(begun - 90, "verifier_ended", name, **check, ruling="fail", exit_code=2)
            yield told(60, "bead_blocked", name, reason="3 attempts failed: make test")
        else:
            yield told(begun - 90, "verifier_ended", name, **check, ruling="pass", exit_code=0)
            yield told(begun - 95, "bead_closed", name, reason="proven", standing="proven")

"""Plays a large run without one agent: `python -m bench.play_run ROOT BEADS`, until nothing more can be read.

The store is filled, the run's lock is held, and lines come as often as fifty agents would give rise to them.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

from beads_ralph.journal import runs
from beads_ralph.journal.journal import moment_text
from bench import stores

AT_ONCE = 50
EVENTS_A_SECOND = 10
"""Fifty agents that each come to something new every five seconds."""
RUN = "20261116T100000000Z-b0a4"
CALL = {
    "attempt": 1,
    "agent": ".claude/agents/developer.md",
    "program": "claude",
    "model": "sonnet",
    "seat": 1,
}
USED = {"input_tokens": 41000, "output_tokens": 3100, "cache_tokens": 900000, "cost_usd": 0.41}


def told(beads: int) -> Iterator[dict[str, Any]]:
    """Lines of a run that works on so many beads over and over."""
    now = moment_text(datetime.now(UTC))
    yield {"kind": "run_started", "at": now, "run_id": RUN, "max_parallel": AT_ONCE, "actor": "somebody"}
    for number in cycle(range(beads or 1)):
        own = {"at": now, "run_id": RUN, "bead": f"bd-{number}", "team": f"team-{number}"}
        yield from ({"kind": kind} | own | facts for kind, facts in _life(number))


def _life(number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is told of a bead that passes at once."""
    commit = f"{number:040x}"
    check = {"name": "make test", "seconds": 12.1, "commit": commit, "exit_code": 0, "ruling": "pass"}
    ended = {"exit_code": 0, "seconds": 312.5, "problem": "", "trouble": "", "denied": [], "usage": USED}
    transcript = f"/home/somebody/shop/.ralph/runs/{RUN}/jobs/bd-{number}/a1-dev-1.out"
    yield (
        "bead_claimed",
        {
            "attempt": 1,
            "title": f"Sprint {number} of a long plan",
            "bead_kind": "work",
            "sprint": f"{number}.1",
            "plan_file": "plan.md",
            "branch": f"feature/sprint-{number}",
            "max_attempts": 3,
        },
    )
    yield "worktree_prepared", {"path": "/home/somebody/shop-worktrees/x", "branch": "x", "conflict": ""}
    yield "verifier_ended", {"attempt": 0, "stage": "baseline", **check}
    yield "baseline_taken", {"red": [], "opened": 0}
    for role in ("dev", "qa"):
        call = {**CALL, "role": role, "transcript": transcript, "session_id": commit[:36], "session_of": None}
        yield "agent_started", call
        yield "agent_ended", {**call, **ended, "output_summary": "All tasks are done, and tests pass. " * 4}
        yield "verifier_ended", {"attempt": 1, "stage": "verify", **check}
    yield "review_given", {"attempt": 1, "agent": "reviewer", "findings": [], "words": "Looks right. " * 8}
    verdict = {"ruling": "pass", "message": "3 checks passed", "flags": [], "will_retry": False}
    yield "verdict_given", {"attempt": 1, **verdict, "checks": [{"kind": "verifier", **check}] * 3}
    url = f"https://forge.example/shop/pull/{number}"
    yield "pull_request_opened", {"number": number, "url": url, "branch": "x", "target": "main"}
    yield "bead_closed", {"reason": f"proven on {commit[:12]}", "standing": "proven"}


@dataclass
class Scene:
    """A repository in the middle of a run that this process plays: store, lock, and lines that come."""

    root: Path
    beads: list[str]
    ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def make(cls, root: Path, count: int) -> Scene:
        store = stores.filled(root, count)
        scene = cls(root, [f"bd-{number:06d}" for number in range(count)])
        for name in scene.at_work:
            store.claim(name, runs.actor_name(root, RUN))
        return scene

    @property
    def at_work(self) -> list[str]:
        return self.beads[:: stores.CHAIN][:AT_ONCE]

    @contextmanager
    def running(self) -> Iterator[None]:
        journal = runs.RunFolder(self.root / ".ralph", RUN).journal
        journal.parent.mkdir(parents=True, exist_ok=True)
        with (
            runs.exclusive(self.root / ".ralph", RUN),
            journal.open("a", encoding="utf-8", buffering=1) as file,
        ):
            first = {"kind": "run_started", "run_id": RUN, "max_parallel": AT_ONCE, "actor": "somebody"}
            file.write(json.dumps(first | {"at": moment_text(datetime.now(UTC))}) + "\n")
            for kind in ("bead_claimed", "agent_started"):
                for name in self.at_work:
                    self._tell(file.write, name, kind)
            writer = threading.Thread(target=self._play, args=(file.write,))
            writer.start()
            try:
                yield
            finally:
                self.ended.set()
                writer.join()
                self.ended.clear()

    def _play(self, write: Callable[[str], object]) -> None:
        """As fifty agents do: ten lines of the journal a second, and as often words of one of them."""
        kinds = cycle(("agent_ended", "verifier_ended", "agent_started"))
        names = cycle(self.at_work)
        while not self.ended.wait(1 / EVENTS_A_SECOND):
            self._tell(write, next(names), next(kinds))
            with self._transcript(next(names)).open("a", encoding="utf-8") as said:
                said.write("I read another file and changed two lines of it.\n" * 5)

    def _tell(self, write: Callable[[str], object], bead: str, kind: str) -> None:
        facts = next(facts for one, facts in _life(self.beads.index(bead)) if one == kind)
        own = {"kind": kind, "at": moment_text(datetime.now(UTC)), "run_id": RUN, "bead": bead}
        if "transcript" in facts:
            facts = {**facts, "transcript": str(self._transcript(bead))}
        write(json.dumps(own | facts) + "\n")

    def _transcript(self, bead: str) -> Path:
        folder = runs.RunFolder(self.root / ".ralph", RUN).path / "jobs" / bead
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "a1-dev-1.out"


def main() -> None:
    scene = Scene.make(Path(sys.argv[1]), int(sys.argv[2]))
    with scene.running():
        print("plays", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

"""Kills the loop with SIGKILL at random moments, again and again, and looks whether the laws still hold."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beads_ralph.journal.events import Event
from beads_ralph.journal.journal import read
from bench import rehearsals
from bench.laws import Watch
from bench.places import Scratch
from bench.rehearsals import Part, Rehearsal
from bench.report import Judge, Row

KILLS = 100
QUICK_KILLS = 5
PARALLEL = 4
PATIENCE = 120.0
AGENT_TIMEOUT = 8.0
STEP = 0.003
EARLY = 0.15
"""How many of the kills come soon after the start, most of them before the run has said a word."""
LONGEST = 2.5
AIMED = 0.4
"""How many come right behind an event of a kind that is over so quickly that luck alone would miss it."""
CRITICAL = (
    "bead_claimed",
    "worktree_prepared",
    "agent_ended",
    "verdict_given",
    "pull_request_opened",
    "bead_closed",
)
CLOSE_BEHIND = 0.03


def kills(judge: Judge, scratch: Scratch, *, count: int | None = None, seed: int = 0) -> Iterator[Row]:
    """The measurement: how many kills, and how many broken laws. There must be none."""
    wanted = count or (QUICK_KILLS if judge.quick else KILLS)
    outcome = torment(scratch.folder / "chaos", kills=wanted, seed=seed, say=_say)
    for problem in outcome.broken:
        _say(f"chaos: {problem}")
    yield Row(f"chaos, seed {seed}: whole plans of {outcome.beads} beads", str(outcome.plans))
    yield Row("… kills by the stage they met", outcome.met)
    yield judge.exactly("… SIGKILLs of the loop", outcome.kills, wanted)
    yield judge.exactly("… beads closed at the end", outcome.closed, outcome.plans * outcome.beads)
    yield judge.exactly("… broken laws", len(outcome.broken), 0)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


@dataclass
class Outcome:
    """What a torment came to."""

    beads: int
    plans: int = 0
    kills: int = 0
    closed: int = 0
    broken: list[str] = field(default_factory=list)
    stages: Counter[str] = field(default_factory=Counter)

    @property
    def met(self) -> str:
        return ", ".join(f"{count} after {name}" for name, count in self.stages.most_common(5))


def torment(
    folder: Path, *, kills: int, seed: int, tracks: int = 3, say: Any = lambda _text: None
) -> Outcome:
    """Work through as many plans as it takes to kill the loop that often; each plan is finished in peace."""
    luck = random.Random(seed)
    parts = troubled_plan(tracks)
    outcome = Outcome(len(parts))
    while outcome.kills < kills and not outcome.broken:
        outcome.plans += 1
        rehearsal = rehearsals.stage(
            folder / f"plan-{outcome.plans}" / "app", parts, parallel=PARALLEL, agent_timeout=AGENT_TIMEOUT
        )
        ordeal = Ordeal(rehearsal, luck, outcome)
        ordeal.run(kills)
        say(f"chaos: plan {outcome.plans}, {outcome.kills} kills, {len(outcome.broken)} broken laws")
    return outcome


# --- the plan -----------------------------------------------------------------------------------------


def troubled_plan(tracks: int) -> list[Part]:
    """Parallel sprints, a merge with a real conflict, tracks, and agents with all sorts of habits."""
    shared = "shared.txt"
    first = [
        Part("1.1", dev=[{"write": {"parts/1.1.txt": "part 1.1\n", shared: "one\n"}}, {"commit": "start"}])
    ]
    sides = [
        Part(
            f"1.2{side}",
            # Written whole: an agent that is killed and called again must not say it twice.
            dev=[{"write": {shared: f"one\n{side}\n"}}, _own(f"1.2{side}"), {"commit": f"side {side}"}],
        )
        for side in "ab"
    ]
    join = Part(
        "1.3", joins=True, merge=[{"write": {shared: "one\na\nb\n"}}, {"sleep": 0.1}, {"commit": "join"}]
    )
    found = [*first, *sides, join]
    for track in range(tracks):
        letter = rehearsals.letters(track)
        found += [_habit(f"2{letter}.{number}", number) for number in range(1, 9)]
    return [*found, Part("3.1"), Part("3.2")]


def _own(name: str) -> dict[str, Any]:
    return {"write": {f"parts/{name}.txt": f"part {name}\n"}}


def _habit(name: str, number: int) -> Part:
    """A habit for each number: deaf, slow, in two commits, corrected, lying, messy, with children, quick."""
    own, pause = _own(name), {"sleep": 0.2}
    again = {"write": {f"parts/{name}.extra": "more\n"}}
    failed = [
        [{"json": {"status": "fail", "message": "not yet"}}],
        [{"json": {"status": "pass", "message": "ok"}}],
    ]
    habits: dict[int, Part] = {
        1: Part(name, dev=[[{"hang": {"ignore_term": True}}], [own]]),
        2: Part(name, dev=[pause, own, pause, {"commit": "slow"}, pause]),
        3: Part(name, dev=[again, {"commit": "first half"}, pause, own, {"commit": "second half"}]),
        4: Part(name, dev=[[own, {"commit": "wrong"}], [again, {"commit": "right"}]], qa=failed),
        5: Part(name, dev=[[{"lie": True}], [own, {"commit": "honest"}]]),
        6: Part(name, dev=[own, pause]),  # leaves its work uncommitted
        7: Part(name, dev=[{"spawn": {"count": 2, "seconds": 30, "detached": True}}, pause, own]),
        8: Part(name, dev=[own, {"commit": "quick"}]),
    }
    return habits[number]


# --- one plan, killed again and again -----------------------------------------------------------------


class Ordeal:
    """Starts the loop, kills it, looks; at the end lets it finish and looks once more."""

    def __init__(self, rehearsal: Rehearsal, luck: random.Random, outcome: Outcome) -> None:
        self.rehearsal = rehearsal
        self.luck = luck
        self.outcome = outcome
        self.watch = Watch(rehearsal)

    def run(self, kills: int) -> None:
        try:
            while self.outcome.kills < kills:
                ended = self._one_life()
                self._note(self.watch.look())
                if ended or self.outcome.broken:
                    break
            if not self.outcome.broken:
                self._finish()
        finally:
            self._end_strays()

    def _end_strays(self) -> None:
        """Where a law was broken, what it left behind is not to go on for ever."""
        runs = {path.parent.name for path in self.rehearsal.journals()}
        for pid, _words in rehearsals.marked(lambda env: env.get("BEADS_RALPH_RUN_ID") in runs):
            rehearsals.end(pid)

    def _one_life(self) -> bool:
        """One run of the loop up to its death; True where it ended by itself first."""
        known = set(self.rehearsal.journals())
        process = self._start()
        try:
            self._await_the_moment(process, known)
            if process.poll() is not None:
                return self._ended(process)
            self._met(known)
            process.send_signal(signal.SIGKILL)
            self.outcome.kills += 1
            return False
        finally:
            process.kill()
            process.wait()

    def _await_the_moment(self, process: subprocess.Popen[bytes], known: set[Path]) -> None:
        """Soon after its start, or a while after its first word, or close behind something that it does."""
        throw = self.luck.random()
        kind = self.luck.choice(CRITICAL)
        if throw < EARLY:
            self._sleep(process, self.luck.uniform(0.05, 1.5))
            return
        if self._wait_for("run_started", process, known):
            self._note(self.watch.strays(alive=self._run_id(known)))
        if throw < EARLY + AIMED:
            self._wait_for(kind, process, known)
            self._sleep(process, self.luck.uniform(0.0, CLOSE_BEHIND))
        else:
            self._sleep(process, self.luck.uniform(0.0, LONGEST))

    def _start(self) -> subprocess.Popen[bytes]:
        log = (self.rehearsal.root.parent / "loop.log").open("ab")
        with log:
            return subprocess.Popen(
                self.rehearsal.command(),
                cwd=self.rehearsal.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_for(self, kind: str, process: subprocess.Popen[bytes], known: set[Path]) -> bool:
        """Until the newest run has told an event of the kind; False where it ended without."""
        until = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < until:
            if any(event.kind == kind for event in self._told(known)):
                return True
            time.sleep(STEP)
        return False

    def _told(self, known: set[Path]) -> Iterator[Event]:
        for path in self.rehearsal.journals():
            if path not in known:
                yield from read(path)

    def _run_id(self, known: set[Path]) -> str:
        return next((path.parent.name for path in self.rehearsal.journals() if path not in known), "")

    def _sleep(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        until = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < until:
            time.sleep(STEP)

    def _met(self, known: set[Path]) -> None:
        told = [event.kind for event in self._told(known)]
        self.outcome.stages[told[-1] if told else "the start"] += 1

    def _ended(self, process: subprocess.Popen[bytes]) -> bool:
        if process.returncode != 0:
            log = (self.rehearsal.root.parent / "loop.log").read_text("utf-8", "replace")
            self._note([f"the loop ended by itself with {process.returncode}: {log[-2000:]}"])
        return True

    def _finish(self) -> None:
        """In peace, to the end; then everything must be closed, merged and whole."""
        process = self._start()
        try:
            process.wait(timeout=PATIENCE * 3)
        except subprocess.TimeoutExpired:
            self._note(["the last run, which nobody killed, did not end"])
        finally:
            process.kill()
            process.wait()
        self._ended(process)
        self._note([*self.watch.look(), *self.watch.strays(alive=""), *self.watch.last_look()])
        self.outcome.closed += sum(bead.status == "closed" for bead in self.watch.beads())

    def _note(self, problems: list[str]) -> None:
        where = f"plan {self.outcome.plans}, after kill {self.outcome.kills}"
        self.outcome.broken += [f"{where}: {problem}" for problem in problems]

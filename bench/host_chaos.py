"""Kills, stops, cuts off and fills up hosts, server, run and remote at random; the laws must hold."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import rehearsals
from bench.hosts import BEAT, MARK, PATIENCE, Cluster, Host
from bench.laws import Watch
from bench.places import Scratch, temporal_program
from bench.rehearsals import Part
from bench.report import Judge, Row

FAULTS = 200
QUICK_FAULTS = 4
AWAY = 3.0
"""Seconds that a server or remote is away."""


def faults(judge: Judge, scratch: Scratch, *, count: int | None = None, seed: int = 0) -> Iterator[Row]:
    """The measurement: how many faults, and how many broken laws. There must be none."""
    wanted = count or (QUICK_FAULTS if judge.quick else FAULTS)
    outcome = torment(scratch.folder / "hosts", temporal_program(), count=wanted, seed=seed, say=_say)
    for problem in outcome.broken:
        _say(f"host-chaos: {problem}")
    yield Row(f"faults of hosts, seed {seed}: plans of {outcome.beads} beads", str(outcome.plans))
    yield Row(
        "… of each kind", ", ".join(f"{kind} {number}" for kind, number in sorted(outcome.kinds.items()))
    )
    yield Row("… beads that a person had to open again", str(outcome.reopened))
    yield judge.exactly("… faults", outcome.faults, wanted)
    yield judge.exactly("… beads closed at the end", outcome.closed, outcome.plans * outcome.beads)
    yield judge.exactly("… broken laws", len(outcome.broken), 0)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


@dataclass
class HostOutcome:
    """The sum of a torment."""

    beads: int
    plans: int = 0
    closed: int = 0
    reopened: int = 0
    broken: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def faults(self) -> int:
        return self.kinds.total()


def torment(
    folder: Path,
    program: str,
    *,
    count: int,
    seed: int,
    length: int = 3,
    say: Callable[[str], Any] = lambda _text: None,
) -> HostOutcome:
    """Work through as many plans as it takes for that many faults; each plan is finished in peace."""
    luck = random.Random(seed)
    parts = slow_chains(3, length)
    outcome = HostOutcome(len(parts))
    while outcome.faults < count and not outcome.broken:
        outcome.plans += 1
        cluster = Cluster(folder / f"plan-{outcome.plans}", program, parts)
        with cluster.opened():
            HostOrdeal(cluster, luck, outcome, say).run(count)
        say(f"host-chaos: plan {outcome.plans}, {outcome.faults} faults, {len(outcome.broken)} broken laws")
    return outcome


def slow_chains(tracks: int, length: int) -> list[Part]:
    """Tracks side by side whose agents take a second, so that faults meet them at work."""
    names = [part.id for part in rehearsals.chains(tracks, length)]
    found = [Part(name, dev=[{"sleep": 0.5}, Part(name).write, {"sleep": 0.5}]) for name in names]
    return [*found, Part("2.1")]


class HostOrdeal:
    """One plan."""

    def __init__(
        self, cluster: Cluster, luck: random.Random, outcome: HostOutcome, say: Callable[[str], Any]
    ) -> None:
        self.cluster = cluster
        self.luck = luck
        self.outcome = outcome
        self.say = say
        self.watch = Watch(cluster.rehearsal)

    def run(self, count: int) -> None:
        kinds: Sequence[tuple[str, Callable[[], None]]] = (
            ("worker killed", self._kill_worker),
            ("host lost", self._lose_host),
            ("host stopped", self._stop_host),
            ("host cut off", self._cut_host),
            ("disk full", self._fill_disk),
            ("server killed", self._kill_server),
            ("run killed", self._kill_run),
            ("remote away", self._remote_away),
        )
        self.cluster.loop.start()
        self._await_work()
        while self.outcome.faults < count and not self._is_done():
            self._pause(self.luck.uniform(0.5, 4.0))
            if not self.cluster.loop.runs:  # as where it began while the server was away
                self.cluster.loop.start()
                continue
            name, fault = self.luck.choice(kinds)
            self.say(f"host-chaos: {name}")
            fault()
            self.outcome.kinds[name] += 1
        self._finish()

    def _await_work(self) -> None:
        """Until the first agent is at work somewhere: earlier faults would meet nobody."""
        until = time.monotonic() + PATIENCE
        while not any(event.kind == "agent_started" for event in self.cluster.rehearsal.told()):
            if not self.cluster.loop.runs or time.monotonic() > until:
                return
            time.sleep(0.1)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.cluster.loop.runs and time.monotonic() < until:
            time.sleep(0.05)

    def _is_done(self) -> bool:
        beads = self.watch.beads()
        return bool(beads) and all(bead.status == "closed" for bead in beads)

    # --- faults, each with its end ------------------------------------------------------------------

    @property
    def _host(self) -> Host:
        return self.luck.choice(self.cluster.hosts)

    def _kill_worker(self) -> None:
        worker = self._host.worker
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        self._pause(self.luck.uniform(0.0, 2.0))
        worker.start()

    def _lose_host(self) -> None:
        """All of it at once, as when the power is lost; its disk has what it had."""
        host = self._host
        host.send(signal.SIGKILL)
        host.worker.end()
        self._pause(self.luck.uniform(0.0, BEAT * 3))
        host.worker.start()

    def _stop_host(self) -> None:
        """For longer than it takes to be given up; then it goes on as if nothing had been."""
        host = self._host
        host.send(signal.SIGSTOP)
        self._pause(BEAT * self.luck.uniform(1.5, 4.0))
        host.send(signal.SIGCONT)

    def _cut_host(self) -> None:
        host = self._host
        host.plug(there=False)
        self._pause(BEAT * self.luck.uniform(0.5, 4.0))
        host.plug(there=True)

    def _fill_disk(self) -> None:
        host = self._host
        host.fill()
        self._pause(self.luck.uniform(1.0, BEAT * 2))
        host.empty()

    def _kill_server(self) -> None:
        self.cluster.server.end()
        self._pause(self.luck.uniform(0.0, AWAY * 2))
        self.cluster.server.start()

    def _kill_run(self) -> None:
        self.cluster.loop.end()
        self._pause(self.luck.uniform(0.0, 2.0))
        self.cluster.loop.start()

    def _remote_away(self) -> None:
        self.cluster.remote.end()
        self._pause(self.luck.uniform(0.0, AWAY))
        self.cluster.remote.start()

    # --- in peace -------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """To the end; then everything must be closed, published and whole, and no process left anywhere."""
        for _again in range(5):
            if not self._settled():
                return
            if self._is_done():
                break
            self._reopen()
            self.cluster.loop.start()
        self._drain()
        self.watch.cut_off.clear()  # sessions that outlive their run are not interrupted
        self._note([*self.watch.look(), *self.watch.last_look(), *self._remote_laws(), *self._left()])
        self.outcome.closed += sum(bead.status == "closed" for bead in self.watch.beads())

    def _settled(self) -> bool:
        process = self.cluster.loop.process
        try:
            if process is not None:
                process.wait(timeout=PATIENCE * 2)
        except subprocess.TimeoutExpired:
            self._note(["the last run, which nobody touched, did not end"])
            return False
        return True

    def _reopen(self) -> None:
        """What was given up for good is opened again, as a person would."""
        blocked = [bead.id for bead in self.watch.beads() if bead.status == "blocked"]
        self.outcome.reopened += len(blocked)
        if blocked:
            words = [sys.executable, "-m", "beads_ralph", "retry", *blocked]
            subprocess.run(words, cwd=self.cluster.rehearsal.root, capture_output=True, check=False)

    def _drain(self) -> None:
        for host in self.cluster.hosts:
            try:
                host.worker.end(signal.SIGTERM)
            except subprocess.TimeoutExpired:
                self._note([f"the worker of {host.name} did not drain"])

    def _remote_laws(self) -> Iterator[str]:
        """The remote holds every proven commit under its branch, and nothing of ours besides."""
        listing = self.cluster.rehearsal.git("ls-remote", "origin")
        rows = (line.split("\t") for line in listing.splitlines())
        there = {ref: commit for commit, ref in rows}
        for bead in self.watch.beads():
            proven = bead.metadata.proven.commit if bead.metadata.proven else None
            held = there.get(f"refs/heads/{bead.metadata.branch}")
            if held != proven:
                yield f"the remote has {held} for {bead.id}, which was proven with {proven}"
        yield from (f"{ref} is left on the remote" for ref in there if ref.startswith("refs/beads-ralph/"))

    def _left(self) -> Iterator[str]:
        names = {host.mark for host in self.cluster.hosts} | {f"{self.cluster.tag}-run"}
        found = rehearsals.marked(lambda env: env.get(MARK) in names)
        yield from (f"process {pid} is left: {words}" for pid, words in found)
        runs = {path.parent.name for path in self.cluster.rehearsal.journals()}
        found = rehearsals.marked(lambda env: env.get("BEADS_RALPH_RUN_ID") in runs)
        yield from (f"process {pid} of a run is left: {words}" for pid, words in found)

    def _note(self, problems: list[str]) -> None:
        where = f"plan {self.outcome.plans}, after fault {self.outcome.faults}"
        self.outcome.broken += [f"{where}: {problem}" for problem in problems]

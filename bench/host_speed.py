"""How much a bead costs more on other machines, and how the pace grows with their number."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import rehearsals
from bench.hosts import Cluster
from bench.places import Scratch, temporal_program
from bench.rehearsals import Part, Rehearsal
from bench.report import Judge, Row

WORKERS = (1, 2, 4, 8)
QUICK_WORKERS = (1, 2)
NAP = 10.0
"""An agent's sleep, in seconds: it costs no processor, so that the hosts do not slow one another down."""
EACH = 2
"""Beads for each worker."""
SHORT = 8
PATIENCE = 900.0
LOT = 0.15
LINEAR = 90


def speed(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Seconds a bead here and through a server; then beads an hour with more and more workers."""
    folder = scratch.folder / "host-speed"
    here, there = _alone(folder / "local"), _short(folder / "one")
    yield Row("a short bead, engine: local", f"{here:.3f} s")
    yield Row("… engine: temporal, one worker", f"{there:.3f} s")
    yield judge.at_most("… more, in lots of 150 ms", (there - here) / LOT, 1.0)
    first = 0.0
    for count in QUICK_WORKERS if judge.quick else WORKERS:
        pace = count * EACH / _napping(folder / f"napping-{count}", count)
        first = first or pace
        yield Row(f"sleeping agents, {count} workers of one slot", f"{pace * 3600:.0f} beads an hour")
        yield judge.share("… of linear", 100 * pace / (first * count), LINEAR, 200)


def _parts(count: int, seconds: float) -> list[Part]:
    """Beads that wait for nobody."""
    ids = [f"1{rehearsals.letters(number)}.1" for number in range(count)]
    return [Part(name, dev=[{"sleep": seconds}, Part(name).write]) for name in ids]


def _alone(folder: Path) -> float:
    rehearsal = rehearsals.stage(folder / "app", _parts(SHORT, 0.0), parallel=1)
    return _worked_through(rehearsal, rehearsal.command()) / SHORT


def _short(folder: Path) -> float:
    cluster = Cluster(folder, temporal_program(), _parts(SHORT, 0.0), hosts_wanted=1, parallel=1, slots=1)
    with cluster.opened():
        return _worked_through(cluster.rehearsal, cluster.rehearsal.command()) / SHORT


def _napping(folder: Path, workers: int) -> float:
    parts = _parts(workers * EACH, NAP)
    cluster = Cluster(folder, temporal_program(), parts, hosts_wanted=workers, parallel=workers, slots=1)
    with cluster.opened():
        return _worked_through(cluster.rehearsal, cluster.rehearsal.command())


def _worked_through(rehearsal: Rehearsal, words: Sequence[str]) -> float:
    """Seconds from the first claim to the last close, in a run that closes everything."""
    subprocess.run(words, cwd=rehearsal.root, check=True, capture_output=True, timeout=PATIENCE)
    told = rehearsal.told()
    claimed = [rehearsals.seconds_of(event) for event in told if event.kind == "bead_claimed"]
    closed = [rehearsals.seconds_of(event) for event in told if event.kind == "bead_closed"]
    assert len(closed) == len(rehearsal.parts)
    return max(closed) - min(claimed)

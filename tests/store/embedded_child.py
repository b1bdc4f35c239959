"""Processes that work on an embedded store: `python -m tests.store.embedded_child churn ROOT NAME`."""

from __future__ import annotations

import os
import random
import resource
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from beads_ralph.bead.names import CONVOY, GATE, MOLECULE
from beads_ralph.errors import RalphError
from beads_ralph.store.embedded.database import FILE_NAME
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from tests.beads import make_bead
from tests.items import make_item

NOBODY = 65534


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201


def churn(root: Path, name: str) -> None:
    """Create, close, reopen and rewire until killed; say what is done only after it is done."""
    store, choice = EmbeddedStore(root), random.Random(name)
    known: list[str] = []
    for number in count():
        beads = [make_bead(f"bd-{name}-{number}-{letter}") for letter in "abc"]
        needs = choice.sample(known, min(3, len(known)))
        beads.append(make_bead(f"bd-{name}-{number}-d", dependencies=[*needs, beads[0].id, beads[1].id]))
        known += store.create(beads)
        say(beads[-1].id)
        for bead in store.ready(limit=2).beads:
            if store.claim(bead.id, name).won:
                store.close(bead.id, name, "done")
        store.update(beads[0].id, Changes(status="open", dependencies=[beads[1].id]))


def claim(root: Path, name: str) -> None:
    """Claim sixty beads and say which."""
    store = EmbeddedStore(root)
    say("ready")
    sys.stdin.readline()
    won: list[str] = []
    while len(won) < 60 and (found := store.ready(limit=8).beads):
        won += [bead.id for bead in found if len(won) < 60 and store.claim(bead.id, name).won]
    say(*won)


def fork(root: Path, name: str) -> None:
    """Fork while the store is open and another thread writes; parent and children all go on with it."""
    store = EmbeddedStore(root)
    store.create([make_bead(f"bd-{name}")])
    stopped = threading.Event()

    def write() -> None:
        for number in range(200):
            if stopped.is_set():
                return
            store.comment(f"bd-{name}", "writer", str(number))

    writer = threading.Thread(target=write)
    writer.start()
    children = [_forked(store, f"bd-{name}-{number}") for number in range(4)]
    ends = [os.waitpid(child, 0)[1] for child in children]
    stopped.set()
    writer.join()
    store.create([make_bead(f"bd-{name}-last")])
    say(ends)


def _forked(store: EmbeddedStore, bead_id: str) -> int:
    child = os.fork()
    if child == 0:
        end = 1
        try:
            store.create([make_bead(bead_id), make_bead(f"{bead_id}-next", dependencies=[bead_id])])
            end = 0
        finally:
            os._exit(end)  # the parent's loop is not the child's to finish
    return child


def fill(root: Path, name: str) -> None:
    """Create until the disk is full, say how that was told, then go on with more space."""
    store = EmbeddedStore(root)
    store.check()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    stored = 0
    try:
        for number in range(1000):
            store.create([make_bead(f"bd-{name}-{number}-{part}") for part in range(10)])
            stored += 10
    except RalphError as problem:
        say(problem.code, stored)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.create([make_bead(f"bd-{name}-after")])


def attempt(root: Path, name: str) -> None:
    """Say what comes of a write and of a read by somebody who is not root, whom nothing stops."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    for act in (lambda: EmbeddedStore(root).create([make_bead(name)]), lambda: EmbeddedStore(root).ready()):
        try:
            act()
        except RalphError as problem:
            say(problem.code, problem.message)
        else:
            say("done")


def kill_at(root: Path, number: str) -> None:
    """Open the store, and be killed right before that statement; 0 is never."""
    _killed_at(int(number))
    EmbeddedStore(root).check()


def create_killed_at(root: Path, number: str) -> None:
    """Create beads and items, and be killed right before that statement."""
    store = EmbeddedStore(root)
    _killed_at(int(number))
    store.create(
        [
            make_item("bd-root", MOLECULE),
            make_bead("bd-a", parent="bd-root"),
            make_item("bd-gate", GATE, parent="bd-root", dependencies=["bd-a"]),
            make_bead("bd-b", parent="bd-root", dependencies=["bd-gate", "bd-old"]),
            make_item("bd-convoy", CONVOY, tracks=["bd-root", "bd-old"]),
        ]
    )


def _killed_at(number: int) -> None:
    """SQLite tells a connection of every statement before it runs it."""
    passed = count(1)
    connect = sqlite3.connect

    def stop(_statement: str) -> None:
        if next(passed) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def connected(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **named)
        if Path(arguments[0]).name == FILE_NAME:  # not what measures the coverage of this very process
            connection.set_trace_callback(stop)
        return connection

    sqlite3.connect = connected  # type: ignore[assignment]


ACTS: dict[str, Callable[[Path, str], None]] = {
    act.__name__: act for act in (churn, claim, fork, fill, attempt, kill_at, create_killed_at)
}

if __name__ == "__main__":
    ACTS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])

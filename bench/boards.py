"""The boards: what it costs to look at a large run, how soon there is something to see, and long journals."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

from beads_ralph.journal import runs
from bench import places, rehearsals, stores
from bench.places import COMMAND, Scratch
from bench.play_run import AT_ONCE, RUN, told
from bench.report import Judge, Row, seconds

JOURNAL = 2.0
FLAT = 1.05
SHARE = 5.0
BEHIND_SECONDS = 1.0
SLOWED = 1.02
BROWSERS = 20
PATIENCE = 120.0
SEEN = "at work"


def looked_at(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    yield from _journal(judge, scratch)
    yield from _beside(judge, scratch)
    yield from _slowed(judge, scratch)


# --- a long journal -----------------------------------------------------------------------------------


def _journal(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Open a journal, against a process that only parses it, by turns; then follow what is added."""
    count = 20_000 if judge.quick else 1_000_000
    root = scratch.repository()
    path = runs.RunFolder(root / ".ralph", RUN).journal
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(
            json.dumps(row) + "\n" for row, _ in zip(told(count // 200), range(count), strict=False)
        )
    words = [sys.executable, "-m", "bench.open_journal"]
    took: dict[str, list[float]] = {"json": [], "board": []}
    for way in ("json", "board", "board", "json"):
        took[way].append(json.loads(places.run([*words, way, path], places.PROJECT).output)["cpu"])
    alone, ours = min(took["json"]), min(took["board"])
    yield Row(f"a journal of {count:,} events, with json alone", seconds(alone))
    yield judge.at_most("… opened by a board, against that", ours / alone, JOURNAL, f" ({seconds(ours)})")
    followed = json.loads(places.run([*words, "follow", path], places.PROJECT).output)
    grown = followed["after"] / followed["before"]
    yield judge.at_most(f"… its memory after {followed['more']:,} more, against before", grown, FLAT)


# --- beside a run -------------------------------------------------------------------------------------


@contextmanager
def _played(root: Path, count: int) -> Iterator[None]:
    """A run in a process of its own: what it starts itself would count as its agents."""
    words = [sys.executable, "-m", "bench.play_run", str(root), str(count)]
    both = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, cwd=places.PROJECT, text=True, **both) as player:  # type: ignore[call-overload]
        if player.stdout.readline().strip() != "plays":
            raise subprocess.SubprocessError("nobody plays the run")
        yield
        player.stdin.close()


def _beside(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    count, lasting, paints = (60, 4.0, 2) if judge.quick else (500, 30.0, 7)
    root = scratch.repository()
    with _played(root, count):
        first, empty = _paints(root, paints)
        name = f"{count} beads, {min(AT_ONCE, count // stores.CHAIN)} at once"
        yield Row(
            f"{name}: first paint in the terminal", f"{seconds(first)} ({first / empty:.0f} empty pythons)"
        )
        behind = first - 10 * empty
        ok = None if judge.quick else behind <= BEHIND_SECONDS
        yield Row("… later than ten empty pythons", f"{behind:.2f} s", f"≤ {BEHIND_SECONDS:g} s", ok)
        with at_terminal(root) as board:
            yield judge.share("… the board's share of one core", _share(board, lasting), 0, SHARE)
        yield from _browsers(judge, root, lasting)


def _paints(root: Path, times: int) -> tuple[float, float]:
    """Medians, by turns: until a board shows what runs, and of an interpreter that does nothing."""
    first: list[float] = []
    empty: list[float] = []
    for _ in range(times + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        empty.append(time.perf_counter() - start)
        start = time.perf_counter()
        with at_terminal(root):
            first.append(time.perf_counter() - start)
    return median(first[1:]), median(empty[1:])


@contextmanager
def at_terminal(root: Path) -> Iterator[int]:
    """A board at a real terminal, from when it shows what runs; its process id."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(root)
        os.execve(COMMAND, [str(COMMAND), "board"], {**os.environ, "TERM": "xterm-256color"})  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    seen, painted = bytearray(), threading.Event()

    def read() -> None:
        try:
            while part := os.read(terminal, 65536):
                if not painted.is_set():
                    seen.extend(part)
                    if SEEN.encode() in seen:
                        painted.set()
        except OSError:  # how a terminal says that nobody writes to it any more
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        if not painted.wait(PATIENCE):
            raise subprocess.SubprocessError(f"the board showed nothing: {bytes(seen[-500:])!r}")
        yield child
    finally:
        os.write(terminal, b"q")
        os.waitpid(child, 0)
        os.close(terminal)
        reader.join()


def _share(pid: int, lasting: float) -> float:
    """Of one core, in percent, once it has come to rest after its start."""
    time.sleep(min(lasting / 4, 3.0))
    began, before = time.monotonic(), _cpu(pid)
    time.sleep(lasting)
    return 100 * (_cpu(pid) - before) / (time.monotonic() - began)


def _cpu(pid: int) -> float:
    facts = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


def _browsers(judge: Judge, root: Path, lasting: float) -> Iterator[Row]:
    """As many event streams as browsers would hold, each read as fast as it comes."""
    words = [str(COMMAND), "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = json.loads(_answer(server))["data"]["port"]
            end = time.monotonic() + lasting + 10
            with ThreadPoolExecutor(BROWSERS) as streams:
                got = [streams.submit(_follow, port, end) for _ in range(BROWSERS)]
                share = _share(server.pid, lasting)
                changes = [one.result() for one in got]
        finally:
            server.terminate()
    yield judge.share(f"… the web board's with {BROWSERS} event streams", share, 0, SHARE)
    yield judge.exactly("… streams that were told of changes", sum(one > 0 for one in changes), BROWSERS)


def _answer(server: subprocess.Popen[str]) -> str:
    said = ""
    while server.stdout and not said.endswith("\n}\n"):
        line = server.stdout.readline()
        if not line:
            raise subprocess.SubprocessError("the server did not start")
        said += line
    return said


def _follow(port: int, end: float) -> int:
    """How many changes came."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as link:
        link.request("GET", "/api/v1/events")
        answer, changes = link.getresponse(), 0
        while time.monotonic() < end and (line := answer.readline()):
            changes += line.startswith(b"event: change")
        return changes


# --- the run itself -----------------------------------------------------------------------------------


def _slowed(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """A whole run alone and with a board that looks at it, by turns; the least of each."""
    tracks, length, turns = (2, 2, 1) if judge.quick else (4, 12, 3)
    parts = rehearsals.chains(tracks, length)
    took: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(turns):
        for watched in (False, True) if turn % 2 == 0 else (True, False):
            folder = scratch.folder / f"slowed-{turn}-{watched}" / "app"
            rehearsal = rehearsals.stage(folder, parts, parallel=tracks)
            places.run([COMMAND, "mason", rehearsals.PLAN, "--json"], rehearsal.root)
            took[watched].append(_run(rehearsal.root, watched=watched))
    alone, beside = min(took[False]), min(took[True])
    yield Row(f"a run of {len(parts)} beads, {tracks} at once", seconds(alone))
    yield judge.at_most("… with a board beside it, against alone", beside / alone, SLOWED)


def _run(root: Path, *, watched: bool) -> float:
    start = time.perf_counter()
    with subprocess.Popen([COMMAND, "run", "--json"], cwd=root, stdout=subprocess.DEVNULL) as process:
        if watched:
            with at_terminal(root):
                process.wait()
                return time.perf_counter() - start
        process.wait()
        return time.perf_counter() - start

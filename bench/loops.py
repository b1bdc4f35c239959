"""The loop: what it adds to git and agents, how soon the next bead starts, what many at once cost."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, quantiles

from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.journal.events import AgentEnded, AgentStarted, Event, VerifierEnded
from beads_ralph.store.bd.bd_store import initialise
from beads_ralph.store.bd.cli import FOREIGN_TYPES
from bench import git_processes, places, rehearsals
from bench.places import COMMAND, Scratch
from bench.rehearsals import Part, Rehearsal, seconds_of
from bench.report import Judge, Row, seconds
from bench.stores import NO_BD

PARALLEL = 4
OVERHEAD = 1.5
DISPATCH_MS = 50.0
BD_DISPATCH = 1.2
BD_START = 2.2
FLAT = 1.25
SAMPLE_SECONDS = 0.1
PLAYER = (sys.executable, "-P", "-m", "beads_ralph.agents.script_player")
GIT_TRIES = 5
SHOWN = 0.01


def _compiled(rehearsal: Rehearsal) -> Rehearsal:
    places.run([COMMAND, "mason", rehearsals.PLAN, "--json"], rehearsal.root)
    return rehearsal


# --- overhead -----------------------------------------------------------------------------------------


def overhead(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """A whole run against the same git commands and processes without us: bare, ours, bare."""
    length = 3 if judge.quick else 50
    parts = rehearsals.chains(PARALLEL, length)
    folder = scratch.folder / "overhead"
    bare = [Bare(folder / "bare-1", parts).run()]
    rehearsal = _compiled(rehearsals.stage(folder / "ours" / "app", parts, parallel=PARALLEL))
    ours = places.run([COMMAND, "run", "--json"], rehearsal.root)
    if not judge.quick:
        bare.append(Bare(folder / "bare-2", parts).run())
    shutil.rmtree(folder / "bare-1")
    count = len(parts)
    wall, work = mean(each[0] for each in bare), mean(each[1] for each in bare)
    yield Row(f"bare git and agents, {count} beads, {PARALLEL} at once", _spent(wall, work, count))
    yield Row(f"beads-ralph run, {count} beads, {PARALLEL} at once", _spent(ours.wall, ours.cpu, count))
    of = f" (processor {ours.cpu / work:.2f} x)"
    yield judge.at_most("a whole run against what it cannot avoid", ours.wall / wall, OVERHEAD, of)
    yield git_processes.row(folder / "traced")
    yield Row("of the time that its beads are at work:", "")
    shares = _shares(rehearsal.told())
    scratch.kept["overhead"] = {"beads": count, "wall": ours.wall, "cpu": ours.cpu, "shares": dict(shares)}
    yield from (Row(f"… {name}", f"{part:.0%}") for name, part in shares if part >= SHOWN)


def _spent(wall: float, work: float, count: int) -> str:
    return f"{seconds(wall)}, processor {seconds(work)} ({seconds(work / count)} a bead)"


@dataclass(frozen=True)
class Bare:
    """The same beads by hand: every command that nobody could leave out, in the same order."""

    folder: Path
    parts: Sequence[Part]

    @property
    def root(self) -> Path:
        return self.folder / "app"

    def run(self) -> tuple[float, float]:
        """Time on the clock, and of the processors."""
        rehearsals.stage(self.root, self.parts, parallel=PARALLEL)
        tracks: dict[str, list[Part]] = {}
        for part in self.parts:
            tracks.setdefault(part.id.partition(".")[0], []).append(part)
        before, start = places.processor_time(), time.perf_counter()
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(self._track, tracks.values()))
        return time.perf_counter() - start, places.processor_time() - before

    def _track(self, parts: Sequence[Part]) -> None:
        self._bead(parts[0], None)
        for earlier, part in pairwise(parts):
            self._bead(part, earlier)

    def _bead(self, part: Part, earlier: Part | None) -> None:
        place = self.folder / "worktrees" / part.id
        self._git(self.root, "branch", _branch(part), "main")  # `add -b` could not be tried again
        self._git(self.root, "worktree", "add", "--quiet", str(place), _branch(part))
        if earlier is not None:
            self._git(place, "merge", "--quiet", "--no-ff", "-m", "merge", _branch(earlier))
        base = self._git(place, "rev-parse", "HEAD")
        check = self._checkout(part, base, "before")
        self._verify(part, check)
        self._discard(check)
        self._agent(part, "dev", place)
        self._git(place, "status", "--porcelain", "-z")
        self._git(place, "add", "--all")
        self._git(place, "commit", "--quiet", "--message", part.id)
        commit = self._git(place, "rev-parse", "HEAD")
        self._git(place, "diff", "--name-only", "-z", base, "HEAD")
        check = self._checkout(part, commit, "after")
        self._verify(part, check)
        self._agent(part, "qa", check)
        self._discard(check)
        ref = f"refs/pull/{1 + list(self.parts).index(part)}/head"
        self._git(self.root, "update-ref", ref, commit)
        self._git(self.root, "rev-parse", ref)

    def _git(self, cwd: Path, *words: str) -> str:
        """Several at once in one repository may get into one another's way; ours try again, too."""
        for left in reversed(range(GIT_TRIES)):
            done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, check=not left)
            if done.returncode == 0:
                break
            time.sleep(0.05)
        return done.stdout.strip()

    def _checkout(self, part: Part, commit: str, name: str) -> Path:
        path = self.folder / "checks" / f"{part.id}-{name}"
        self._git(self.root, "worktree", "add", "--quiet", "--detach", str(path), commit)
        return path

    def _discard(self, path: Path) -> None:
        self._git(self.root, "worktree", "remove", "--force", str(path))

    def _verify(self, part: Part, check: Path) -> None:
        subprocess.run(["/bin/sh", "-c", part.verifier], cwd=check, capture_output=True, check=False)

    def _agent(self, part: Part, role: str, cwd: Path) -> None:
        env = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "BEADS_RALPH_BEAD": f"bd-{part.id.replace('.', '-')}-part",
            "BEADS_RALPH_ROLE": role,
            "BEADS_RALPH_ATTEMPT": "1",
            "BEADS_RALPH_SCRIPT": rehearsals.SCRIPT,
        }
        subprocess.run(PLAYER, cwd=cwd, env=env, input=b"do it", capture_output=True, check=True)


def _branch(part: Part) -> str:
    return f"feature/{part.id.replace('.', '-')}"


STAGES = {
    "worktree_prepared": "worktree",
    "warning_given": "commit",
    "baseline_taken": "baseline",
    "verdict_given": "verdict",
    "pull_request_opened": "proposal",
    "bead_closed": "close",
}


def _shares(told: Sequence[Event]) -> list[tuple[str, float]]:
    """Each stretch between two events of a bead counts for what ended with the second; largest first."""
    spent: defaultdict[str, float] = defaultdict(float)
    last: dict[str, float] = {}
    for event in told:
        if event.bead is None:
            continue
        now = seconds_of(event)
        if event.kind != "bead_claimed" and event.bead in last:
            taken = now - last[event.bead]
            own = min(_seconds(event), taken)
            spent[_stage(event)] += own or taken
            if own:
                spent[f"before {_stage(event)}"] += taken - own
        last[event.bead] = now
    whole = sum(spent.values()) or 1.0
    return [(name, spent[name] / whole) for name in sorted(spent, key=lambda name: -spent[name])]


def _stage(event: Event) -> str:
    match event:
        case VerifierEnded(stage=stage):
            return "baseline" if stage == "baseline" else "verifiers"
        case AgentEnded(call=call):
            return f"{call.role} agent"
        case AgentStarted(call=call):
            return f"before {call.role} agent"
        case _:
            return STAGES.get(event.kind, "rest")


def _seconds(event: Event) -> float:
    """How long that took which ended with it; 0 where it does not say."""
    match event:
        case VerifierEnded(seconds=seconds) | AgentEnded(call=AgentCall(seconds=seconds)):
            return seconds
        case _:
            return 0.0


# --- dispatch -----------------------------------------------------------------------------------------


def dispatch(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """From a bead's close to the claim of the one that waited for it."""
    tracks, length = (2, 4) if judge.quick else (PARALLEL, 25)
    folder = scratch.folder / "dispatch"
    staged = rehearsals.stage(folder / "embedded" / "app", rehearsals.chains(tracks, length), parallel=tracks)
    rehearsal = _compiled(staged)
    places.run([COMMAND, "run", "--json"], rehearsal.root)
    claimed = _latencies(rehearsal, "bead_claimed")
    worked = _latencies(rehearsal, "agent_started")
    half = median(claimed) * 1000
    value = f"{half:.0f} ms (p99 {_p99(claimed) * 1000:.0f} ms, of {len(claimed)})"
    ok = None if judge.quick else half <= DISPATCH_MS
    yield Row("embedded store: close to the next claim, p50", value, f"≤ {DISPATCH_MS:g} ms", ok)
    value = f"{seconds(median(worked))} (p99 {seconds(_p99(worked))})"
    yield Row("embedded store: close to the next agent's start, p50", value)
    yield from _bd_dispatch(judge, folder)


def _latencies(rehearsal: Rehearsal, kind: str, since: str = "bead_closed") -> list[float]:
    """For every bead but the first of its line: from the close, or the proof, of the one before it."""
    told = rehearsal.told()
    closed = {_sprint(event): seconds_of(event) for event in told if event.kind == since}
    began: dict[str, float] = {}
    for event in told:
        if event.kind == kind:
            began.setdefault(_sprint(event), seconds_of(event))
    before = {
        later.id: earlier.id
        for earlier, later in pairwise(rehearsal.parts)
        if earlier.id.partition(".")[0] == later.id.partition(".")[0]
    }
    return [began[part] - closed[before[part]] for part in began if part in before]


def _sprint(event: Event) -> str:
    """`bd-1a-2-part-1a-2` → `1a.2`"""
    _, phase, number, *_ = str(event.bead).split("-")
    return f"{phase}.{number}"


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[98] if len(values) > 1 else values[0]


def _bd_dispatch(judge: Judge, folder: Path) -> Iterator[Row]:
    """The same on bd, one line alone, against the commands that it takes at least; then four lines at once.

    They take turns: the agent of each bead runs them by hand on a database that the same plan made and in
    which as many beads are closed, while the loop itself waits for it and has no bd at work.
    """
    bd = places.bd()
    if bd is None:
        yield NO_BD
        return
    os.environ["PATH"] = f"{Path(bd).parent}{os.pathsep}{os.environ['PATH']}"
    plain = rehearsals.chains(1, 4 if judge.quick else 25)
    bare = _on_bd(folder / "bare-bd" / "app", plain, bd)
    file = folder / "bare-bd" / "times"
    parts = [_with_bare(plain, number, bd, bare.root, file) for number in range(len(plain))]
    rehearsal = _on_bd(folder / "bd" / "app", parts, bd)
    places.run([COMMAND, "run", "--json"], rehearsal.root)
    times = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    yield from _compared(judge, rehearsal, times)
    at_once = _on_bd(folder / "bd-at-once" / "app", rehearsals.chains(4, 3 if judge.quick else 6), bd)
    places.run([COMMAND, "run", "--json", "--max-parallel", "4"], at_once.root)
    worked = _latencies(at_once, "agent_started", "verdict_given")
    of = f"(longest {seconds(max(worked))}, of {len(worked)})"
    yield Row("bd, four lines: proof to the next agent's start, p50", f"{seconds(median(worked))} {of}")


def _on_bd(root: Path, parts: Sequence[Part], bd: str) -> Rehearsal:
    rehearsal = rehearsals.stage(root, parts, parallel=2, store="bd")
    initialise(rehearsal.root, bd)
    return _compiled(rehearsal)


def _with_bare(parts: Sequence[Part], number: int, bd: str, root: Path, file: Path) -> Part:
    part, earlier = parts[number], _bead(parts[number - 1]) if number else ""
    script = Path(__file__).with_name("bare_bd.py")
    words = [sys.executable, "-I", str(script), bd, str(root), str(file), earlier, _bead(part), FOREIGN_TYPES]
    return replace(part, dev=[{"run": shlex.join(words)}, part.write])


def _bead(part: Part) -> str:
    """`1a.2` → `bd-1a-2-part-1a-2`"""
    number = part.id.replace(".", "-")
    return f"bd-{number}-part-{number}"


def _compared(judge: Judge, rehearsal: Rehearsal, times: Sequence[Sequence[float]]) -> Iterator[Row]:
    claimed = _latencies(rehearsal, "bead_claimed")
    worked = _latencies(rehearsal, "agent_started", "verdict_given")
    _, ready, claim = zip(*times, strict=True)
    bare, whole = [sum(one[1:]) for one in times], list(map(sum, times))
    parts = f"ready {seconds(median(ready))}, claim {seconds(median(claim))}"
    value = f"{seconds(median(bare))} (p99 {seconds(_p99(bare))}, of {len(bare)}; {parts})"
    yield Row("bd: ready and claim, run bare, p50", value)
    of = f" ({seconds(median(claimed))}, of {len(claimed)})"
    ratio = median(claimed) / median(bare)
    yield judge.at_most("bd: close to the next claim against them, p50", ratio, BD_DISPATCH, of)
    yield Row("… p99", f"{_p99(claimed) / _p99(bare):.2f} x ({seconds(_p99(claimed))})")
    of = f" ({seconds(median(worked))}; bare close, ready and claim {seconds(median(whole))})"
    name, ratio = "bd: proof to the next agent's start against all three, p50", median(worked) / median(whole)
    yield judge.at_most(name, ratio, BD_START, of)


# --- scale --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """The loop's process at one moment."""

    memory: int
    files: int
    closed: int
    working: int


def scale(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Many beads, many at once: does the loop's process grow, and is anything left at the end?"""
    tracks, length = (8, 3) if judge.quick else (50, 10)
    parts = rehearsals.chains(tracks, length)
    rehearsal = rehearsals.stage(scratch.folder / "scale" / "app", parts, parallel=tracks)
    _compiled(rehearsal)
    start = time.perf_counter()
    code, samples = _watched(rehearsal)
    taken = time.perf_counter() - start
    name = f"{len(parts)} beads, {tracks} at once"
    closed = sum(event.kind == "bead_closed" for event in rehearsal.told())
    yield Row(f"{name}: the whole run", f"{seconds(taken)} ({seconds(taken / len(parts))} a bead)")
    yield judge.exactly("… exit code", code, 0)
    yield judge.exactly("… beads closed", closed, len(parts))
    yield from _growth(judge, samples, len(parts))
    runs = {path.parent.name for path in rehearsal.journals()}
    left = list(rehearsals.marked(lambda env: env.get("BEADS_RALPH_RUN_ID") in runs))
    yield judge.exactly("… processes left", len(left), 0)
    yield judge.exactly("… check-outs left", len(rehearsal.checkouts()), 0)


def _watched(rehearsal: Rehearsal) -> tuple[int, list[Sample]]:
    """Run the loop, and look at its process from outside."""
    words = [str(COMMAND), "run", "--json"]
    samples: list[Sample] = []
    with subprocess.Popen(words, cwd=rehearsal.root, stdout=subprocess.DEVNULL) as process:
        looking = threading.Thread(target=_look, args=(process, rehearsal, samples))
        looking.start()
        process.wait()
        looking.join()
    return process.returncode, samples


def _look(process: subprocess.Popen[bytes], rehearsal: Rehearsal, samples: list[Sample]) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    entry = Path(f"/proc/{process.pid}")
    position, claimed, closed = 0, 0, 0
    while process.poll() is None:
        for path in rehearsal.journals()[-1:]:
            with path.open("rb") as file:
                file.seek(position)
                fresh = file.read()
            position += len(fresh)
            claimed += fresh.count(b'"kind": "bead_claimed"')
            closed += fresh.count(b'"kind": "bead_closed"')
        try:
            memory = int((entry / "statm").read_text("ascii").split()[1]) * page
            files = sum(1 for _ in (entry / "fd").iterdir())
        except (OSError, IndexError):
            break
        samples.append(Sample(memory, files, closed, claimed - closed))
        time.sleep(SAMPLE_SECONDS)


def _growth(judge: Judge, samples: Sequence[Sample], total: int) -> Iterator[Row]:
    """Full house early against full house late: whatever each bead left behind would show."""
    most = max((sample.working for sample in samples), default=0)
    busy = [sample for sample in samples if sample.working >= most * 0.9]
    early = [sample for sample in busy if total * 0.1 <= sample.closed < total * 0.4] or busy[:1]
    late = [sample for sample in busy if sample.closed >= total * 0.6] or busy[-1:]
    first = next((sample for sample in samples if sample.working), samples[0])
    memory = [median(sample.memory for sample in group) for group in (early, late)]
    files = [median(sample.files for sample in group) for group in (early, late)]
    each = max(memory[0] - first.memory, 0) / max(most - first.working, 1)
    of = f" ({memory[0] / 1e6:.0f} MB, {memory[1] / 1e6:.0f} MB; {each / 1e3:.0f} kB a running bead)"
    yield judge.at_most(f"… memory with {most} running, late against early", memory[1] / memory[0], FLAT, of)
    of = f" ({files[0]:.0f}, {files[1]:.0f})"
    yield judge.at_most("… open files, late against early", files[1] / files[0], FLAT, of)

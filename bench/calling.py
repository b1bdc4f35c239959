"""One call of an agent's program: bare, or as a run makes it."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from beads_ralph.agents.protocol import AGENTS, AgentTask, Reply
from beads_ralph.agents.reply_reader import LONGEST_LINE, output_of
from beads_ralph.process import process_tree
from beads_ralph.process.executors.local import LocalExecutor
from beads_ralph.process.jobs import Exit, Job, Transcript
from beads_ralph.process.process_table import proportional, start_of
from beads_ralph.process.process_tree import Family
from beads_ralph.process.supervise import MARK, entry, given, marked
from bench import places
from tests.agents.running import spec, task, transcript

LOOSE_MB = 64 * 1024
"""A limit that nobody reaches: the watch over memory is at work all the same."""
SAMPLE_SECONDS = 0.02
SETTLED = 0.02
ENOUGH_SECONDS = 60.0


@dataclass(frozen=True)
class Spent:
    wall: float
    cpu: float
    began: float
    """By the clock that every process of the machine shares."""
    run: str


@dataclass(frozen=True)
class Call:
    """What is asked of which adapter's program, and where its output goes."""

    name: str
    asked: AgentTask
    transcript: Transcript

    @classmethod
    def of(cls, name: str, program: Path, folder: Path, run: str, env: Mapping[str, str]) -> Call:
        """`run` must be new: sessions are told apart by it."""
        for part in ("worktree", "transcripts"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        agent = spec(executable=str(program), env=dict(env))
        asked = task(folder / "worktree", agent, prompt="Count to 2000.", timeout=300.0)
        return cls(name, asked, transcript(folder / "transcripts", run))

    def job(self) -> Job:
        made = AGENTS[self.name].command(self.asked, self.transcript)
        return replace(made, memory_limit_mb=LOOSE_MB)

    def reply(self, job: Job, ended: Exit) -> Reply:
        return AGENTS[self.name].reply(ended, output_of(job, LONGEST_LINE))


def bare(call: Call) -> Spent:
    """The very same command line, environment and input; nobody looks at what it prints."""
    job = marked(call.job())
    began, before = time.monotonic(), places.processor_time()
    with _running(job) as process:
        code = process.wait(job.timeout)
        spent = _spent(call, began, before)
    _require(code == 0, f"{job.argv[0]} ended with {code}")
    return spent


def streamed(call: Call) -> Spent:
    """As a run does it: from the task to the answer that was read from the transcript."""
    began, before = time.monotonic(), places.processor_time()
    job = call.job()
    ended = asyncio.run(LocalExecutor().run(job))
    reply = call.reply(job, ended)
    spent = _spent(call, began, before)
    problem = ended.cut_short or reply.trouble or ended.code
    _require(not problem, f"{call.name}: {problem} {reply.detail} {ended.stderr[-200:]}")
    return spent


def most_memory(call: Call) -> tuple[int, int]:
    """The most bytes that all its processes had at one moment, what they share counted once, and how many
    there were then."""
    job = marked(call.job())
    with _running(job) as process:
        family = Family(entry(job), leader=process.pid, since=start_of(process.pid))
        looks = list(_looks(family, lambda: process.poll() is None))
    return max(looks)


def _looks(family: Family, at_work: Callable[[], bool]) -> Iterator[tuple[int, int]]:
    while at_work():
        members = family.find()
        yield sum(proportional(one.pid) for one in members), len(members)
        time.sleep(SAMPLE_SECONDS)


@dataclass(frozen=True)
class Patience:
    """How many pairs there are to be: more while the least times are still falling, within a minute."""

    least: int
    most: int
    warm: int = 1
    """Pairs before the first that counts: what lies on disk comes into memory with them."""


def by_turns(make: Callable[[], Call], pairs: Patience) -> tuple[list[Spent], list[Spent]]:
    """Bare, ours, ours, bare, …: a slow minute meets both."""
    spent: dict[Callable[[Call], Spent], list[Spent]] = {bare: [], streamed: []}
    until = time.monotonic() + ENOUGH_SECONDS
    for turn in range(1 - pairs.warm, pairs.most + 1):
        for way in (bare, streamed)[:: 1 if turn % 2 else -1]:
            done = way(make())
            if turn > 0:
                spent[way].append(done)
        enough = time.monotonic() > until or all(map(_settled, spent.values()))
        if turn >= pairs.least and enough:
            break
    return spent[bare], spent[streamed]


def _settled(spent: Sequence[Spent]) -> bool:
    """Other programs only ever add to a time. Two that are both the least have met none of them."""
    times = sorted(each.wall for each in spent)[:2]
    return len(times) == 2 and times[1] <= times[0] * (1 + SETTLED)


@contextmanager
def _running(job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """Nothing of it is left after the block, however that ends."""
    quiet, env = subprocess.DEVNULL, dict(job.env or {})
    with (
        given(job.stdin) as stdin,
        subprocess.Popen(job.argv, cwd=job.cwd, env=env, stdin=stdin, stdout=quiet, stderr=quiet) as process,
    ):
        try:
            yield process
        finally:
            process_tree.sweep(MARK, job.mark)


def _spent(call: Call, began: float, before: float) -> Spent:
    run = call.transcript.out.stem
    return Spent(time.monotonic() - began, places.processor_time() - before, began, run)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise subprocess.SubprocessError(problem)

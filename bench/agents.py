"""Real agent CLIs on a scripted model: how soon they ask it, what memory they need, and what we add."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from beads_ralph.agents.protocol import AGENTS
from bench import calling, floods, places
from bench.calling import Call, Patience, Spent
from bench.places import Scratch
from bench.report import Judge, Row, seconds
from tests.real.clis import DEFAULT, IDENTITY, found, prepare
from tests.real.outside import Proxy

STREAMED = 1.05
PAIRS = Patience(10, 40)
QUICK_PAIRS = Patience(1, 1, warm=0)
AT_ONCE_PAIRS = Patience(60, 60)
RULE = {
    "when": "",
    "run": ["seq 1 2000"],
    "say": 'Counted.\n\n```json\n{"status": "pass", "message": "counted"}\n```',
}


def agents(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    folder = scratch.folder / "agents"
    with _model() as address, Proxy() as proxy:
        stages = [Stage(name, folder, address, proxy.env) for name in DEFAULT]
        shortest = yield from _each(judge, stages)
        yield judge.exactly("requests of theirs to other machines", len(proxy.asked), 0)
    yield from _added(judge, folder / "at-once", shortest)
    yield from floods.floods(judge, folder / "floods")


@contextmanager
def _model() -> Iterator[str]:
    """The scripted model, in a process of its own: its work is no part of ours."""
    words = [sys.executable, "-m", "tests.model"]
    with subprocess.Popen(words, cwd=places.PROJECT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.send_signal(signal.SIGINT)


@dataclass(frozen=True)
class Stage:
    """Where a CLI is called, and which model answers it."""

    name: str
    folder: Path
    address: str
    env: Mapping[str, str]

    @property
    def program(self) -> Path | None:
        return found(self.name, places.agents())

    def call(self) -> Call:
        """A new one, with a run of its own at the model."""
        assert self.program is not None
        run = uuid.uuid4().hex
        self._ask(f"/runs/{run}/script", {"rules": [RULE]})
        home, tmp = self.folder / "home", self.folder / "tmp"
        for path in (home, tmp):
            path.mkdir(parents=True, exist_ok=True)
        cli = prepare(self.name, self.program, home, f"{self.address}/s/script/{run}")
        env = {**IDENTITY, **self.env, **cli.env, "TMPDIR": str(tmp)}
        return Call.of(self.name, cli.program, self.folder, run, env)

    def start(self, spent: Spent) -> float:
        """How long it took until it first asked the model something."""
        told = self._ask(f"/runs/{spent.run}/requests")["requests"]
        return min(float(request["at"]) for request in told if request["wire"]) - spent.began

    def _ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        method = "GET" if data is None else "PUT"
        request = urllib.request.Request(self.address + path, data, method=method)  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)


def _each(judge: Judge, stages: Sequence[Stage]) -> Generator[Row, None, float]:
    """Gives the shortest call of all, too: it has the least room for us."""
    shortest = inf
    for stage in stages:
        title = AGENTS[stage.name].profile.title
        if stage.program is None:
            yield Row(title, "not found, so not measured")
            continue
        bare, ours = calling.by_turns(stage.call, QUICK_PAIRS if judge.quick else PAIRS)
        yield Row(f"{title}: from its start to its first request", _least(list(map(stage.start, bare))))
        memory, processes = calling.most_memory(stage.call())
        yield Row(f"{title}: most memory at once", f"{memory / 1e6:.0f} MB (processes: {processes})")
        whole = _least([each.wall for each in bare])
        yield Row(f"{title}: a whole call, bare", f"{whole}, processor {seconds(_cpu(bare))}")
        yield judge.at_most(f"{title}: with us against bare, of {len(bare)}", *_ratio(bare, ours))
        shortest = min(shortest, *(each.wall for each in bare))
    return shortest


def _least(times: Sequence[float]) -> str:
    return f"{seconds(min(times))} (median {seconds(median(times))})"


def _cpu(spent: Sequence[Spent]) -> float:
    return min(each.cpu for each in spent)


def _ratio(bare: Sequence[Spent], ours: Sequence[Spent]) -> tuple[float, float, str]:
    least = min(each.wall for each in ours) / min(each.wall for each in bare)
    pairs = median(mine.wall / theirs.wall for theirs, mine in zip(bare, ours, strict=True))
    return least, STREAMED, f" (median pair {pairs:.2f} x, processor {_cpu(ours) / _cpu(bare):.2f} x)"


def _added(judge: Judge, folder: Path, shortest: float) -> Iterator[Row]:
    """Of a program that ends at once nearly all is ours, and a large one's noise is not in it."""
    program = places.script(folder / "claude", f"exec cat {floods.recorded('claude')}")
    pairs = QUICK_PAIRS if judge.quick else AT_ONCE_PAIRS
    bare, ours = calling.by_turns(lambda: Call.of("claude", program, folder, uuid.uuid4().hex, {}), pairs)
    more = median(mine.wall - theirs.wall for theirs, mine in zip(bare, ours, strict=True))
    cpu = median(mine.cpu - theirs.cpu for theirs, mine in zip(bare, ours, strict=True))
    yield Row("what we add to any call, however short", f"{seconds(more)}, processor {seconds(cpu)}")
    if shortest < inf:
        yield judge.at_most("… with it, the shortest call above against bare", 1 + more / shortest, STREAMED)

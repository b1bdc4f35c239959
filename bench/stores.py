"""The stores: beads in, ready, claims, and many processes at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from beads_ralph.bead.model import Bead
from beads_ralph.compile import load
from beads_ralph.compile.build import build
from beads_ralph.compile.setting import Setting
from beads_ralph.plan import parse
from beads_ralph.store.bd import shape
from beads_ralph.store.bd.bd_store import BdStore, initialise
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.query import Query
from bench import places, plans
from bench.places import Scratch
from bench.report import Judge, Row, seconds

LOADS = 5
CREATES = 10
FASTER = 100.0
OVERHEAD = 1.1
GROWTH = 3.0
CHAIN = 10
READY_LIMIT = 20
READY_TURNS = 200
CLAIM_TURNS = 80
BATCH = 10_000
WORKERS = 8

NO_BD = Row("bd", "not found, so not measured")


def planned(sprints: int, root: Path) -> load.Batch:
    """A made-up plan, compiled."""
    plan = parse(plans.plan(sprints), "plan.md")
    built = build(plan, Setting(root, "plan.md", datetime.now(UTC)))
    return load.require_valid(built, [sprint.id.text for sprint in plan.sprints])


def compiled(sprints: int, root: Path) -> list[Bead]:
    """The beads of a made-up plan."""
    return [bead for bead in planned(sprints, root).beads if isinstance(bead, Bead)]


def chained(count: int, length: int, root: Path, plan_file: str = "") -> list[Bead]:
    """Beads in chains: each waits for the one before, so that one in `length` is ready."""
    pattern = compiled(1, root)[0]
    if plan_file:
        metadata = pattern.metadata.model_copy(update={"plan_file": plan_file})
        pattern = pattern.model_copy(update={"metadata": metadata})
    return [
        pattern.model_copy(
            update={
                "id": f"bd-{number:06d}",
                "priority": number % 5,
                "dependencies": [f"bd-{number - 1:06d}"] if number % length else [],
            }
        )
        for number in range(count)
    ]


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


# --- beads in ---------------------------------------------------------------------------------------


def embedded_load(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """A whole plan into the embedded store as mason does it, against one `bd create` a bead."""
    bd = places.bd()
    if bd is None:
        yield NO_BD
        return
    count = 50 if judge.quick else 1_000
    taken = [_load(scratch.repository(), count) for _ in range(2 if judge.quick else LOADS)]
    one_by_one = _creates(bd, scratch.repository(), 2 if judge.quick else CREATES)
    ours, theirs = median(taken) / count, median(one_by_one)
    yield Row(f"embedded store, {count:,} beads", f"{seconds(median(taken))} ({seconds(ours)} a bead)")
    yield Row(f"bd create, one bead (of {len(one_by_one)})", seconds(theirs))
    yield judge.at_least("embedded store against bd create, a bead", theirs / ours, FASTER)


def _load(root: Path, count: int) -> float:
    """Until everything is on disk: the store ends each transaction with fsync."""
    batch = planned(count, root)
    store = EmbeddedStore(root)
    store.check()
    return timed(lambda: load.load(store, batch))


def _creates(bd: str, root: Path, count: int) -> list[float]:
    initialise(root, bd)
    beads = compiled(count + 1, root)
    words = [[bd, "create", *_flags(bead)] for bead in beads]
    taken = [
        timed(lambda line=line: subprocess.run(line, cwd=root, stdout=subprocess.DEVNULL, check=True))  # type: ignore[misc]
        for line in words
    ]
    return taken[1:]  # the first one warms up


def _flags(bead: Bead) -> list[str]:
    """The same fields that our stores keep."""
    raw = bead.to_json()
    return [
        f"--id={bead.id}",
        f"--title={bead.title}",
        f"--description={bead.description}",
        f"--type={bead.issue_type}",
        f"--priority={bead.priority}",
        f"--assignee={bead.assignee}",
        f"--labels={','.join(bead.labels)}",
        f"--metadata={json.dumps(raw['metadata'])}",
        f"--acceptance={shape.acceptance_text(raw['metadata'])}",
        *(f"--deps=blocked-by:{other}" for other in bead.dependencies),
        "--json",
    ]


def bd_load(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """The same beads into bd through our store and with its bare command: A B B A, each in a new database."""
    bd = places.bd()
    if bd is None:
        yield NO_BD
        return
    count = 50 if judge.quick else 1_000
    ways = {"bare": _bare, "ours": _ours}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    work: dict[str, list[float]] = {name: [] for name in ways}
    for name in ("bare", "ours") if judge.quick else ("bare", "ours", "ours", "bare"):
        root = scratch.repository()
        initialise(root, bd)
        beads = compiled(count, root)
        before = _processor_time()
        taken[name].append(ways[name](bd, root, beads))
        work[name].append(_processor_time() - before)
    yield Row(f"bd create --graph, {count:,} beads", _both(taken["bare"]))
    yield Row(f"bd store, {count:,} beads", _both(taken["ours"]))
    ratio = min(taken["ours"]) / min(taken["bare"])
    of = f" (processor {min(work['ours']) / min(work['bare']):.2f} x)"
    yield judge.at_most(f"bd store against bd create --graph, {count:,} beads", ratio, OVERHEAD, of)


def _processor_time() -> float:
    """Of this process and of those that it started and that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _bare(bd: str, root: Path, beads: Sequence[Bead]) -> float:
    (root / "graph.json").write_text(shape.graph(beads), encoding="utf-8")
    words = [bd, "create", "--graph", "graph.json", "--json"]
    return timed(lambda: subprocess.run(words, cwd=root, stdout=subprocess.DEVNULL, check=True))


def _ours(bd: str, root: Path, beads: Sequence[Bead]) -> float:
    store = BdStore(root, bd=bd)
    return timed(lambda: store.create(beads))


def _both(taken: Sequence[float]) -> str:
    return " and ".join(map(seconds, taken))


# --- ready and claim --------------------------------------------------------------------------------


def embedded_growth(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """The same questions to a small and to a large store, by turns."""
    sizes = (1_000, 2_000) if judge.quick else (1_000, 100_000)
    stores = {size: filled(scratch.repository(), size) for size in sizes}
    turns = (10, 10) if judge.quick else (READY_TURNS, CLAIM_TURNS)
    ready: dict[int, list[float]] = {size: [] for size in sizes}
    claim: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(turns[0] + 1):
        for size, store in stores.items():
            taken = timed(lambda store=store: store.ready(READY_LIMIT))  # type: ignore[misc]
            ready[size] += [taken] if turn else []
    waiting = {size: [bead.id for bead in store.ready(turns[1] + 1).beads] for size, store in stores.items()}
    for turn in range(turns[1] + 1):
        for size, store in stores.items():
            name = waiting[size][turn]
            taken = timed(lambda store=store, name=name: store.claim(name, "worker"))  # type: ignore[misc]
            claim[size] += [taken] if turn else []
    for what, times in (("ready (20)", ready), ("claim", claim)):
        small, large = (median(times[size]) for size in sizes)
        against = f"{sizes[1]:,} beads against {sizes[0]:,}"
        of = f" ({seconds(small)}, {seconds(large)})"
        yield judge.at_most(f"embedded {what}, {against}", large / small, GROWTH, of)


def filled(root: Path, count: int, plan_file: str = "") -> EmbeddedStore:
    store = EmbeddedStore(root)
    beads = chained(count, CHAIN, root, plan_file)
    for start in range(0, count, BATCH):
        store.create(beads[start : start + BATCH])
    return store


# --- many processes ---------------------------------------------------------------------------------


def embedded_claims(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Eight processes share the ready beads of one store; each bead must find exactly one of them."""
    each = 20 if judge.quick else 500
    total = WORKERS * each
    root = scratch.repository()
    store = EmbeddedStore(root)
    store.create(chained(total, 1, root))
    won, lost, taken = _race(root, each)
    names = [name for mine in won.values() for name in mine]
    held = {
        bead.id: bead.to_json()["claimed_by"] for bead in store.find(Query(statuses=["in_progress"])).beads
    }
    agreed = sum(held.get(name) == worker for worker, mine in won.items() for name in mine)
    yield judge.exactly(f"{WORKERS} processes x {each} claims: beads won", len(names), total)
    yield judge.exactly("… of them different", len(set(names)), total)
    yield judge.exactly("… and held in the store by their winner", agreed, total)
    yield Row("… claims a second, all together", f"{total / taken:.0f} ({lost} lost races)")


def _race(root: Path, each: int) -> tuple[dict[str, list[str]], int, float]:
    """Worker → what it won; how many claims came too late; from the start to the last one's end."""
    script = Path(__file__).with_name("claimer.py")
    words = [sys.executable, str(script), str(root)]
    workers = {
        f"worker-{number}": subprocess.Popen(
            [*words, f"worker-{number}", str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(WORKERS)
    }
    try:
        for worker in workers.values():
            if worker.stdout is None or worker.stdout.readline() != "ready\n":
                raise subprocess.SubprocessError("a claiming process did not start")
        start = time.perf_counter()
        for worker in workers.values():
            if worker.stdin is not None:
                worker.stdin.write("go\n")
                worker.stdin.flush()
        said = {name: json.loads(worker.communicate()[0]) for name, worker in workers.items()}
        taken = time.perf_counter() - start
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    return {name: words["won"] for name, words in said.items()}, sum(w["lost"] for w in said.values()), taken

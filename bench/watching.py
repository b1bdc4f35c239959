"""What it costs to watch over the memory of jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from bench import places
from bench.places import Scratch
from bench.report import Judge, Row

SHARE = 0.03
WATCHER = "bench.watch_jobs"


def share(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Jobs of many processes that do nothing: how busy are we, with and without a limit for them?"""
    jobs, processes, lasting = (5, 3, 2) if judge.quick else (50, 10, 20)
    folder = scratch.folder / "memory"
    folder.mkdir()
    words = [sys.executable, "-m", WATCHER, folder, jobs, processes, lasting]
    without, watched = (json.loads(_run([*words, limit])) for limit in (0, 1024))
    name = f"{jobs} jobs of {processes} processes"
    yield Row(f"{name}: processor, no limit of memory", f"{without['share']:.2%} of a core")
    more = watched["share"] - without["share"]
    ok = None if judge.quick else more <= SHARE
    yield Row("… more with a limit", f"{more:.2%} of a core", f"≤ {SHARE:.0%}", ok)
    ended = without["ended"] + watched["ended"]
    yield judge.exactly("… jobs that ended well", ended, 2 * jobs)


def _run(words: list[object]) -> str:
    return places.run([str(word) for word in words], places.PROJECT).output

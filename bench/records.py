"""What it costs to write down an attempt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.usage import Usage
from beads_ralph.journal.events import AgentEnded, AgentStarted, BeadClaimed, BeadClosed, Event
from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.keeper import Keeper
from bench.places import Scratch
from bench.report import Judge, Row, seconds

BEADS = 400
PROMPT = "Do the work as the tasks say.\n" * 200
BOUND = 0.002


def writing(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """Every record of a run: dispatch, the end of an agent, and the end of the attempt, which writes two."""
    state = StateFolder(scratch.folder / "state")
    state.prepare()
    keeper = Keeper(state, scratch.folder, "bench")
    times: dict[str, list[float]] = {"dispatch": [], "agent ended": [], "closed, with its result": []}
    bare: list[float] = []
    for number in range(20 if judge.quick else BEADS):
        bead = f"bd-1-{number}-record"
        keeper.hear(_claimed(bead))
        for taken, event in zip(times.values(), _told(bead), strict=True):
            taken.append(_timed(lambda event=event: keeper.hear(event)))  # type: ignore[misc]
        text = state.run_file(bead).read_bytes()
        bare.append(_timed(lambda text=text: _write(scratch.folder / "bare", text)))  # type: ignore[misc]
    yield Row("the same bytes to one file, with fsync, p50", seconds(median(bare)))
    for name, taken in times.items():
        files = 2 if "result" in name else 1
        yield _row(judge, f"records: {name}, p50 a file", [one / files for one in taken])


def _row(judge: Judge, name: str, taken: list[float]) -> Row:
    p50, p99 = median(taken), quantiles(taken, n=100)[-1]
    value = f"{seconds(p50)} (p99 {seconds(p99)}, of {len(taken)})"
    return Row(name, value, f"≤ {seconds(BOUND)}", None if judge.quick else p50 <= BOUND)


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


AT: dict[str, Any] = {"at": "2026-02-11T10:00:00.000Z", "run_id": "bench"}
CALL = AgentCall(attempt=1, role="dev", agent="claude", program="claude", model="sonnet")
ENDED = replace(CALL, exit_code=0, seconds=60.0, usage=Usage(1000, 1000, None, 0.1), output_summary="x" * 500)


def _claimed(bead: str) -> Event:
    return BeadClaimed(
        **AT, bead=bead, title="Record", bead_kind="work", plan_file="", branch="", max_attempts=3
    )


def _told(bead: str) -> tuple[Event, ...]:
    return (
        AgentStarted(**AT, bead=bead, attempt=1, call=CALL, prompt=PROMPT),
        AgentEnded(**AT, bead=bead, attempt=1, call=ENDED),
        BeadClosed(**AT, bead=bead, attempt=1, reason="proven"),
    )

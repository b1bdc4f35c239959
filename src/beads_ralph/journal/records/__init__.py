"""Run and result records: what was tried at each bead, by whom, and how it ended.

Here is every attempt that a state folder knows of, run and result put together; read with much patience.
"""

from __future__ import annotations

import json
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pydantic_core import from_json

from beads_ralph.bead.words import moment_of
from beads_ralph.journal.records.model import SUMMARY_LENGTH, UNJUDGED

RUNS: Final = "runs"
RESULTS: Final = "results"
SCHEMAS: Final = "schemas"
SUFFIX: Final = ".json"
LARGEST: Final = 32 * 1024 * 1024
ARCHIVED: Final = re.compile(r"\.attempt-(\d+)(?:-\d+)?$")
STATUSES: Final = frozenset({"running", "done", "failed", "timeout"})

MORE: Final = float("inf")
NOTHING: Final[dict[str, Any]] = {}

T = TypeVar("T")
Unreadable = Callable[[Path, str], None]
"""Is told of a file that holds no record, and why."""


class Attempt(NamedTuple):
    """One attempt at a bead. What a record does not say, or says in a way nobody can read, is None."""

    bead: str
    attempt: int
    status: str
    """running, done, failed or timeout."""
    agent: str
    model: str | None
    template: str | None
    started_at: datetime | None
    finished_at: datetime | None
    seconds: float | None
    max_retries: int | None
    exit_code: int | None
    failure_reason: str | None
    output_summary: str | None
    prompt: str | None
    """Its first 200 characters."""
    will_retry: bool | None
    """None where there is no result of this attempt."""
    reason: str | None
    """How it ended, in the words of its result."""
    latest: bool
    """Whether no later attempt at this bead is known."""
    file: str
    """Where it was read."""
    extra: Mapping[str, Any]
    """What only our own records say: `records.model.Extra`."""

    @property
    def path(self) -> Path:
        return Path(self.file)

    @property
    def begins_again(self) -> bool:
        """Whether it will be tried again, as its result says; without one it may only have broken off."""
        return self.failure_reason in UNJUDGED if self.will_retry is None else self.will_retry

    @property
    def final(self) -> bool:
        """Whether it is over, and nobody will try again."""
        return self.latest and self.status != "running" and not self.begins_again


def ignore(_path: Path, _why: str) -> None:
    """For whoever does not care."""


def read_all(state_dir: Path, unreadable: Unreadable = ignore) -> Iterator[Attempt]:
    """Every attempt, bead by bead, each bead's in their order; files that hold none are told of.

    Records of other programs, of other versions and with faults are read as far as they go: a record
    needs no more than a bead and a status. `beads-ralph state validate` is strict instead. Files that have
    the name of another bead come last, and copies of an attempt not at all.
    """
    results, runs = os.path.join(state_dir, RESULTS, ""), os.path.join(state_dir, RUNS, "")  # noqa: PTH118
    ended = _names(results)
    begun: dict[str, list[str]] = {}
    for name in _names(runs):
        begun.setdefault(ARCHIVED.sub("", name.removesuffix(SUFFIX)), []).append(runs + name)

    def of(stem: str, unreadable: Unreadable) -> Iterator[Attempt]:
        own = f"{stem}{SUFFIX}"
        result = _load(results + own, unreadable) if own in ended else None
        read = [(file, raw) for file in begun.get(stem, ()) if (raw := _load(file, unreadable)) is not None]
        return _together(read, result, results + own)

    strays: dict[str, list[Attempt]] = {}
    for stem in sorted({*begun, *(name.removesuffix(SUFFIX) for name in ended)}):
        for attempt in of(stem, unreadable):
            if stem.removesuffix("_") == attempt.bead.removesuffix("_"):
                yield attempt
            else:
                strays.setdefault(attempt.bead, []).append(attempt)
    for bead, rows in strays.items():
        own = [attempt for stem in (bead, f"{bead}_") for attempt in of(stem, ignore)]
        yield from _without_copies(rows, [attempt for attempt in own if attempt.bead == bead])


def load(path: Path, unreadable: Unreadable = ignore) -> dict[str, Any] | None:
    """The JSON object of a file that is a record by the little that every record has; else None."""
    return _load(str(path), unreadable)


def _load(file: str, unreadable: Unreadable) -> dict[str, Any] | None:
    try:
        data = _bytes(file)
        if data is None:
            unreadable(Path(file), f"no file of at most {LARGEST // 2**20} MiB")
            return None
        raw = _parsed(data)
    except OSError as problem:
        unreadable(Path(file), problem.strerror or str(problem))
    except (ValueError, RecursionError) as problem:
        unreadable(Path(file), f"not JSON: {problem}")
    else:
        if _is_record(raw):
            return raw  # type: ignore[no-any-return]
        unreadable(Path(file), "not a run or result record: it names no bead and status")
    return None


def _parsed(data: bytes) -> Any:
    """As `json.loads`, in less than half of its time; what only that one reads, or refuses, is left to it."""
    try:
        return from_json(data, cache_strings="keys")
    except ValueError:
        return json.loads(data.decode("utf-8-sig" if data.startswith(BOM_UTF8) else "utf-8"))


def _bytes(file: str) -> bytes | None:
    """All of a file, None where it is none or too large. No file object: there may be a hundred thousand."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would keep us waiting
    try:
        said = os.fstat(handle)
        if not stat.S_ISREG(said.st_mode) or said.st_size > LARGEST:
            return None
        data = os.read(handle, said.st_size + 1)
        while len(data) < said.st_size and (more := os.read(handle, said.st_size - len(data))):
            data += more
        return data
    finally:
        os.close(handle)


def _is_record(raw: Any) -> bool:
    if not isinstance(raw, dict):
        return False
    bead, status = raw.get("bead"), raw.get("status")
    return isinstance(bead, str) and bead.strip() != "" and isinstance(status, str) and status in STATUSES


def _names(folder: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")
            }
    except OSError:
        return set()


# --- put together -----------------------------------------------------------------------------------


def _together(
    read: list[tuple[str, dict[str, Any]]], result: dict[str, Any] | None, file: str
) -> Iterator[Attempt]:
    """Files are told apart by what they hold: their names are only a hint."""
    rows = sorted(((_number(raw, place), place, raw) for place, raw in read), key=lambda row: row[0])
    rows = _unlike(rows) if len(rows) > 1 else rows
    ended = (result["bead"], _number(result, file)) if result is not None else None
    if len(rows) == 1 and (ended is None or ended == (rows[0][2]["bead"], rows[0][0])):  # as most beads are
        number, place, raw = rows[0]
        yield _attempt(raw, result, number, place, latest=True)
        return
    last: dict[str, tuple[bool, int]] = {}
    for number, place, raw in rows:
        last[raw["bead"]] = max(_rank(place, number), last.get(raw["bead"], (False, 0)))
    alone = ended is not None and all((raw["bead"], number) != ended for number, _, raw in rows)
    later = alone and ended is not None and ended[1] > last.get(ended[0], (False, 0))[1]
    for number, place, raw in rows:
        bead = raw["bead"]
        latest = _rank(place, number) == last[bead] and not (later and ended is not None and ended[0] == bead)
        yield _attempt(raw, result if (bead, number) == ended else None, number, place, latest=latest)
    if alone and result is not None and ended is not None:  # its run record is gone
        yield _attempt(result, result, ended[1], file, latest=later)


def _unlike(rows: list[tuple[int, str, dict[str, Any]]]) -> list[tuple[int, str, dict[str, Any]]]:
    """One row for each attempt at a bead: the same number and beginning are the same attempt."""
    found: dict[tuple[Any, ...], tuple[int, str, dict[str, Any]]] = {}
    for row in rows:
        number, place, raw = row
        began = _str(raw.get("started_at"))
        key = (raw["bead"], number, began or place)
        if key not in found or _rank(place, number) > _rank(found[key][1], number):
            found[key] = row
    return list(found.values())


def _without_copies(rows: list[Attempt], own: list[Attempt]) -> Iterator[Attempt]:
    """Attempts from files that their bead has no such name for; `own` are those from the others."""
    seen = {(attempt.attempt, attempt.started_at) for attempt in own}
    kept: list[Attempt] = []
    for attempt in sorted(rows, key=lambda one: (one.attempt, one.status == "running")):
        key = (attempt.attempt, attempt.started_at)
        if attempt.started_at is None or key not in seen:
            seen.add(key)
            kept.append(attempt)
    for attempt in kept:
        yield attempt._replace(latest=not own and attempt is kept[-1])


def _rank(file: str, number: int) -> tuple[bool, int]:
    """The latest is the one that is not archived: a bead that was made anew counts from 1 again."""
    return ARCHIVED.search(file.removesuffix(SUFFIX)) is None, number


def _number(raw: Mapping[str, Any], file: str) -> int:
    said = _int(raw.get("attempt"))
    if said is not None and said > 0:
        return said
    named = ARCHIVED.search(file.removesuffix(SUFFIX))
    return int(named[1]) if named else 1


def _attempt(
    run: Mapping[str, Any], result: Mapping[str, Any] | None, number: int, file: str, *, latest: bool
) -> Attempt:
    """A result says how it ended, also where whoever wrote it left the run record at `running`."""
    over = result if result is not None and result["status"] != "running" else NOTHING
    said, ended = run.get, over.get
    started = _moment(said("started_at")) or _moment(ended("started_at"))
    finished = _moment(ended("finished_at")) or _moment(said("finished_at"))
    again, extra = ended("will_retry"), said("extra")
    return Attempt(  # by place: by name it takes twice as long
        run["bead"],
        number,
        ended("status") or run["status"],
        _str(said("agent")) or "unknown",
        _str(said("model")),
        _str(said("template_name")),
        started,
        finished,
        _seconds(over, run, started, finished),
        _int(said("max_retries")),
        _either(_int(ended("exit_code")), _int(said("exit_code"))),
        _str(said("failure_reason")),
        _cut(_str(ended("output_summary")) or _str(said("output_summary"))),
        _str(said("prompt")),
        again if type(again) is bool else None,
        _str(ended("reason")),
        latest,
        file,
        extra if type(extra) is dict else NOTHING,
    )


def _seconds(
    over: Mapping[str, Any], run: Mapping[str, Any], started: datetime | None, finished: datetime | None
) -> float | None:
    """As recorded; worked out only where no record has the field at all."""
    if "duration_seconds" in run or "duration_seconds" in over:
        return _either(_float(over.get("duration_seconds")), _float(run.get("duration_seconds")))
    if started is None or finished is None:
        return None
    return max((finished - started).total_seconds(), 0.0)


def _either(one: T | None, other: T | None) -> T | None:
    return other if one is None else one


def _str(value: Any) -> str | None:
    return value if type(value) is str and value else None


def _cut(value: str | None) -> str | None:
    return value[-SUMMARY_LENGTH:] if value and len(value) > SUMMARY_LENGTH else value


def _int(value: Any) -> int | None:
    if value is None or type(value) is int:  # not isinstance: True is not a number here
        return value
    return int(value) if type(value) is float and value.is_integer() else None


def _float(value: Any) -> float | None:
    if type(value) is float and 0.0 <= value < MORE:
        return value
    return float(value) if type(value) is int and value >= 0 else None


def _moment(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return moment_of(value)
    except ValueError:
        return None

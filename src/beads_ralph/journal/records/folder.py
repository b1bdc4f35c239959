"""The state folder: where records lie, how they are written, and which of them a dead run has left."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from beads_ralph.bead.words import utc_text
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, text_files
from beads_ralph.journal.records import ARCHIVED, RESULTS, RUNS, SCHEMAS, SUFFIX, load
from beads_ralph.journal.records.model import (
    MODELS,
    Broken,
    Kind,
    R,
    ResultRecord,
    RunRecord,
    changed,
    json_schema,
)
from beads_ralph.journal.runs import free_name

LIVE: Final = ".live"
"""In `runs/`: a file for each run that is at it, locked as long as it lives."""
LIVE_SECONDS: Final = 5.0
"""Whoever looks whether a run lives holds its file for a moment."""
IGNORE: Final = ".gitignore"
KEPT: Final = ".bak"
INTERRUPTED_CODE: Final = 130
FOLDERS: Final = (RUNS, RESULTS, SCHEMAS)
LOOKS_ARCHIVED: Final = re.compile(r"\.attempt-\d+(-\d+)?$")


@dataclass(frozen=True)
class StateFolder:
    """`state/`: `runs/`, `results/` and `schemas/`."""

    path: Path

    # --- places ---

    def run_file(self, bead: str) -> Path:
        return self.path / RUNS / f"{_stem(bead)}{SUFFIX}"

    def result_file(self, bead: str) -> Path:
        return self.path / RESULTS / f"{_stem(bead)}{SUFFIX}"

    def prepare(self) -> list[Path]:
        """Make what is missing; what was made. A folder that is there already is somebody's own, and git
        goes on seeing in it what it saw."""
        made = [self.path / name for name in FOLDERS if not (self.path / name).is_dir()]
        for folder in made:
            text_files.make_folder(folder, private=True)
            text_files.write_text(folder / IGNORE, "*\n", private=True)
        for kind in MODELS:
            path = self.path / SCHEMAS / f"{kind}.schema.json"
            text = _schema_text(kind)
            if not _holds(path, text):
                text_files.write_text(path, text)
        return made

    def tighten(self) -> None:
        """Records of older versions could be read by everybody."""
        for name in (RUNS, RESULTS):
            text_files.tighten(self.path / name)

    # --- reading back ---

    def last_run(self, bead: str) -> RunRecord | None:
        return _read(RunRecord, self.run_file(bead))

    def last_result(self, bead: str) -> ResultRecord | None:
        return _read(ResultRecord, self.result_file(bead))

    # --- writing ---

    def begin(self, run: RunRecord) -> RunRecord:
        """An attempt begins. The record of the one before is kept beside it; where the same attempt was
        begun before and not judged, there is one record of both."""
        path = self.run_file(run.bead)
        before, result = self.last_run(run.bead), self.last_result(run.bead)
        if before is None:
            if path.exists():  # what cannot be read is not ours to throw away
                path.rename(free_name(path.parent, path.name, KEPT))
        elif before.attempt == run.attempt and not (result and is_result_of(result, before)):
            run = _taken_up(before, run)
        else:
            # A bead that was made anew has a first attempt once more.
            path.rename(free_name(path.parent, f"{path.stem}.attempt-{before.attempt}", SUFFIX))
        self.write(run)
        return run

    def write(self, record: RunRecord | ResultRecord) -> None:
        """In one step: a reader sees the old record or the new one, whole."""
        is_run = isinstance(record, RunRecord)
        path = self.run_file(record.bead) if is_run else self.result_file(record.bead)
        # What is at work is told by the journal, too; what has ended is for good.
        text = text_of(record.to_json())
        text_files.write_text(path, text, sync=record.status != "running", private=True)

    # --- runs that live, and those that do not ---

    @contextmanager
    def live(self, run_id: str) -> Iterator[None]:
        """Be known as alive; the kernel forgets it with the process, however that ends."""
        folder = self.path / RUNS / LIVE
        text_files.make_folder(folder, private=True)
        message = f"another process is run {run_id} already"
        with lock.held(
            folder / run_id, LIVE_SECONDS, lambda: RalphError(Code.CONFLICT, message), remove=True
        ):
            yield

    def interrupt_stale(self) -> list[RunRecord]:
        """Mark the attempts of runs that ended without a word; those records. Nothing of such a run says any
        more that it lives."""
        marked = [self.interrupt(run) for run in self._running() if not self._lives(run)]
        folder = self.path / RUNS / LIVE
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file():
                lock.remove_free(path)
        return marked

    def _running(self) -> Iterator[RunRecord]:
        folder = self.path / RUNS
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
            # Most are not running, and those need no model: a folder may hold very many.
            raw = load(path)
            if raw is not None and raw["status"] == "running" and not ARCHIVED.search(path.stem):
                with suppress(ValidationError):
                    yield RunRecord.model_validate(raw)

    def _lives(self, run: RunRecord) -> bool:
        """Whether whoever wrote it still runs; of others' records nothing is known, so they stay."""
        run_id = run.ours.run_id
        if not run_id or "/" in run_id:
            return True
        return lock.is_held(self.path / RUNS / LIVE / run_id)

    def interrupt(self, run: RunRecord) -> RunRecord:
        """When it ended nobody knows; so there is a time at which that was noticed, and no duration."""
        marked = changed(
            run,
            status="failed",
            finished_at=utc_text(datetime.now(UTC)),
            duration_seconds=None,
            exit_code=INTERRUPTED_CODE,
            failure_reason="interrupted",
        )
        self.write(marked)
        return marked


# --- files ------------------------------------------------------------------------------------------


def _stem(bead: str) -> str:
    """A bead's id; one that looks like an attempt of another bead is told apart from that."""
    return f"{bead}_" if LOOKS_ARCHIVED.search(bead) else bead


def text_of(raw: dict[str, Any]) -> str:
    """A record as it stands in its file."""
    return json.dumps(raw, indent=2, ensure_ascii=False) + "\n"


@cache
def _schema_text(kind: Kind) -> str:
    """Made once: it takes a twentieth of a second, and a process may run many plans."""
    return json.dumps(json_schema(kind), indent=2) + "\n"


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text("utf-8") == text
    except (OSError, ValueError):
        return False


def _read(model: type[R], path: Path) -> R | None:
    raw = load(path)
    try:
        return None if raw is None else model.model_validate(raw)
    except ValidationError:
        return None


# --- one attempt, begun several times ---------------------------------------------------------------


def is_result_of(result: ResultRecord, run: RunRecord) -> bool:
    """The same attempt may have begun again since."""
    return (result.attempt, result.started_at) == (run.attempt, run.started_at)


def _taken_up(before: RunRecord, run: RunRecord) -> RunRecord:
    """The same attempt goes on. Where only its judges are called now, it is still the first one's work."""
    old, new = before.ours, run.ours
    cut_off = Broken(
        started_at=before.started_at,
        finished_at=before.finished_at,
        failure_reason=before.failure_reason,
        run_id=old.run_id,
        calls=old.calls,
    )
    whose: dict[str, Any] = {}
    if new.role == "qa" and old.role not in (None, "qa"):
        names = ("agent", "model", "prompt", "prompt_full", "prompt_hash", "template_name")
        whose = {name: getattr(before, name) for name in names}
        new = new.model_copy(update={"role": old.role, "persona": old.persona})
    return changed(run, **whose, extra=new.model_copy(update={"broken_off": (*old.broken_off, cut_off)}))

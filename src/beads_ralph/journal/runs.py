"""The places below `.ralph`: a run's folder and lock, what is kept of a bead, the order to stop."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from beads_ralph.bead.words import utc_text
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import lock, text_files
from beads_ralph.files.text_files import ralph_dir
from beads_ralph.journal.journal import NAME
from beads_ralph.process import process_table
from beads_ralph.process.jobs import Transcript

RUNS: Final = "runs"
EXEC: Final = ".ralph/exec"
EVIDENCE: Final = "BEADS_RALPH_EVIDENCE"
"""Names the folder that evidence goes to, for agents and verifiers."""
OURS: Final = re.compile(r"(success|failure)-\d{8}T\d{9}Z(-\d+)?\.json")
"""Records that the executor itself puts among the evidence."""
LOCK: Final = "run.lock"
SWEPT: Final = "swept"
UNFINISHED: Final = "unfinished"
"""In a run's folder until it has told its end; holds the machine's start as long as the run's process has
not ended in order."""
CONTROL: Final = "control"
ORDERS: Final = ("pause", "stop")
LOCK_SECONDS: Final = 0.3
"""`is_running` holds the lock for a moment, too, so that one look is not enough."""
LAST_CHILD_SECONDS: Final = 10.0
"""A child that was being started when its parent was killed has the parent's lock until it is a program of
its own; on a busy machine that takes a while."""
LOOP: Final = "a loop is running on this repository"


@dataclass(frozen=True)
class RunFolder:
    """`.ralph/runs/<id>`: everything one run leaves behind."""

    home: Path
    run_id: str

    @property
    def path(self) -> Path:
        return self.home / RUNS / self.run_id

    @property
    def journal(self) -> Path:
        return self.path / NAME

    def transcript(self, bead_id: str, name: str) -> Transcript:
        """Files of their own for each job: one that is done again must not read the old answer."""
        folder = self.path / "jobs" / bead_id
        text_files.make_folder(folder)
        out = free_name(folder, name, ".out")
        return Transcript(out, out.with_suffix(".err"))


def new_run_id() -> str:
    return f"{stamp()}-{os.urandom(2).hex()}"


def stamp() -> str:
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"


def free_name(folder: Path, stem: str, suffix: str) -> Path:
    """A name in the folder that nothing has yet."""
    names = itertools.chain([stem], (f"{stem}-{count}" for count in itertools.count(2)))
    return next(path for name in names if not (path := folder / f"{name}{suffix}").exists())


def folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def folders(home: Path) -> list[RunFolder]:
    """All runs, oldest first: ids begin with their time."""
    return [RunFolder(home, path.name) for path in folders_in(home / RUNS)]


def latest(home: Path) -> RunFolder | None:
    """The newest run."""
    found = folders(home)
    return found[-1] if found else None


def require_latest(home: Path) -> RunFolder:
    """The same; FILE.NOT_FOUND where nothing ran yet."""
    folder = latest(home)
    if folder is None:
        raise RalphError(Code.FILE_NOT_FOUND, "no run yet", suggested_action="Start one: beads-ralph run")
    return folder


def unswept(home: Path) -> list[RunFolder]:
    """Earlier runs of which processes may be left. The lock would name only the last of them, and that
    one may have been killed before it had swept up after those before it."""
    return [folder for folder in folders(home) if not (folder.path / SWEPT).exists()]


def mark_swept(folder: RunFolder) -> None:
    (folder.path / SWEPT).touch(text_files.PRIVATE)


# --- runs that did not come to their end ---


@contextmanager
def unfinished(folder: RunFolder) -> Iterator[None]:
    """Mark a run as one that has not told its end. A failure empties the mark, for which even a full disk has
    room; a kill leaves it as it is."""
    mark = folder.path / UNFINISHED
    text_files.write_text(mark, machine_start() + "\n")
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.truncate(mark, 0)
        raise
    settle(folder)


def left_unfinished(home: Path, besides: str | None = None) -> list[RunFolder]:
    """Earlier runs that have not told their end, and of which nobody has derived it yet."""
    found = (folder for folder in folders(home) if (folder.path / UNFINISHED).exists())
    return [folder for folder in found if folder.run_id != besides]


def was_killed(folder: RunFolder) -> bool:
    """Tell whether an unfinished run ended without a word while the machine went on."""
    try:
        said = (folder.path / UNFINISHED).read_text("utf-8").strip()
    except (OSError, ValueError):
        return False
    return said != "" and said == machine_start()


def settle(folder: RunFolder) -> None:
    """Everything that the run did has been told."""
    (folder.path / UNFINISHED).unlink(missing_ok=True)


def machine_start() -> str:
    """A name for the time since the machine was started, where it has one."""
    return process_table.boot_id() or "unknown"


def actor_name(root: Path, run_id: str) -> str:
    """Who claims: the host, the repository and the run, so that a dead run's claims can be told."""
    return f"{actor_prefix(root)}{run_id}"


def actor_prefix(root: Path) -> str:
    place = sha256(str(root).encode()).hexdigest()[:8]
    return f"ralph-{os.uname().nodename}-{place}-"


# --- what is kept of a bead besides its records: the evidence that somebody put there for people to see ---


@dataclass(frozen=True)
class Shelf:
    """What is kept of a bead's execution, below `.ralph` of the folder that it works in."""

    place: Path
    key: str

    @property
    def home(self) -> Path:
        return self.place / EXEC / self.key

    @property
    def evidence(self) -> Path:
        return self.place / ".ralph" / "evidence" / self.key

    def make(self) -> None:
        ralph_dir(self.place)
        text_files.make_folder(self.home)
        text_files.make_folder(self.evidence)

    @property
    def _mark(self) -> Path:
        return self.home / "began"

    @property
    def begun(self) -> bool:
        return self._mark.exists()

    def begin(self) -> None:
        """From now on evidence counts. By the file system's own clock: ours may be a little ahead of it."""
        self._mark.unlink(missing_ok=True)
        self._mark.touch(text_files.PRIVATE)

    def attached(self) -> list[Path]:
        """The files that somebody put there since the work began: not empty, and not ours."""
        since = self._mark.stat().st_ctime_ns if self._mark.exists() else 0
        found = sorted(self.evidence.rglob("*")) if self.evidence.is_dir() else []
        return [path for path in found if not self._is_ours(path) and _is_new(path, since)]

    def _is_ours(self, path: Path) -> bool:
        return path.parent == self.evidence and OURS.fullmatch(path.name) is not None

    def record(self, kind: str, facts: Mapping[str, Any]) -> Path:
        path = free_name(self.evidence, f"{kind}-{stamp()}", ".json")
        text_files.write_text(path, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        return path

    def shown(self, path: Path) -> str:
        return Path(os.path.relpath(path, self.place)).as_posix()


def homes(place: Path) -> list[Path]:
    """Those of all the beads that were worked on there."""
    return folders_in(place / EXEC)


def evidence_folder(env: Mapping[str, str]) -> list[Path]:
    """The folder that a job may put evidence into, if there is one."""
    return [Path(env[EVIDENCE])] if EVIDENCE in env else []


def _is_new(path: Path, since: int) -> bool:
    """By the time of its last change of any kind: a copy may carry the old time of its contents."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > 0 and found.st_ctime_ns >= since


# --- one loop at a time -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """The loop that has the lock, or had it last."""

    pid: int
    run_id: str
    since: str


@contextmanager
def exclusive(
    home: Path, run_id: str, subject: str = LOOP, patience: float = LOCK_SECONDS
) -> Iterator[Holder | None]:
    """Hold the lock of a place; yields who held it last. Another one alive is DATABASE.CONFLICT, also where
    somebody has removed its lock file."""
    until = time.monotonic() + LAST_CHILD_SECONDS

    def refused() -> RalphError | None:
        by = holder(home)
        left = by is not None and _is_gone(by.pid) and time.monotonic() < until
        return None if left else _taken(by, subject)

    besides = lock.held_folder(_around(home), patience, refused)
    with lock.held(home / LOCK, patience, refused) as file, besides:
        last = holder(home)
        said = {"pid": os.getpid(), "run_id": run_id, "since": utc_text(datetime.now(UTC))}
        lock.write_note(file, json.dumps(said))
        yield last


def _around(home: Path) -> Path:
    """The folder that a loop holds besides: the repository's, since `.ralph` may be removed, too."""
    return home.parent if home.name == text_files.RALPH_DIR else home


def holder(home: Path) -> Holder | None:
    try:
        said = json.loads((home / LOCK).read_text("utf-8"))
        return Holder(int(said["pid"]), str(said["run_id"]), str(said["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def is_running(home: Path) -> bool:
    """Tell whether a loop holds the lock now."""
    return lock.is_held(home / LOCK) or lock.is_held(_around(home))


def _taken(by: Holder | None, subject: str) -> RalphError:
    who = f"process {by.pid}, run {by.run_id}, since {by.since}" if by else "another process"
    action = "Watch it with: beads-ralph status --watch, or end it with: beads-ralph stop"
    if subject != LOOP:
        action = "Wait for its end, or end that process"
    return RalphError(Code.CONFLICT, f"{subject} already ({who})", suggested_action=action)


# --- orders to a running loop -----------------------------------------------------------------------


def order(home: Path, word: str | None) -> None:
    """Leave word for the loop: pause, stop, or None to take it back."""
    path = home / CONTROL
    if word is None:
        path.unlink(missing_ok=True)
    else:
        text_files.write_text(path, word + "\n")


def ordered(home: Path) -> str | None:
    try:
        word = (home / CONTROL).read_text("utf-8").strip()
    except OSError:
        return None
    return word if word in ORDERS else None

"""A control group for each job, where the system lets us make one: whoever is born in it stays in it.

A program can leave its session, its environment and its parents, and it can kill those who watch over it.
What it cannot do, unless it may move processes itself, is to leave its control group (cgroup v2, Linux), and
the kernel ends everyone in a group at once. Not every user may make one; then the signs in `process_tree` and
the reaper must do. A job that is closed in has a process namespace, which does the same.

Every job pays for what is imported here.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from beads_ralph.process.jobs import RUN_ID, Job
from beads_ralph.process.process_table import control_group, control_groups_root

PREFIX: Final = "beads-ralph"
MEMBERS: Final = "cgroup.procs"
REMOVE_SECONDS: Final = 1.0
"""A group is free a moment after its last process was buried."""
STEP: Final = 0.01


class JobGroup:
    """One control group of ours; it need not be there (yet, or any more)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def members(self) -> set[int]:
        try:
            return set(map(int, (self.path / MEMBERS).read_text(encoding="ascii").split()))
        except OSError:
            return set()

    def kill(self) -> None:
        """End everyone in it at once, whoever is being born included."""
        try:
            _write(self.path / "cgroup.kill", "1")
        except OSError:  # a kernel before 5.14, or nobody is there
            for pid in self.members():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        until = time.monotonic() + REMOVE_SECONDS
        while self.path.is_dir() and time.monotonic() < until:
            with suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(STEP)


def for_job(job: Job) -> tuple[JobGroup, ...]:
    """The group that the job is to be born in; none where there can be none, or it has a namespace."""
    own = control_group()
    if job.keeper or not job.mark or own is None or not _is_ours(own):
        return ()
    return (JobGroup(own / _name((job.env or {}).get(RUN_ID, ""), job.mark)),)


def of_run(run_id: str) -> list[JobGroup]:
    """What a run that was killed has left, wherever it was started."""
    root, first = control_groups_root(), _name(run_id, "")
    if root is None:
        return []
    found = (Path(folder) / name for folder, names, _ in os.walk(root) for name in names)
    return [JobGroup(path) for path in found if path.name.startswith(first)]


@contextmanager
def born_in(groups: Iterable[JobGroup]) -> Iterator[None]:
    """Whoever is started in this block is born in the group, if there is one. We go in and out again: only
    the child of a member has never been elsewhere. Without the right to do so, it is born where we are."""
    before = control_group()
    for group in groups:
        with suppress(OSError):
            group.path.mkdir()
            _write(group.path / MEMBERS, "0")
    try:
        yield
    finally:
        if before is not None and control_group() != before:
            with suppress(OSError):
                _write(before / MEMBERS, "0")


def _is_ours(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / MEMBERS, os.W_OK)


def _name(run_id: str, mark: str) -> str:
    return "-".join((PREFIX, re.sub(r"[^A-Za-z0-9_.]", "_", run_id) or "job", mark))


def _write(path: Path, text: str) -> None:
    """Unbuffered: the kernel's answer is that of the write."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)

"""Signs of life of a job: something printed, work of a processor, a changed file in its folder.

A program that waits for a server which never answers shows none of them, and one that compiles without a word
does. What is cheap to see is looked at first: the folder is read only when nothing else has shown any.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from beads_ralph.process.calls import in_thread
from beads_ralph.process.process_table import has_table, worked
from beads_ralph.process.process_tree import Family

LOOKS: Final = 5
"""How often processors are looked at within the limit."""
LONGEST_PAUSE: Final = 30.0
IDLE_SHARE: Final = 0.0125
"""The part of one processor that programs may use while they wait. Codex uses a hundredth then, and twice as
much while its model speaks."""


class SignsOfLife:
    """Of one job, from when it is made on."""

    def __init__(self, folder: Path, family: Family, limit: float) -> None:
        self.folder = folder
        self.family = family
        self.limit = limit
        self.pause = min(limit / LOOKS, LONGEST_PAUSE)
        self._printed = 0
        self._last = self._looked = time.monotonic()
        self._last_by_clock = time.time()
        self._worked: dict[tuple[int, int], float] = {}

    async def are_missing(self, printed: int) -> bool:
        """Tell whether there were none for as long as the limit allows; `printed` is how much it has printed
        so far. Without a process table nobody knows."""
        now = time.monotonic()
        if printed != self._printed:
            self._printed = printed
            self._sign()
        if now < self._looked + self.pause or not has_table():
            return False
        if self._work() > (now - self._looked) * IDLE_SHARE:
            self._sign()
        self._looked = now
        if now < self._last + self.limit:
            return False
        if await in_thread(changed_since, self.folder, self._last_by_clock):
            self._sign()
            return False
        return True

    def _sign(self) -> None:
        self._last, self._last_by_clock = time.monotonic(), time.time()

    def _work(self) -> float:
        """Seconds of work of its processes since the last look. One that ended meanwhile is in the count of
        its parent, if that waited for it."""
        now = {one.identity: worked(one.pid) for one in self.family.find()}
        before, self._worked = self._worked, now
        return sum(max(seconds - before.get(identity, 0.0), 0.0) for identity, seconds in now.items())


def changed_since(folder: Path, moment: float) -> bool:
    """Tell whether anything below the folder was changed, made or removed after that moment."""
    return any(changed > moment for changed in _changes(str(folder)))


def _changes(folder: str) -> Iterator[float]:
    try:
        yield os.stat(folder).st_ctime  # noqa: PTH116 - many thousands at a time
        with os.scandir(folder) as entries:
            inner = []
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.path)
                else:
                    yield entry.stat(follow_symlinks=False).st_ctime
    except OSError:  # gone meanwhile, or not ours to read
        return
    for path in inner:
        yield from _changes(path)

"""How much memory jobs use, with all their processes: one look at the process table for all of them.

A limit that the kernel could hold by itself, RLIMIT_AS, counts addresses and not memory: node and bun reserve
tens of gigabytes of those and would not start. So the processes are looked at, now and then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final
from weakref import WeakSet

from beads_ralph.process.process_table import Process, has_table, proportional, resident, variable_of
from beads_ralph.process.process_tree import Family, others

MB: Final = 1024 * 1024
LEAST_SECONDS: Final = 0.5
"""No process is looked at more often than this."""
SHARE: Final = 50
"""Looking may take one part in so many of the time, however many processes there are."""


class Use:
    """What a family used at one look."""

    def __init__(self) -> None:
        self.at_most = 0
        self._members: list[int] = []
        self._exactly: int | None = None

    def add(self, pid: int) -> None:
        self._members.append(pid)
        self.at_most += resident(pid)

    def exactly(self) -> int:
        if self._exactly is None:
            self._exactly = sum(map(proportional, self._members))
        return self._exactly


class MemoryMeter:
    """The memory of every family that anybody has asked about, as of the latest look."""

    def __init__(self, variable: str) -> None:
        """`variable` is the one whose value says which job a process belongs to."""
        self.variable = variable
        self._watched: WeakSet[Family] = WeakSet()
        self._uses: dict[Family, Use] = {}
        self._marks: dict[tuple[int, int], str] = {}
        self._next = 0.0

    def exceeds(self, family: Family, limit: int) -> bool:
        """Whether the family used more than so many bytes when it was last looked at.

        What processes share is counted for each of them at first, which is quick; only where that is too
        much, it is counted once.
        """
        if not has_table():
            return False
        self._watched.add(family)
        self._look()
        use = self._uses.get(family)
        return use is not None and use.at_most > limit and use.exactly() > limit

    def _look(self) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        table = others()
        self._marks = {key: mark for key, mark in self._marks.items() if key[0] in table}
        self._uses = {family: Use() for family in self._watched}
        for pid, family in self._owners(table):
            self._uses[family].add(pid)
        now = time.monotonic()
        self._next = now + max(LEAST_SECONDS, (now - began) * SHARE)

    def _owners(self, table: dict[int, Process]) -> Iterator[tuple[int, Family]]:
        by_mark = {family.entry: family for family in self._watched}
        by_leader = {family.leader: family for family in self._watched if family.leader}
        known: dict[int, Family | None] = {}
        for process in table.values():
            family = self._owner(process, table, by_mark, by_leader, known)
            if family is not None and process.pid not in family.spared:
                yield process.pid, family

    def _owner(
        self,
        process: Process,
        table: dict[int, Process],
        by_mark: dict[bytes, Family],
        by_leader: dict[int, Family],
        known: dict[int, Family | None],
    ) -> Family | None:
        """By its group or session, its environment, or its parent, as `Family` has it."""
        if process.pid not in known:
            known[process.pid] = None  # should two be each other's parent, between two reads
            found = by_leader.get(process.group) or by_leader.get(process.session)
            found = found or by_mark.get(self._entry(process))
            parent = table.get(process.parent)
            if found is None and parent is not None:
                found = self._owner(parent, table, by_mark, by_leader, known)
            known[process.pid] = found
        return known[process.pid]

    def _entry(self, process: Process) -> bytes:
        """Read once for each process: what it was given it keeps, and so do its children."""
        key = process.identity
        if key not in self._marks:
            self._marks[key] = variable_of(process.pid, self.variable)
        return os.fsencode(f"{self.variable}={self._marks[key]}")


METER: Final = MemoryMeter("BEADS_RALPH_JOB")

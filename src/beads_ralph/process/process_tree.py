"""The processes of a job, those that left its group included: found in the table and ended whole."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from beads_ralph.process import job_groups, process_table
from beads_ralph.process.job_groups import JobGroup
from beads_ralph.process.jobs import RUN_ID
from beads_ralph.process.process_table import (
    Process,
    has_entry,
    has_table,
    is_alive,
    name_of,
    start_of,
    words_of,
)

GRACE: Final = 2.0
"""How long a sweep lets the strays of a dead run end by themselves."""
PATIENCE: Final = 5.0
"""How long killed processes may take; only the kernel can hold one up for so long."""
STEP: Final = 0.02
SYNCHRONOUS_SECONDS: Final = 1.0
PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from beads_ralph.process.{module} import main; main(sys.argv[2])"
)

Table: TypeAlias = Mapping[int, Process]


class Family:
    """Everything that a job started.

    A process belongs to it by the leader's group or session, by an entry of its environment (an empty one is
    nobody's), by the job's control group, as an orphan that the job's reaper inherited, or as a descendant of
    one that belongs to it. The leader must not have been reaped before the family is ended: its number would
    be free for strangers. Where there is no /proc the family is the group.
    """

    def __init__(
        self,
        entry: str,
        *,
        leader: int = 0,
        since: int = 0,
        keeper: str = "",
        reap: Callable[[], object] = lambda: None,
        orphans: Callable[[Table], Iterable[Process]] = lambda _: (),
        groups: Iterable[JobGroup] = (),
    ) -> None:
        self.entry = os.fsencode(entry)
        self.leader = leader
        self.since = since
        self.keeper = keeper
        self.spared: set[int] = set()
        self.gone = False
        self._known: set[tuple[int, int]] = set()
        self._reap = reap
        self.orphans = orphans
        self.groups = tuple(groups)

    def adopt(self, pid: int) -> None:
        """Count one in that shows no sign of belonging, as before it takes on its environment."""
        self._known.add((pid, start_of(pid)))

    def spare_none(self) -> None:
        """From now on everyone is to be ended."""
        self.spared.clear()
        self.gone = False

    def find(self) -> set[Process]:
        """Those alive now."""
        if not has_table():
            return self._group_only()
        table = others(self.since)
        for pid in self.spared:
            table.pop(pid, None)
        belonging = [one for one in table.values() if self._belongs(one)]
        found = _with_descendants(table, [*belonging, *self.unmarked(table)])
        # A child in a session of its own with an emptied environment is known by its parent alone, and
        # the parent dies first.
        self._known |= {one.identity for one in found}
        self.gone = not found
        return found

    def unmarked(self, table: Table) -> list[Process]:
        """Those that may have no sign of their own: orphans, and whoever is in a control group of the job."""
        members = {pid for group in self.groups for pid in group.members()}
        return [*self.orphans(table), *(table[pid] for pid in members if pid in table)]

    def ending(self, grace: float) -> Iterator[float]:
        """End them all; gives how long to pause before the next step, so that callers may await it."""
        found = self.find()
        if not found:
            return
        self._signal(found, signal.SIGTERM)
        until = time.monotonic() + grace
        while self._still(found) and time.monotonic() < until:
            yield STEP
        yield from self.killing(PATIENCE)

    def killing(self, patience: float) -> Iterator[float]:
        """Kill until none is left: one may fork between our look and our signal."""
        until = time.monotonic() + patience
        while found := self.find():
            for group in self.groups:
                group.kill()
            self._signal(found, signal.SIGKILL)
            if time.monotonic() > until:
                return
            yield STEP

    def remove_groups(self) -> None:
        """Once nobody is left in them."""
        for group in self.groups:
            group.remove()

    def kill_now(self) -> None:
        """The same without an event loop, for when there is no time left to await anything."""
        for pause in self.killing(SYNCHRONOUS_SECONDS):
            time.sleep(pause)

    def _belongs(self, process: Process) -> bool:
        if self.leader and self.leader in {process.group, process.session}:
            return True
        return process.identity in self._known or (bool(self.entry) and has_entry(process, self.entry))

    def _signal(self, processes: Iterable[Process], number: signal.Signals) -> None:
        """Once per process: a second TERM means "at once" to some programs."""
        gently = bool(self.keeper) and number == signal.SIGTERM
        if gently:  # the keeper ends with what it keeps; a program should hear of it before its children
            kept = (one for one in processes if name_of(one.pid) != self.keeper)
            processes = sorted(kept, key=lambda one: (one.started, one.pid))
        elif self.leader:
            self._signal_group(number)
        for one in processes:
            if self.leader and one.group == self.leader and not gently:
                continue
            try:
                _signal_one(one, number)
            except PermissionError:  # it became another user's (sudo): nothing that we could do
                self.spared.add(one.pid)

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self.leader, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _still(self, processes: Iterable[Process]) -> bool:
        if not has_table():
            return bool(self._group_only())
        return any(is_alive(one) for one in processes)

    def _group_only(self) -> set[Process]:
        self._reap()  # a dead leader that was not reaped counts as a member
        alive = bool(self.leader) and self._signal_group(0)
        self.gone = not alive
        return {Process(self.leader, 0, group=self.leader)} if alive else set()


def topmost(variable: str, value: str) -> list[Process]:
    """The living processes of ours whose environment has VARIABLE=value, without their descendants."""
    found = Family(f"{variable}={value}").find() if has_table() else set()
    numbers = {one.pid for one in found}
    return sorted(one for one in found if one.parent not in numbers)


def sweep(variable: str, value: str) -> list[int]:
    """End every process of ours whose environment has VARIABLE=value; their numbers."""
    if not (variable and value and has_table()):
        return []
    family = Family(f"{variable}={value}", groups=job_groups.of_run(value) if variable == RUN_ID else ())
    reapers = _reapers_of(family.find())
    family.orphans = lambda table: [one for one in table.values() if one.parent in reapers]
    found = sorted(one.pid for one in family.find())
    family.spared |= reapers  # until the rest is gone: an orphan of a dead one would be nobody's
    for pause in family.ending(GRACE) if found else ():
        time.sleep(pause)
    family.spare_none()
    family.kill_now()
    family.remove_groups()
    return found


def _reapers_of(processes: Iterable[Process]) -> set[int]:
    """The reapers among them and among their parents; that of a dead loop has no sign of its own."""
    numbers = {number for one in processes for number in (one.pid, one.parent)}
    return {number for number in numbers if is_reaper(words_of(number))}


# --- reapers, by their words -----------------------------------------------------------------------


def reaper_command(module: str, where: str) -> list[str]:
    """The words that run a module of this folder, from where we come from whatever the environment says."""
    parent = str(Path(__file__).parents[2])
    return [sys.executable, "-I", "-X", "utf8", "-c", PROGRAM.format(module=module), parent, where]


def is_reaper(words: list[str]) -> bool:
    """Tell by its words whether a process is a starter, a reaper, or the reaper in a tmux pane."""
    return any(PROGRAM.format(module=module) in words for module in ("reaper", "pane"))


# --- who is whose ----------------------------------------------------------------------------------


def others(since: int = 0) -> dict[int, Process]:
    """The table without us and those that started us."""
    table = process_table.read_table(since)
    number = os.getpid()
    while number:
        process = table.pop(number, None)
        number = process.parent if process else 0
    return table


def _with_descendants(table: dict[int, Process], roots: list[Process]) -> set[Process]:
    if not roots:
        return set()
    children: dict[int, list[Process]] = {}
    for one in table.values():
        children.setdefault(one.parent, []).append(one)
    found: set[Process] = set()
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(children.get(one.pid, ()))
    return found


def _signal_one(process: Process, number: signal.Signals) -> None:
    if is_alive(process):
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)

"""The live model of a repository: opened at any time, read without a trace, followed as it changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beads_ralph.board import store_look
from beads_ralph.board.activity import Watched
from beads_ralph.board.composing import Composed, compose
from beads_ralph.board.folding import WANTED, apply_all
from beads_ralph.board.journal_tail import JournalTail
from beads_ralph.board.model import BoardState
from beads_ralph.board.signs import RunSigns
from beads_ralph.board.store_look import StoreLook
from beads_ralph.board.told import Told
from beads_ralph.config import workspace
from beads_ralph.config.settings_file import StoreChoice
from beads_ralph.config.workspace import RalphPlace
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal import runs
from beads_ralph.journal.journal import moment_text
from beads_ralph.journal.runs import RunFolder

if TYPE_CHECKING:
    from beads_ralph.board.expecting import Expecting

POLL_SECONDS: Final = 0.5
STORE_SECONDS: Final = 1.0
"""The store is not read more often than that, however much happens."""
IDLE_SECONDS: Final = 10.0
"""It is read so often without any sign, since people change it, too."""
STORE_SHARE: Final = 50.0
"""A look that took a second is not repeated for so many seconds."""
SETTLING_SECONDS: Final = 1.0
"""The journal tells of a bead's end and the store has it, but not at the very same moment."""
LOCK_SECONDS: Final = 5.0


@dataclass(frozen=True)
class BoardChange:
    """A new state, and what is new in it."""

    state: BoardState
    changed: tuple[str, ...]
    """Beads that are new or different."""
    removed: tuple[str, ...] = ()

    @property
    def seq(self) -> int:
        return self.state.seq


@dataclass
class BoardSource:
    """What both boards and `status` look at. Nothing is written, and no lock is held."""

    place: RalphPlace
    store: StoreChoice | None = None
    run_id: str | None = None
    """The run to show; without one, the newest, also one that begins later."""
    budget: Mapping[str, float | None] = field(default_factory=dict)
    told: Told = field(default_factory=Told)
    look: StoreLook = field(default_factory=StoreLook)

    def __post_init__(self) -> None:
        self._folder: RunFolder | None = None
        self._tail: JournalTail | None = None
        self._state: BoardState | None = None
        self._looked_at = float("-inf")
        self._look_took = 0.0
        self._looked_after = -1
        self._ends: dict[str, tuple[int, float]] = {}
        self._watched, self._composed = Watched(), Composed()
        self._expecting: Expecting | None = None
        self._alive = False
        self._asked_lock_at = float("-inf")
        self._runs_seen: tuple[int, int] | None = None

    @classmethod
    def open(
        cls,
        start: Path | None = None,
        *,
        store: StoreChoice | None = None,
        run: str | None = None,
        glance: bool = False,
    ) -> BoardSource:
        """The board of the repository around `start`; FILE.NOT_FOUND where `run` names none of its runs. A
        glance is without the agents' words, which take a moment to read: the next look has them."""
        place = workspace.place(start)
        source = cls(place, store, chosen_run(place, run) if run else None)
        source.poll(glance=glance)
        return source

    @property
    def folder(self) -> RunFolder | None:
        """The run that is shown."""
        return self._folder

    def snapshot(self) -> BoardState:
        """How things stand, as of the last look."""
        return self._state if self._state is not None else self.poll()

    def poll(self, *, glance: bool = False) -> BoardState:
        """Read what is new, and say how things stand; the same object where nothing is. The first look is
        without a forecast, so that a board opens at once."""
        first = self._state is None
        self._turn_to_newest()
        if self._tail is not None:
            apply_all(self.told, self._tail.new_rows())
        self._look_at_life()
        self._note_ends()
        self._look_at_store()
        self._state = self._compose(glance=glance)
        return self._state if first else self.expect()

    def _compose(self, *, glance: bool = False) -> BoardState:
        return compose(self.told, self.look, self._signs(glance=glance), self._state, self._composed)

    def expect(self) -> BoardState:
        """The same with when the run will probably be done."""
        state = self.snapshot()
        if self._expecting is None:
            if state.run.mode != "running" or not self._has_past():
                return state
            from beads_ralph.board.expecting import Expecting

            self._expecting = Expecting(self.place)
        if self._expecting.look(state, datetime.now(UTC)) != state.run.forecast:
            self._state = self._compose()
        return self.snapshot()

    def _has_past(self) -> bool:
        """Tell whether anything was judged here before; to read it all takes a while."""
        judged = any(bead.attempts for bead in self.told.beads.values())
        return judged or len(runs.folders(self.place.home)) > 1

    def follow(
        self, ended: Callable[[], bool] = lambda: False, seconds: float = POLL_SECONDS
    ) -> Iterator[BoardChange]:
        """The whole state first, then each that differs from the one before, until `ended` says so."""
        last: BoardState | None = None
        while True:
            state = self.poll()
            if state is not last:
                yield change(last, state)
                last = state
            if ended():
                return
            time.sleep(seconds)

    def refresh(self) -> BoardState:
        """The same, with the store read again whatever the clock says: after an action."""
        self._looked_at = float("-inf")
        self._looked_after = -1
        self._ends = {name: (revision, float("-inf")) for name, (revision, _) in self._ends.items()}
        return self.poll()

    # --- the run --------------------------------------------------------------------------------------

    def _turn_to_newest(self) -> None:
        folder = self._wanted()
        if folder is None or folder == self._folder:
            return
        self._folder, self._tail = folder, JournalTail(folder.journal, WANTED)
        self.told, self._watched, self._composed, self._ends = Told(), Watched(), Composed(), {}
        self._looked_after, self._asked_lock_at = -1, float("-inf")

    def _wanted(self) -> RunFolder | None:
        """The folder of runs is listed only when something was added to it."""
        home = self.place.home
        if self.run_id is not None:
            return RunFolder(home, self.run_id)
        try:
            found = (home / runs.RUNS).stat()
        except OSError:
            return None
        seen = (found.st_mtime_ns, found.st_ino)
        if seen != self._runs_seen:
            self._runs_seen = seen
            return runs.latest(home)
        return self._folder

    def _look_at_life(self) -> None:
        """By the process that the run has named; only where that is gone, by the lock."""
        if self._folder is None or self.told.end is not None:
            self._alive = False
            return
        home = self.place.home
        holder = runs.holder(home)
        named = holder is not None and holder.run_id == self._folder.run_id
        if self._alive and named and holder is not None and is_there(holder.pid):
            return
        now = time.monotonic()
        if now - self._asked_lock_at >= LOCK_SECONDS or self._alive:
            self._asked_lock_at = now
            self._alive = (named or holder is None) and runs.is_running(home)

    # --- the store ------------------------------------------------------------------------------------

    def _look_at_store(self) -> None:
        now = time.monotonic()
        waited, changes = now - self._looked_at, self.told.store_changes
        due = STORE_SECONDS if self._looked_after != changes else IDLE_SECONDS
        if waited < max(due, STORE_SHARE * self._look_took):
            return
        self._looked_at, self._looked_after = now, changes
        self.look = store_look.look(self.place, self.store)
        self._look_took = time.monotonic() - now

    def _note_ends(self) -> None:
        """When this board has heard of each end, as far as the store may not have it yet."""
        if not self._alive:
            self._ends.clear()
            return
        now = time.monotonic()
        for name, said in self.told.beads.items():
            known = self._ends.get(name)
            if said.ended and (known is None or known[0] != said.revision):
                self._ends[name] = (said.revision, now)

    def _trusted(self) -> frozenset[str]:
        since = self._looked_at - SETTLING_SECONDS
        return frozenset(name for name, (_, heard) in self._ends.items() if heard > since)

    def _signs(self, *, glance: bool = False) -> RunSigns:
        now = datetime.now(UTC)
        said = self.told.beads.items() if self._alive and not glance else ()
        at_work = {name: bead for name, bead in said if bead.at_work}
        return RunSigns(
            run_id=self._folder.run_id if self._folder else None,
            alive=self._alive,
            told_to=runs.ordered(self.place.home) if self._alive else None,
            broken_lines=self._tail.broken if self._tail else 0,
            activity=self._watched.look(at_work, now),
            trusted=self._trusted(),
            now=moment_text(now),
            budget=self.budget,
            forecast=self._expecting.found if self._expecting else None,
        )


def change(before: BoardState | None, after: BoardState) -> BoardChange:
    """What a client has to be told that has seen `before`."""
    known = {bead.id: bead for bead in before.beads} if before else {}
    new = {bead.id for bead in after.beads}
    changed = tuple(bead.id for bead in after.beads if known.get(bead.id) != bead)
    return BoardChange(after, changed, tuple(name for name in known if name not in new))


def chosen_run(place: RalphPlace, run: str) -> str:
    """The run of that id, or whose id alone begins so."""
    found = [folder.run_id for folder in runs.folders(place.home) if folder.run_id.startswith(run)]
    if run in found or len(found) == 1:
        return run if run in found else found[0]
    message = f"{len(found)} runs begin with {run}" if found else f"there is no run {run}"
    raise RalphError(Code.FILE_NOT_FOUND, message, suggested_action="See them: beads-ralph runs list")


def is_there(pid: int) -> bool:
    """Tell whether a process of that number lives."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

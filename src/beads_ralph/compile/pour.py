"""Molecules into the store: everything checked first, whole rows only, and an exact account."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from beads_ralph.bead.names import MERGE, MOLECULE
from beads_ralph.compile.molecule import Molecule
from beads_ralph.compile.rows import FilledRow, Recipe, molecules, refused
from beads_ralph.compile.setting import number_in
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.formula.model import all_steps
from beads_ralph.formula.render import render
from beads_ralph.store.protocol import Pours, Store
from beads_ralph.store.query import ItemQuery, Query

BATCH: Final = 60
"""So many beads and items go into the store in one step; a row is never divided."""
TRIES: Final = 50
"""Attempts before we give up because other processes take our numbers."""
OF_A_ROW: Final = frozenset({Code.DUPLICATE_ID, Code.UNRESOLVED, Code.CYCLE_DETECTED, Code.INSERT_FAILED})
"""Failures that one row of a batch may be to blame for; unless they say that something was inserted."""

Tell = Callable[[int, int], None]
"""Hears how many rows are poured, of how many."""


@dataclass
class Account:
    """The outcome of a pour, row by row."""

    rows: int
    roots: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    failed: RalphError | None = None
    failed_row: int | None = None
    interrupted: bool = False

    @property
    def poured(self) -> int:
        return len(self.roots)

    def to_json(self) -> dict[str, Any]:
        error, failure = self.failed, None
        if error is not None:
            failure = {"row": self.failed_row, "code": str(error.code), "message": error.message}
        not_tried = self.rows - self.poured - (self.failed is not None)
        return {"rows": self.rows, "poured": self.poured, "failed": failure, "not_tried": not_tried}


# --- before -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PreparedPour:
    """Rows that may go into the store, and what each of them will be."""

    recipe: Recipe
    ordered: Sequence[FilledRow]
    made: Sequence[Molecule]


def prepare(store: Store, recipe: Recipe, ordered: Sequence[FilledRow]) -> PreparedPour:
    """Compose every row and check it, alone and against the store; nothing is written."""
    recipe = replace(recipe, branches=_branches(store, recipe, ordered))
    made = molecules(recipe, ordered, next_number(store, recipe))
    faults = _store_faults(store, recipe, ordered, made)
    if faults:
        raise refused(recipe, faults)
    return PreparedPour(recipe, ordered, made)


def _branches(store: Store, recipe: Recipe, ordered: Sequence[FilledRow]) -> dict[str, str]:
    """The branches of what merge steps wait for outside: those are what they merge."""
    steps = [step for formula in recipe.formulas for _, step in all_steps(formula.steps)]
    if not any(step.after and step.type.strip() == MERGE for step in steps):
        return {}
    pairs = [pair for order in ordered for pair in zip(recipe.formulas, order.values, strict=True)]
    rendered = [step for formula, values in pairs for step in render(formula, values).steps]
    wanted = sorted({name for step in rendered for name in step.after})
    return {bead.id: bead.metadata.branch for bead in store.find(Query(ids=wanted)).beads} if wanted else {}


def next_number(store: Store, recipe: Recipe) -> int:
    """One more than the highest of the formula's pours, those whose branches are still there included."""
    roots = (item.id for item in store.items.find(ItemQuery(types=(MOLECULE,))))
    names = [*roots, *recipe.setting.branches]
    return 1 + max((number_in(name, recipe.formula.name) or 0 for name in names), default=0)


def _store_faults(
    store: Store, recipe: Recipe, ordered: Sequence[FilledRow], made: Sequence[Molecule]
) -> list[Fault]:
    """Ids that are taken, and dependencies that are nowhere."""
    given = {identity for molecule in made for identity in molecule.given_ids}
    coming = {member.id for molecule in made for member in molecule.members}
    outside = {identity for molecule in made for identity in molecule.outside} - coming
    there = held(store, [*given, *outside])
    faults: list[Fault] = []
    for order, molecule in zip(ordered, made, strict=True):
        for identity in sorted(molecule.given_ids & there):
            message = f"{order.row.start}{identity} is in the store already"
            faults.append(Fault(Code.DUPLICATE_ID, message, recipe.file, None, "bead_id", TAKEN))
        for identity in sorted(molecule.outside - coming - there):
            message = f"{order.row.start}a step waits for {identity}, which is not in the store"
            faults.append(Fault(Code.UNRESOLVED, message, recipe.file, None, "after", ABSENT))
    return faults


TAKEN: Final = "Give the values another bead id, or leave out the row: it may be poured already"
ABSENT: Final = "Name a bead that is there: beads-ralph list"


def held(store: Store, ids: Sequence[str]) -> frozenset[str]:
    """The ids that the store has, as a bead or as an item."""
    if not ids:
        return frozenset()
    listing = store.find(Query(ids=ids))
    items = store.items.find(ItemQuery(ids=ids))
    beads = [bead.id for bead in listing.beads] + [bead.id for bead in listing.unreadable]
    return frozenset([*beads, *(item.id for item in items)])


# --- pouring ----------------------------------------------------------------------------------------


class PourInterruption:
    """Ctrl-C, or a polite end from outside, remembered until the batch in hand is in the store."""

    asked = False

    def ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def interruptible() -> Iterator[PourInterruption]:
    seen = PourInterruption()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, seen.ask) for number in numbers]
    try:
        yield seen
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def pour(store: Store, prepared: PreparedPour, tell: Tell) -> Account:
    """Put the prepared molecules into the store, in batches of whole rows."""
    return _run(_Rendered(store, prepared), prepared.ordered, tell)


def pour_plain(store: Pours, recipe: Recipe, ordered: Sequence[FilledRow], tell: Tell) -> Account:
    """Let the store pour its own formula, one row after the other."""
    return _run(_Plain(store, recipe, ordered), ordered, tell)


def _run(way: _Rendered | _Plain, ordered: Sequence[FilledRow], tell: Tell) -> Account:
    account = Account(len(ordered))
    with interruptible() as seen:
        while account.poured < account.rows:
            if seen.asked:
                account.interrupted = True
                break
            try:
                way.step(account)
            except RalphError as error:
                account.failed, account.failed_row = error, ordered[account.poured].row.number
                break
            tell(account.poured, account.rows)
    return account


class _Plain:
    """One row after the other, by the store itself."""

    def __init__(self, store: Pours, recipe: Recipe, ordered: Sequence[FilledRow]) -> None:
        self.store, self.recipe, self.ordered = store, recipe, ordered

    def step(self, account: Account) -> None:
        recipe, texts = self.recipe, self.ordered[account.poured].values[0].texts()
        # bd takes an empty value for a missing one, unless there is a default that it replaces.
        replaced = {name for name, var in recipe.formula.vars.items() if var.default}
        given = {name: text for name, text in texts.items() if text or name in replaced}
        poured = self.store.pour(recipe.formula.name, given, wisp=recipe.wisp, assignee=recipe.assignee)
        account.roots.append(poured.root)
        account.members += [identity for identity in poured.ids.values() if identity != poured.root]


class _Rendered:
    """Batches of molecules that were made here."""

    def __init__(self, store: Store, prepared: PreparedPour) -> None:
        self.store = store
        self.recipe, self.ordered = prepared.recipe, prepared.ordered
        self.made = list(prepared.made)
        self.rows = self._rows()
        self.size = BATCH
        self.tries = TRIES

    def _rows(self) -> dict[str, int]:
        return {member.id: at for at, molecule in enumerate(self.made) for member in molecule.members}

    def step(self, account: Account) -> None:
        batch = self._batch(account.poured)
        try:
            self.store.create([thing for molecule in batch for thing in molecule.batch])
        except RalphError as error:  # nothing of the batch is in the store
            self._recover(error, batch, account.poured)
        else:
            account.roots += [molecule.root.id for molecule in batch]
            account.members += [member.id for molecule in batch for member in molecule.members]

    def _batch(self, start: int) -> list[Molecule]:
        """The next rows, down to the last one that any of them waits for."""
        end, needed, size = start, start, 0
        while end < len(self.made) and (end <= needed or size < self.size):
            molecule = self.made[end]
            needed = max([needed, *(self.rows.get(other, 0) for other in molecule.outside)])
            size += len(molecule.batch)
            end += 1
        return self.made[start:end]

    def _recover(self, error: RalphError, batch: Sequence[Molecule], start: int) -> None:
        """Another process had the same numbers: take the next ones. One row is to blame: find it."""
        given = {identity for molecule in batch for identity in molecule.given_ids}
        if error.code is Code.DUPLICATE_ID and self.tries and not held(self.store, sorted(given)):
            self.tries -= 1
            self._renumber(start)
        elif error.code in OF_A_ROW and not error.data and len(batch) > 1 and self.size:
            self.size = 0
        else:
            raise error

    def _renumber(self, start: int) -> None:
        used = number_in(self.made[start].root.id, self.recipe.formula.name) or 0
        first = max(next_number(self.store, self.recipe), used + 1)
        self.made[start:] = [
            self.recipe.molecule(order, number) for number, order in enumerate(self.ordered[start:], first)
        ]
        self.rows = self._rows()

"""The closed beads of the store while a run is on: judged, opened again where nobody has proven them, and
accounted for at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, Protocol

from beads_ralph.bead.model import Bead
from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.words import utc_text
from beads_ralph.errors import Code, RalphError
from beads_ralph.journal.events import BeadReopened, WarningGiven
from beads_ralph.journal.journal import EventSink
from beads_ralph.journal.proofs import Ledger
from beads_ralph.loop.closed_beads import ACTION, ClosedBeads, asked_of
from beads_ralph.loop.last_asked import LastAsked
from beads_ralph.loop.store_turns import Answer, Given
from beads_ralph.session.history import metadata_of
from beads_ralph.store.protocol import Changes, Listing, Store
from beads_ralph.store.query import Query

MOST_REOPENED: Final = 3
"""So often a bead is opened again in one run that something closes each time."""
ALTERED: Final = (
    "its work or its checks were changed while the run was on; run again to take them as they are"
)
EVERYTHING: Final = Query(wisps=True)
EVERYTHING_OPEN: Final = Query(wisps=True, for_run=True)
PAGE: Final = 100
ByHand = Literal["ask", "accept", "reopen"]


def pages(ids: Iterable[str]) -> Iterator[list[str]]:
    """A few at a time, so that nobody has all of them in memory at once."""
    left = sorted(ids)
    return (left[start : start + PAGE] for start in range(0, len(left), PAGE))


def _named(listing: Listing) -> set[str]:
    return {bead.id for bead in listing.beads} | {broken.id for broken in listing.unreadable}


class Ask(Protocol):
    """Calls the store, with patience."""

    async def __call__(
        self, call: Callable[Given, Answer], *args: Given.args, **named: Given.kwargs
    ) -> Answer:
        """The store's answer."""


class ProofWatch:
    """Sees to it that what counts as closed in a run is proven, or accepted by a person."""

    def __init__(
        self, ask: Ask, store: Store, journal: EventSink, by_hand: ByHand, ledger: Ledger, about: Query
    ) -> None:
        self.about = about
        """Finds the beads that the run has to see."""
        self.ask = ask
        self.store = store
        self.journal = journal
        self.by_hand = by_hand
        self.closed = ClosedBeads(ledger)
        self.last_asked = LastAsked(ledger.home)
        self.begun_with: frozenset[str] = frozenset()
        """The beads of the run when it began: each must be accounted for at its end."""
        self.began = utc_text(datetime.now(UTC))
        self.elsewhere: frozenset[str] = frozenset()
        """The beads that were closed when the run began and that it need not see before its first agent."""
        self.altered: set[str] = set()
        """The open beads whose work or checks somebody changed while the run was on."""
        self.no_beads: set[str] = set()
        """What beads depend on and what has no branch: gates, people's tasks."""
        self.reopened_before = 0
        """How many beads had been opened again when ready ones were last looked for."""

    async def begin(self, seen: Listing, asked_for: Sequence[Bead]) -> None:
        """Look at the closed beads that the run is about, or builds on."""
        beads, here = seen.beads, _named(seen)
        self.elsewhere = frozenset() if seen.whole else await self.ask(self.store.closed) - here
        self.begun_with = frozenset(bead.id for bead in asked_for)
        self.closed.begin(beads)
        for text in self.last_asked.changes(asked_for):
            self.journal.emit(WarningGiven(message=text))
        self._keep_asked(beads, self.begun_with)
        needed = {name for bead in asked_for if bead.status != "closed" for name in bead.dependencies}
        await self._judge((bead for bead in beads if bead.id in self.begun_with | needed), self.by_hand)

    async def see(self, beads: Sequence[Bead], asked_for: Sequence[Bead]) -> None:
        """The same for beads that nobody had to see before the first agent started. What was written to one
        since then may be an agent's word."""
        self.closed.begin([bead for bead in beads if (bead.updated_at or "") <= self.began])
        self.begun_with |= {bead.id for bead in asked_for}
        await self._judge(asked_for, self.by_hand)

    def _keep_asked(self, beads: Sequence[Bead], told: Collection[str]) -> None:
        """All that is open is among the beads, but where the run is about some alone."""
        self.last_asked.keep(beads, told, only_these=self.about in (EVERYTHING, EVERYTHING_OPEN))

    def take_up(self, beads: Sequence[Bead], asked_for: Sequence[Bead]) -> None:
        """A person asks for these as they are now, beside those that the run began with."""
        self.begun_with |= {bead.id for bead in asked_for}
        self.closed.asked |= {bead.id: asked_of(bead) for bead in beads if bead.status != "closed"}
        self.altered -= {bead.id for bead in beads}

    async def _judge(self, beads: Iterable[Bead], rule: ByHand) -> None:
        """A bead that is closed without a proof is a person's word, if anybody's: the rule says whether it
        counts. Where a person is to be asked, the bead and those that need it wait."""
        for bead in self.closed.examine(beads):
            why = self.closed.unproven[bead.id]
            if rule == "reopen" and self.closed.reopened[bead.id] < MOST_REOPENED:
                await self.reopen(bead, why)
            elif rule == "accept":
                self.closed.accept(bead.id, f"{why}; closed_by_hand: accept")
                self._warn(bead, f"{why}; accepted, since closed_by_hand says so")
            else:
                self._warn(bead, f"{why}: {ACTION.format(bead=bead.id)}")

    @property
    def _meanwhile(self) -> ByHand:
        """The rule for beads that are closed while a run is on: by an agent, as far as anybody knows."""
        return "accept" if self.by_hand == "accept" else "reopen"

    def _warn(self, bead: Bead, message: str) -> None:
        self.journal.emit(WarningGiven(bead=bead.id, team=bead.metadata.team_name, message=message))

    # --- a closed bead that is not done -------------------------------------------------------------

    async def reopen(self, bead: Bead, reason: str, state: RunState | None = None) -> None:
        """Open a closed bead again, loudly; what was found out about it is kept."""
        metadata = metadata_of(bead, (state or RunState()).changed(RunState(proven=None, parked=None)))
        changes = Changes(status="open", metadata=metadata)
        try:
            await self.ask(self.store.update, bead.id, changes)
        except RalphError as error:
            if error.code != Code.CONFLICT or not await self._take_away(bead.id):
                raise
            await self.ask(self.store.update, bead.id, changes)
        self.closed.reopen(bead.id)
        self.journal.emit(BeadReopened(bead=bead.id, team=bead.metadata.team_name, reason=reason))

    async def _take_away(self, bead_id: str) -> bool:
        """Nobody can hold what is closed: whoever is said to, does not; False where nobody is."""
        found = await self.ask(self.store.find, Query(ids=[bead_id]))
        holders = [(bead.model_extra or {}).get("claimed_by") for bead in found.beads]
        for holder in filter(None, holders):
            await self.ask(self.store.release, bead_id, str(holder), status="open")
        return any(holders)

    async def set_aside(self, bead: Bead) -> None:
        """Block a bead that nobody holds."""
        await self.ask(self.store.update, bead.id, Changes(status="blocked"))

    async def block(self, bead_id: str, reason: str) -> None:
        """A proven bead whose commit is not where it was proposed is not done: a person has to look."""
        found = await self.ask(self.store.find, Query(ids=[bead_id]))
        for bead in found.beads:
            await self.reopen(bead, reason)
            await self.set_aside(bead)

    async def snatched(self, bead: Bead) -> bool:
        """Whether somebody has closed a bead in our hands: its agent, as far as anybody knows."""
        now = await self.ask(self.store.find, Query(ids=[bead.id]))
        return any(one.status == "closed" and one.id not in self.closed.trusted for one in now.beads)

    # --- what may start -----------------------------------------------------------------------------

    def look_again(self) -> None:
        """Ready beads are being looked for, so what was opened again until now is among them."""
        self.reopened_before = self.closed.reopened.total()

    @property
    def has_reopened(self) -> bool:
        """Whether beads were opened again since ready ones were last looked for."""
        return self.closed.reopened.total() > self.reopened_before

    def is_as_it_was(self, bead: Bead) -> bool:
        """Whether the bead asks for what it asked for when the run began; if not, that is remembered."""
        if not self.closed.is_as_it_was(bead):
            self.altered.add(bead.id)
        return bead.id not in self.altered

    async def sound(self, ready: Sequence[Bead]) -> list[Bead]:
        """Those among the ready beads that nobody has altered, and that build on what is done."""
        unaltered = [bead for bead in ready if self.is_as_it_was(bead)]
        doubtful = await self._doubtful(unaltered)
        return [bead for bead in unaltered if not doubtful & {*bead.dependencies}]

    async def _doubtful(self, beads: Sequence[Bead]) -> set[str]:
        """The closed beads, among those that these build on, which nobody has proven or accepted."""
        closed = self.closed
        if closed.accepted_since() and closed.unproven:
            found = await self.ask(self.store.find, Query(ids=sorted(closed.unproven)))
            closed.examine(found.beads)
        needed = {name for bead in beads for name in bead.dependencies} - closed.trusted - self.no_beads
        if unseen := sorted(needed - closed.unproven.keys()):
            found = await self.ask(self.store.find, Query(ids=unseen))
            self.no_beads |= {*unseen} - {bead.id for bead in found.beads}
            await self._judge(found.beads, self._meanwhile)
        return needed - closed.trusted - self.no_beads

    # --- the end ------------------------------------------------------------------------------------

    async def account(self, closed_before: Collection[str]) -> dict[str, str]:
        """The beads that are not done although none of them is open: closed without a proof, or gone; and
        those that are open, but were changed by somebody while the run was on. `closed_before` are those
        that were closed when they were last seen."""
        listing = await self.ask(self.store.find, self.about)
        closed = {bead.id for bead in listing.beads if bead.status == "closed"}
        closed |= frozenset() if listing.whole else await self.ask(self.store.closed)
        mine = self.begun_with | (closed - {*closed_before})
        await self._judge((bead for bead in listing.beads if bead.id in mine), self._meanwhile)
        here = _named(listing)
        for ids in pages((mine & closed) - here):
            found = await self.ask(self.store.find, Query(ids=ids))
            await self._judge(found.beads, self._meanwhile)
        self._keep_asked(listing.beads, self.begun_with - self.altered)
        gone = dict.fromkeys(self.begun_with - here - closed, "gone from the store since the run began")
        untrue = {name: why for name, why in self.closed.blocked().items() if name in mine}
        return gone | dict.fromkeys(self.altered, ALTERED) | untrue

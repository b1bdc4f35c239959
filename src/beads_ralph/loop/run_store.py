"""The loop's hand on the store: as few calls as possible, each of them with patience."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, ParamSpec, TypeVar

from beads_ralph.bead import graph
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead, Verifier
from beads_ralph.bead.personas import with_sessions
from beads_ralph.bead.redaction import redact
from beads_ralph.bead.run_state import RunState
from beads_ralph.dod.imports import is_gate
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import guard
from beads_ralph.journal import runs
from beads_ralph.journal.events import (
    AttemptInterrupted,
    BeadBlocked,
    BeadReopened,
    ItemsSettled,
    WarningGiven,
)
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.proofs import Ledger
from beads_ralph.loop.blockers import NOT_CLOSED, for_people
from beads_ralph.loop.closed_beads import ACTION, ClosedBeads
from beads_ralph.loop import recovery
from beads_ralph.loop.run_settings import Scope, Settings
from beads_ralph.process.calls import Retry, in_thread
from beads_ralph.session import Order, Outcome, Tools
from beads_ralph.store import convoys
from beads_ralph.store.protocol import Changes, Findings, Listing, Store
from beads_ralph.store.query import Query, UnreadableBead

LOG: Final = logging.getLogger(__name__)
RECLAIM_AGE: Final = timedelta(minutes=10)
PASSING: Final = (Code.DATABASE_TIMEOUT, Code.COMMAND_FAILED)
"""What the store says of trouble that may be over in a moment; "already claimed" is not among it."""
RETRY: Final = Retry(first=0.1, longest=5.0)
MOST_REOPENED: Final = 3
"""So often a bead is opened again in one run that something closes each time."""
ALTERED: Final = (
    "its work or its checks were changed while the run was on; run again to take them as they are"
)
ByHand = Literal["ask", "accept", "reopen"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Known:
    """What is remembered of a bead. Not the bead itself: with its history it would fill the memory of a
    long run."""

    branch: str
    plan_file: str
    verifiers: tuple[Verifier, ...]
    closed: bool
    commit: str | None
    """The one that was proven."""

    @classmethod
    def of(cls, bead: Bead) -> Known:
        place = bead.metadata
        verifiers = tuple(place.dod.verifiers) if place.dod else ()
        proven = place.proven.commit if place.proven and bead.status == "closed" else None
        return cls(place.branch, place.plan_file, verifiers, bead.status == "closed", proven)


class Pool:
    """The beads of a run."""

    def __init__(
        self, store: Store, settings: Settings, scope: Scope, tools: Tools, journal: Journal
    ) -> None:
        self.store = store
        self.actor = settings.actor
        self.run_id = settings.run_id
        self.scope = scope
        self.root = tools.root
        self.config = tools.config
        self.home = tools.folder.home
        self.journal = journal
        self.known: dict[str, Known] = {}
        self.no_beads: set[str] = set()
        """What beads depend on and what has no branch: gates, people's tasks."""
        self.parents: set[str] = set()
        """The molecules and epics whose beads this run has closed."""
        self.may_settle = False
        """Whether a molecule, an epic or a convoy may have come to its end in this run."""
        self.depth: Mapping[str, int] = {}
        self.unreadable: dict[str, str] = {}
        """Of the beads that the run is about, and of those that they build on."""
        self.spoiled: dict[str, str] = {}
        """All beads that could not be read when the run began."""
        self.closed_beads = ClosedBeads(Ledger(self.home))
        self.reopened_before = 0
        """How many beads had been opened again when ready ones were last looked for."""
        self.altered: set[str] = set()
        """The open beads whose work or checks somebody changed while the run was on."""
        self.begun_with: frozenset[str] = frozenset()
        """The beads of the run when it began: each must be accounted for at its end."""

    async def ask(self, call: Callable[Given, Answer], *args: Given.args, **named: Given.kwargs) -> Answer:
        """The store's answer; passing trouble is waited out, a bounded number of times."""
        for pause in RETRY.pauses():
            try:
                return await in_thread(call, *args, **named)
            except RalphError as error:
                if error.code not in PASSING:
                    raise
                LOG.warning("the store failed, and is asked again: %s", error.message)
            await asyncio.sleep(pause)
        return await in_thread(call, *args, **named)

    # --- recovery -----------------------------------------------------------------------------------

    async def recover(self) -> Sequence[Bead]:
        """Claims of dead runs on this repository are given back, wisps too, whatever this run is about; our
        lock says that no other run lives. Every bead of the store that the run may see, as it was found."""
        everything = await self.ask(self.store.find, Query(wisps=True))
        await self._put_right(everything.beads)
        await self.ask(self.store.reclaim, RECLAIM_AGE)
        self.spoiled = {broken.id: _why_unreadable(broken) for broken in everything.unreadable}
        self.known = {bead.id: Known.of(bead) for bead in everything.beads}
        proven = [(one.branch, one.commit) for one in self.known.values() if one.commit]
        await in_thread(guard.expect_proven, self.root, proven)
        left = {bead.id: bead.dependencies for bead in everything.beads if bead.status != "closed"}
        self.depth = graph.remaining_depth(left)
        self.begun_with = frozenset(bead.id for bead in self.asked_for(everything.beads))
        self.closed_beads.begin(everything.beads)
        relevant = [bead for bead in everything.beads if self._matters(bead, left)]
        await self._judge_closed(relevant, self.config.closed_by_hand)
        return [bead for bead in everything.beads if self.scope.wisps or not bead.ephemeral]

    # --- closed beads -------------------------------------------------------------------------------

    def _matters(self, bead: Bead, left: Mapping[str, Sequence[str]]) -> bool:
        """Whether the run is about the bead, or builds on it."""
        return bead.id in self.begun_with or any(
            bead.id in left[name] for name in left.keys() & self.begun_with
        )

    async def _judge_closed(self, beads: Iterable[Bead], rule: ByHand) -> None:
        """A bead that is closed without a proof is a person's word, if anybody's: the rule says whether it
        counts. Where a person is to be asked, the bead and those that need it wait."""
        for bead in self.closed_beads.examine(beads):
            why = self.closed_beads.unproven[bead.id]
            if rule == "reopen" and self.closed_beads.reopened[bead.id] < MOST_REOPENED:
                await self.reopen(bead, why)
            elif rule == "accept":
                self.closed_beads.accept(bead.id, f"{why}; closed_by_hand: accept")
                self._warn(bead, f"{why}; accepted, since closed_by_hand says so")
            else:
                self._warn(bead, f"{why}: {ACTION.format(bead=bead.id)}")

    @property
    def _meanwhile(self) -> ByHand:
        """The rule for beads that are closed while a run is on: by an agent, as far as anybody knows."""
        return "accept" if self.config.closed_by_hand == "accept" else "reopen"

    def _warn(self, bead: Bead, message: str) -> None:
        self.journal.emit(WarningGiven(bead=bead.id, team=bead.metadata.team_name, message=message))

    async def reopen(self, bead: Bead, reason: str, state: RunState | None = None) -> None:
        """Open a closed bead again, loudly; what was found out about it is kept."""
        metadata = _kept(bead, (state or RunState()).changed(RunState(proven=None, parked=None)))
        await self.ask(self.store.update, bead.id, Changes(status="open", metadata=metadata))
        self.closed_beads.reopen(bead.id)
        self.journal.emit(BeadReopened(bead=bead.id, team=bead.metadata.team_name, reason=reason))

    async def set_aside(self, bead: Bead) -> None:
        """Block a bead that nobody holds."""
        await self.ask(self.store.update, bead.id, Changes(status="blocked"))

    async def snatched(self, bead: Bead) -> bool:
        """Whether somebody has closed a bead in our hands: its agent, as far as anybody knows."""
        now = await self.ask(self.store.find, Query(ids=[bead.id]))
        return any(one.status == "closed" and one.id not in self.closed_beads.trusted for one in now.beads)

    async def doubtful(self, beads: Sequence[Bead]) -> set[str]:
        """Those among the ready beads that build on a closed one which nobody has proven or accepted."""
        closed = self.closed_beads
        if closed.accepted_since() and closed.unproven:
            found = await self.ask(self.store.find, Query(ids=sorted(closed.unproven)))
            closed.examine(found.beads)
        needed = {name for bead in beads for name in bead.dependencies} - closed.trusted - self.no_beads
        if unseen := sorted(needed - closed.unproven.keys()):
            found = await self.ask(self.store.find, Query(ids=unseen))
            self.no_beads |= {*unseen} - {bead.id for bead in found.beads}
            await self._judge_closed(found.beads, self._meanwhile)
        needed -= closed.trusted | self.no_beads
        return {bead.id for bead in beads if needed & {*bead.dependencies}}

    async def account(self) -> dict[str, str]:
        """The beads that are not done although none of them is open: closed without a proof, or gone; and
        those that are open, but were changed by somebody while the run was on."""
        listing = await self.ask(self.store.find, Query(wisps=True))
        beads = {bead.id: bead for bead in listing.beads}
        meanwhile = {name for name, bead in beads.items() if bead.status == "closed"} - self.closed_ids
        mine = self.begun_with | meanwhile
        await self._judge_closed((beads[name] for name in mine & beads.keys()), self._meanwhile)
        there = beads.keys() | {broken.id for broken in listing.unreadable}
        gone = dict.fromkeys(self.begun_with - there, "gone from the store since the run began")
        untrue = {name: why for name, why in self.closed_beads.blocked().items() if name in mine}
        return gone | dict.fromkeys(self.altered, ALTERED) | untrue

    async def has_reopened(self) -> bool:
        """Whether beads have been opened again that somebody closed, at this last look too: it goes on."""
        await self.account()
        return self.closed_beads.reopened.total() > self.reopened_before

    @property
    def closed_ids(self) -> set[str]:
        """Beads that were closed when they were last seen."""
        return {name for name, known in self.known.items() if known.closed}

    async def _put_right(self, beads: Sequence[Bead]) -> None:
        """Tell what killed runs could not tell any more, and give back what they held."""
        prefix = runs.actor_prefix(self.root)
        unfinished = runs.left_unfinished(self.home, self.run_id)
        told = await in_thread(recovery.untold, [folder.journal for folder in unfinished])
        for bead in beads:
            left = told.get(bead.id)
            for event in recovery.derived(bead, left, self.root) if left else ():
                self.journal.emit(event)
            holder = str((bead.model_extra or {}).get("claimed_by") or "")
            if bead.status == "in_progress" and holder.startswith(prefix) and holder != self.actor:
                await self._interrupted(bead, holder, at_work=bool(left and left.at_work))
        for folder in unfinished:
            runs.settle(folder)

    async def _interrupted(self, bead: Bead, holder: str, *, at_work: bool) -> None:
        """Written down before the bead is free again, and only once, should we be killed in between."""
        run_id = holder.removeprefix(runs.actor_prefix(self.root))
        state = bead.metadata
        if not any(row.run_id == run_id for row in state.interruptions or ()):
            folder = runs.RunFolder(self.home, run_id)
            killed = at_work and runs.was_killed(folder)
            known = await in_thread(recovery.unrecorded, bead, folder.journal)
            told = recovery.interrupted(bead, run_id, killed, self.config.max_interruptions)
            await self.keep(bead, known.changed(told))
            state = state.changed(told)
        row = next(row for row in state.interruptions or () if row.run_id == run_id)
        blocked = state.scrum_result.error if row.blocked and state.scrum_result else None
        reason = f"attempt {row.attempt} was interrupted: run {run_id} ended without a word"
        status = "blocked" if blocked else "open"
        await self.ask(self.store.release, bead.id, holder, status=status, reason=blocked or reason)
        team = bead.metadata.team_name
        self.journal.emit(AttemptInterrupted(bead=bead.id, team=team, attempt=row.attempt, holder=holder))
        if blocked:
            self.journal.emit(BeadBlocked(bead=bead.id, team=team, reason=blocked))

    # --- what may start -----------------------------------------------------------------------------

    async def candidates(self) -> list[Bead]:
        """The ready beads of the run, gates left out: the highest priority first, then what the longest
        chain hangs on."""
        self.reopened_before = self.closed_beads.reopened.total()
        listing = await self.ask(self.store.ready, wisps=self.scope.wisps)
        self._note_unreadable(listing)
        asked = self.asked_for(listing.beads)
        self.altered |= {bead.id for bead in asked if not self.closed_beads.is_as_it_was(bead)}
        asked = [bead for bead in asked if bead.id not in self.altered]
        doubtful = await self.doubtful(asked)
        ready = [bead for bead in asked if bead.id not in doubtful and not self._builds_on_unreadable(bead)]
        return sorted(ready, key=lambda bead: (bead.priority, -self.depth.get(bead.id, 1)))

    def _builds_on_unreadable(self, bead: Bead) -> bool:
        """Whether nobody knows which branch the work of a dependency is on."""
        found = {name: self.spoiled[name] for name in bead.dependencies if name in self.spoiled}
        self.unreadable |= found
        return bool(found)

    def _note_unreadable(self, listing: Listing) -> None:
        for broken in listing.unreadable:
            if self.scope.may_hold(broken):
                self.unreadable[broken.id] = _why_unreadable(broken)

    async def claim(self, bead: Bead) -> Bead | None:
        """The bead as it is now, ours; None where somebody else was quicker."""
        claim = await self.ask(self.store.claim, bead.id, self.actor)
        if claim.bead is None:
            return None
        if not self.closed_beads.is_as_it_was(claim.bead):
            self.altered.add(bead.id)
            await self.ask(self.store.release, bead.id, self.actor, status="open", reason=ALTERED)
            return None
        self.known[bead.id] = Known.of(claim.bead)
        return claim.bead

    async def order(self, bead: Bead) -> Order:
        """Branches and verifiers of other beads do not change while a run lasts, so they are remembered."""
        unknown = {*bead.dependencies} - self.known.keys() - self.no_beads
        if unknown:
            found = await self.ask(self.store.find, Query(ids=sorted(unknown)))
            self.known |= {other.id: Known.of(other) for other in found.beads}
            self.no_beads |= unknown - self.known.keys()
        if bead.metadata.proven and bead.metadata.proven.commit != self.closed_beads.resumed.get(bead.id):
            bead = _without_proof(bead)
        before = [self.known[name] for name in bead.dependencies if name in self.known]
        return Order(
            bead,
            self.run_id,
            f"team-{self.run_id}-{bead.metadata.team_name}",
            self.root,
            self.config,
            tuple(_branches(before, besides=bead.metadata.branch)),
            _proven([*before, *self._merged(bead)]),
            tuple(verifier for other in self._held(bead) for verifier in other.verifiers),
        )

    def _merged(self, bead: Bead) -> list[Known]:
        """The beads whose branches it brings together."""
        place = bead.metadata
        merged = place.branches_to_merge or ()
        return [
            other
            for other in self.known.values()
            if other.plan_file == place.plan_file and other.branch in merged
        ]

    def _held(self, bead: Bead) -> list[Known]:
        """The other beads whose work the pull request of this one carries: those on the branches that it
        brings together, and those that were closed on its own branch."""
        place = bead.metadata
        merged = place.branches_to_merge or ()
        return [
            other
            for other in self.known.values()
            if other.plan_file == place.plan_file
            and (other.branch in merged or (other.branch == place.branch and other.closed))
        ]

    # --- keeping and giving back --------------------------------------------------------------------

    async def keep(self, bead: Bead, state: RunState) -> None:
        await self.ask(self.store.update, bead.id, Changes(metadata=_kept(bead, state)))

    async def holds(self, bead: Bead) -> bool:
        return await self.ask(self.store.heartbeat, bead.id, self.actor)

    async def close(self, bead: Bead, outcome: Outcome) -> None:
        """The bead says closed in the moment in which everything about the proof is in the store."""
        pull = outcome.pull_request
        found = Findings(_kept(bead, outcome.state), pull.url if pull else None)
        if outcome.state.proven and outcome.state.proven.commit:
            self.closed_beads.prove(bead.id, outcome.state.proven.commit, self.run_id)
        closed = await self.ask(self.store.close, bead.id, self.actor, redact(outcome.reason), found)
        if closed.metadata.proven != outcome.state.proven:
            # It had been closed by hand before; what was proven is kept all the same.
            closed = await self.ask(self.store.update, bead.id, found.changes)
        self.known[bead.id] = Known.of(closed)
        if closed.parent is not None:
            self.may_settle = True
            self.parents |= {closed.parent, closed.metadata.molecule or closed.parent}

    async def let_go(self, bead: Bead, reason: str) -> None:
        """Release a bead that somebody has spoiled meanwhile. Where the store writes nothing to such a
        bead, its lease runs out."""
        self.unreadable[bead.id] = f"cannot be read: {reason}"
        try:
            await self.ask(self.store.release, bead.id, self.actor, status="open")
        except RalphError as error:
            LOG.warning("%s could not be released: %s", bead.id, error.message)

    async def give_back(self, bead: Bead, status: str, outcome: Outcome) -> None:
        found, reason = Findings(_kept(bead, outcome.state)), redact(outcome.reason)
        await self.ask(self.store.release, bead.id, self.actor, status=status, reason=reason, found=found)

    # --- what is left -------------------------------------------------------------------------------

    async def open_beads(self) -> Sequence[Bead]:
        """Every bead of the store that is not closed."""
        listing = await self.ask(self.store.find, Query(statuses=NOT_CLOSED, wisps=self.scope.wisps))
        self._note_unreadable(listing)
        self.may_settle |= listing.convoys
        return listing.beads

    def asked_for(self, beads: Iterable[Bead]) -> list[Bead]:
        """Those of the run."""
        return [bead for bead in beads if self.scope.holds(bead) and not is_gate(bead)]

    async def left(self, only: Collection[str] | None) -> list[Bead]:
        """What is not closed of all that was asked for."""
        left = self.asked_for(await self.open_beads())
        return [bead for bead in left if only is None or bead.id in only]

    async def settle(self) -> list[Item]:
        """Molecules, epics and convoys follow what they hold; those that are closed now."""
        settled = await self.ask(self.store.items.settle)
        if not (settled.closed or settled.reopened):
            return []
        closed, reopened = await self.ask(convoys.changed, self.store, settled)
        again = tuple(item.brief for item in reopened)
        self.journal.emit(ItemsSettled(closed=tuple(item.brief for item in closed), reopened=again))
        return closed

    async def for_people(self) -> list[Item]:
        """What people can do now that this run has done its part."""
        return await self.ask(for_people, self.store, self.parents) if self.parents else []


def _without_proof(bead: Bead) -> Bead:
    """A proof that no run made before this one began is not one to go on with."""
    return bead.model_copy(update={"metadata": bead.metadata.changed(RunState(proven=None))})


def _why_unreadable(broken: UnreadableBead) -> str:
    return f"cannot be read: {broken.faults[0].message}"


def _kept(bead: Bead, state: RunState) -> dict[str, Any]:
    """The metadata that holds the state: its own keys, and in the bead's agents the last session of each."""
    known = {(call.role, call.seat): call.session_id for call in state.calls if call.session_id}
    before = bead.metadata.to_json()
    agents = with_sessions(before, lambda does, seat, last: known.get((does, seat), last))
    return state.to_metadata() | {key: said for key, said in agents.items() if said != before[key]}


def _branches(beads: Iterable[Known], besides: str) -> Sequence[str]:
    """Beads on one branch follow one another there, so that there is nothing to merge."""
    names = dict.fromkeys(bead.branch for bead in beads)
    return [name for name in names if name != besides]


def _proven(beads: Iterable[Known]) -> dict[str, tuple[str, ...]]:
    """By branch: the proven commits of the beads there."""
    found: dict[str, dict[str, None]] = {}
    for bead in beads:
        if bead.commit:
            found.setdefault(bead.branch, {})[bead.commit] = None
    return {branch: tuple(commits) for branch, commits in found.items()}


def named(store: Store, ids: Collection[str]) -> Sequence[Bead]:
    """The beads asked for by name; each must exist."""
    found = store.find(Query(ids=list(ids))).beads if ids else ()
    missing = sorted(set(ids) - {bead.id for bead in found})
    if missing:
        raise RalphError(Code.BEAD_NOT_FOUND, f"no such bead: {', '.join(missing)}")
    return found

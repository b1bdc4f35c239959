"""The loop's hand on the store: as few calls as possible, each of them with patience."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from beads_ralph.bead import graph
from beads_ralph.bead.items import Item
from beads_ralph.bead.model import Bead
from beads_ralph.bead.redaction import redact
from beads_ralph.bead.run_state import RunState
from beads_ralph.dod.imports import is_gate
from beads_ralph.errors import Code, RalphError
from beads_ralph.git import guard
from beads_ralph.journal import runs
from beads_ralph.journal.events import AttemptInterrupted, BeadBlocked, ItemsSettled, WarningGiven
from beads_ralph.journal.journal import Journal
from beads_ralph.journal.proofs import Ledger
from beads_ralph.loop import recovery
from beads_ralph.loop.blockers import NOT_CLOSED
from beads_ralph.loop.known_beads import Known, branches_of, neighbours, proofs, proven_on
from beads_ralph.loop.proof_watch import ALTERED, ProofWatch, pages
from beads_ralph.loop.published import Published, Pushed
from beads_ralph.loop.run_settings import Scope, Settings
from beads_ralph.loop.store_turns import StoreTurns
from beads_ralph.loop.teams import Teams
from beads_ralph.process.calls import in_thread
from beads_ralph.session import Order, Outcome, Tools
from beads_ralph.session.history import metadata_of
from beads_ralph.store import convoys
from beads_ralph.store.people import PersonsItem, peoples_items
from beads_ralph.store.protocol import Changes, Findings, Listing, Store
from beads_ralph.store.query import Query, UnreadableBead

LOG: Final = logging.getLogger(__name__)
RECLAIM_AGE: Final = timedelta(minutes=10)
GOES_ON: Final = "its session goes on, and another run takes it up"


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
        self.ask = StoreTurns().ask
        self.known: dict[str, Known] = {}
        self.unmatched: set[str] = set()
        """The filters of the run without a bead."""
        self.parents: set[str] = set()
        """The molecules and epics whose beads this run has closed."""
        self.may_settle = False
        """Whether a molecule, an epic or a convoy may have come to its end in this run."""
        self.may_have_people = False
        """Whether asking for steps of people is worth it."""
        self.depth: Mapping[str, int] = {}
        self.unreadable: dict[str, str] = {}
        """Of the beads that the run is about, and of those that they build on."""
        self.spoiled: dict[str, str] = {}
        """All beads that could not be read when the run began."""
        self.stages: dict[str, tuple[object, ...]] = {}
        """By bead: the stages that a run has noted, before this one began or in it."""
        self.kept: dict[str, RunState] = {}
        """By bead: what was last kept of it in this run."""
        self.elsewhere: Callable[[Sequence[Bead]], Awaitable[Collection[str]]] = _nowhere
        """Asked once, with every bead of the store: those whose sessions go on although no run is here."""
        self.teams = Teams()
        about = scope.query(wisps=True)
        self.watch = ProofWatch(
            self.ask, store, journal, self.config.closed_by_hand, Ledger(self.home), about
        )

    # --- recovery -----------------------------------------------------------------------------------

    async def recover(self) -> Sequence[Bead]:
        """Claims of dead runs on this repository are given back, wisps too, whatever this run is about; our
        lock says that no other run lives. Every bead of the store that the run has to see before its first
        agent starts, as it was found."""
        seen = await self.ask(self.store.find, self.watch.about)
        await self._put_right(seen.beads)
        await self.ask(self.store.reclaim, RECLAIM_AGE)
        self.spoiled = {broken.id: _why_unreadable(broken) for broken in seen.unreadable}
        self._note_unreadable(seen)
        for bead in seen.beads:
            self._note_stages(bead.id, bead.metadata)
        self.known = {bead.id: Known.of(bead) for bead in seen.beads}
        await in_thread(guard.expect_proven, self.root, proofs(self.known.values()))
        self.teams.begin(seen.beads)
        left = {bead.id: bead.dependencies for bead in seen.beads if bead.status != "closed"}
        self.depth = graph.remaining_depth(left)
        asked_for = self.asked_for(seen.beads)
        self._note_unmatched(seen, asked_for)
        await self.watch.begin(seen, asked_for)
        return [bead for bead in seen.beads if self.scope.wisps or not bead.ephemeral]

    @property
    def finished(self) -> Collection[str]:
        """The closed beads of plans that have nothing left to do, where the run is about these too."""
        return self.watch.elsewhere if self.scope.is_everything else ()

    async def see_finished(self, published: Published) -> None:
        """Look at them a few at a time, beside the first agents: nobody waits for them."""
        for ids in pages(self.finished):
            found = await self.ask(self.store.find, Query(ids=ids))
            self._note_unreadable(found)
            known = {bead.id: Known.of(bead) for bead in found.beads}
            await in_thread(guard.expect_proven, self.root, proofs(known.values()), begun=True)
            await self.watch.see(found.beads, self.asked_for(found.beads))
            published.watch(self._pushed(known))

    def _note_unmatched(self, seen: Listing, asked_for: Sequence[Bead]) -> None:
        """Said at once where other beads are worked on; a night later nobody remembers the typo."""
        teams = {bead.metadata.team_name for bead in seen.beads}
        self.unmatched = self.scope.unmatched(asked_for, seen.unreadable, teams)
        for words in sorted(self.unmatched) if asked_for else ():
            self.journal.emit(WarningGiven(message=f"no bead matches {words}"))

    def pushed_before(self) -> list[Pushed]:
        """The proven work, closed before the run, that it is about or builds on."""
        return self._pushed(self.known)

    def _pushed(self, known: Mapping[str, Known]) -> list[Pushed]:
        trusted = ((name, known[name]) for name in known if name in self.watch.closed.trusted)
        return [Pushed(name, one.branch, one.source, one.commit) for name, one in trusted if one.commit]

    async def account(self) -> dict[str, str]:
        """The beads that are not done although none of them is open."""
        return await self.watch.account(self.closed_ids)

    @property
    def closed_ids(self) -> set[str]:
        """Beads that were closed when they were last seen."""
        return {name for name, known in self.known.items() if known.closed} | self.watch.elsewhere

    async def _put_right(self, beads: Sequence[Bead]) -> None:
        """Tell what killed runs could not tell any more, and give back what they held."""
        prefix = runs.actor_prefix(self.root)
        go_on = await self.elsewhere(beads)
        unfinished = runs.left_unfinished(self.home, self.run_id)
        told = await in_thread(recovery.untold, [folder.journal for folder in unfinished])
        others = sorted(told.keys() - {bead.id for bead in beads})
        found = (await self.ask(self.store.find, Query(ids=others))).beads if others else ()
        for bead in (*beads, *found):
            left = told.get(bead.id)
            for event in recovery.derived(bead, left, self.root) if left else ():
                self.journal.emit(event)
            holder = str((bead.model_extra or {}).get("claimed_by") or "")
            if bead.id in go_on:
                await self.ask(self.store.release, bead.id, holder, status="open", reason=GOES_ON)
            elif bead.status == "in_progress" and holder.startswith(prefix) and holder != self.actor:
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
            most = self.config.max_interruptions
            told = recovery.interrupted(bead, run_id, at_work=killed, most=most)
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

    async def take_up(self, names: Sequence[str]) -> None:
        """Beads that the run's plan has made or changed while it was on are asked for as they are now."""
        if names:
            found = await self.ask(self.store.find, Query(ids=sorted(names)))
            self.known |= {bead.id: Known.of(bead) for bead in found.beads}
            self.watch.take_up(found.beads, self.asked_for(found.beads))

    # --- what may start -----------------------------------------------------------------------------

    async def candidates(self) -> list[Bead]:
        """The ready beads of the run, gates left out: the highest priority first, then what the longest
        chain hangs on."""
        self.watch.look_again()
        wisps, plan_file = self.scope.wisps, self.scope.plan_file
        listing = await self.ask(self.store.ready, wisps=wisps, plan_file=plan_file)
        self._note_unreadable(listing)
        sound = await self.watch.sound(self.asked_for(listing.beads))
        ready = [bead for bead in sound if not self._builds_on_unreadable(bead)]
        return sorted(ready, key=self.place_in_line)

    def place_in_line(self, bead: Bead) -> tuple[int, int]:
        return bead.priority, -self.depth.get(bead.id, 1)

    def _builds_on_unreadable(self, bead: Bead) -> bool:
        """Whether nobody knows which branch the work of a dependency is on."""
        found = {name: self.spoiled[name] for name in bead.dependencies if name in self.spoiled}
        self.unreadable |= found
        return bool(found)

    def _note_unreadable(self, listing: Listing) -> None:
        """Closed ones, too: nobody knows whether they are done."""
        for broken in listing.unreadable:
            if self.scope.may_hold(broken):
                self.unreadable[broken.id] = _why_unreadable(broken)

    async def claim(self, bead: Bead) -> Bead | None:
        """The bead as it is now, ours; None where somebody else was quicker, or has changed it by hand."""
        try:
            claim = await self.ask(self.store.claim, bead.id, self.actor)
        except RalphError as error:
            if error.code.startswith("VALIDATION."):
                self.unreadable[bead.id] = error.message
            elif error.code != Code.BEAD_NOT_FOUND:
                raise
            return None
        if claim.bead is None:
            return None
        if not self.watch.is_as_it_was(claim.bead):
            await self.ask(self.store.release, bead.id, self.actor, status="open", reason=ALTERED)
            return None
        self.known[bead.id] = Known.of(claim.bead)
        self.kept.pop(bead.id, None)
        self.unmatched -= {f"--team {bead.metadata.team_name}", " ".join(self.scope.filters)}
        return claim.bead

    async def order(self, bead: Bead) -> Order:
        """Branches and verifiers of other beads do not change while a run lasts, so they are remembered."""
        unknown = {*bead.dependencies} - self.known.keys() - self.watch.no_beads
        if unknown:
            await self._know(Query(ids=sorted(unknown)))
            self.watch.no_beads |= unknown - self.known.keys()
        if bead.id in self.watch.elsewhere:
            await self._know(Query(plan_file=bead.metadata.plan_file, wisps=True))
        if bead.metadata.proven and bead.metadata.proven.commit != self.watch.closed.resumed.get(bead.id):
            bead = _without(bead, RunState(proven=None))
        if (stages := bead.metadata.stages) and stages.mark != self.stages.get(bead.id):
            bead = _without(bead, RunState(reached=None))
        before = [self.known[name] for name in bead.dependencies if name in self.known]
        return Order(
            bead,
            self.run_id,
            f"team-{self.run_id}-{bead.metadata.team_name}",
            self.root,
            self.config,
            tuple(branches_of(before, besides=bead.metadata.branch)),
            proven_on([*before, *self._merged(bead)]),
            tuple(verifier for other in self._held(bead) for verifier in other.verifiers),
            self.teams.before(bead),
            self.teams.own(bead),
            neighbours(bead, self.known),
        )

    async def _know(self, query: Query) -> None:
        found = await self.ask(self.store.find, query)
        self.known = {bead.id: Known.of(bead) for bead in found.beads} | self.known

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
        self.teams.note(bead, state, finished=False)
        self._note_stages(bead.id, state)
        self.kept[bead.id] = state
        await self.ask(self.store.update, bead.id, Changes(metadata=metadata_of(bead, state)))

    def _note_stages(self, bead_id: str, state: RunState) -> None:
        if state.stages is not None:
            self.stages[bead_id] = state.stages.mark

    def as_kept(self, bead: Bead) -> Bead:
        """A bead that was claimed, as the store has it by now."""
        state = bead.metadata.changed(self.kept.get(bead.id, RunState()))
        return bead.model_copy(update={"metadata": state})

    async def holds(self, bead: Bead) -> bool:
        return await self.ask(self.store.heartbeat, bead.id, self.actor)

    async def close(self, bead: Bead, outcome: Outcome) -> None:
        """The bead says closed in the moment in which everything about the proof is in the store."""
        pull = outcome.pull_request
        found = Findings(metadata_of(bead, outcome.state), pull.url if pull else None)
        if outcome.state.proven and outcome.state.proven.commit:
            self.watch.closed.prove(bead.id, outcome.state.proven.commit, self.run_id)
        closed = await self.ask(self.store.close, bead.id, self.actor, redact(outcome.reason), found)
        if closed.metadata.proven != outcome.state.proven:
            # It had been closed by hand before; what was proven is kept all the same.
            closed = await self.ask(self.store.update, bead.id, found.changes)
        self.known[bead.id] = Known.of(closed)
        self.teams.note(bead, outcome.state, finished=True)
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
        self._note_stages(bead.id, outcome.state)
        found, reason = Findings(metadata_of(bead, outcome.state)), redact(outcome.reason)
        self.known[bead.id] = replace(Known.of(bead), status=status)
        await self.ask(self.store.release, bead.id, self.actor, status=status, reason=reason, found=found)

    # --- what is left -------------------------------------------------------------------------------

    async def open_beads(self) -> Sequence[Bead]:
        """Every bead that is not closed; of a run of one plan, those of the plan."""
        query = Query(statuses=NOT_CLOSED, wisps=self.scope.wisps, plan_file=self.scope.plan_file)
        listing = await self.ask(self.store.find, query)
        self._note_unreadable(listing)
        self.may_settle |= listing.convoys
        self.may_have_people = listing.people
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

    async def for_people(self) -> list[PersonsItem]:
        """The open steps of people: all of the store or of the plan. A run with filters is about beads alone,
        and tells only what can be done now that they are closed."""
        if not self.may_have_people:
            return []
        plan, wisps = self.scope.plan_file, self.scope.wisps
        steps = await self.ask(peoples_items, self.store, only_open=True, plan_file=plan, wisps=wisps)
        if not self.scope.filters:
            return steps
        return [step for step in steps if step.can_be_done and self._is_beside(step)]

    def _is_beside(self, step: PersonsItem) -> bool:
        """Tell whether it lies in something whose beads this run has closed."""
        return not self.parents.isdisjoint(item.id for item in step.above)


async def _nowhere(_beads: Sequence[Bead]) -> Collection[str]:
    """Sessions of this process end with it."""
    return ()


def _without(bead: Bead, untrue: RunState) -> Bead:
    """A proof or a stage that neither stood there when the run began nor is of this run is nothing to go on
    with: anybody can write to a store."""
    return bead.model_copy(update={"metadata": bead.metadata.changed(untrue)})


def _why_unreadable(broken: UnreadableBead) -> str:
    return f"cannot be read: {broken.faults[0].message}"

"""The account at the end of a run: what was done, what is left, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from beads_ralph.bead.model import Bead
from beads_ralph.bead.standing import Standing
from beads_ralph.bead.words import plural
from beads_ralph.errors import Fault, RalphError
from beads_ralph.forge.protocol import PullRequest
from beads_ralph.journal.events import PullConflict
from beads_ralph.loop import pull_conflicts
from beads_ralph.loop.blocker_watch import Waiting
from beads_ralph.loop.blockers import Wait, sentence
from beads_ralph.loop.budget import Meter
from beads_ralph.loop.health_gates import Gating
from beads_ralph.loop.limits import ParkedBeads
from beads_ralph.loop.run_end import HeldUp, RunFacts, Why, ending
from beads_ralph.loop.run_settings import Ended
from beads_ralph.loop.run_store import Pool
from beads_ralph.process.calls import in_thread

OpenEnds: TypeAlias = Callable[[], Sequence[Fault]]
"""Where whoever gave the run its beads knows of something that is not done."""


@dataclass
class RunTally:
    """What a run has done so far."""

    closed: list[str] = field(default_factory=list)
    blocked: dict[str, str] = field(default_factory=dict)
    pulls: list[tuple[str, PullRequest]] = field(default_factory=list)
    attempts: int = 0
    standing: dict[str, Standing] = field(default_factory=dict)
    """What each close rests on."""
    remarks: list[str] = field(default_factory=list)
    """What a person should look at, besides beads."""
    flags: dict[str, Sequence[str]] = field(default_factory=dict)
    """What a person should know of it."""


@dataclass(frozen=True)
class Halt:
    """How a run was told to end, if it was."""

    told: tuple[Why, str] | None
    cancelled: bool
    one_round: bool


@dataclass(frozen=True)
class Remains:
    """The beads that are not done."""

    left: Sequence[Bead]
    """Those that are open."""
    untrue: dict[str, str]
    """Those that are closed without a proof, changed by somebody, or gone; with the reason."""


@dataclass(frozen=True)
class Parts:
    """Those parts of a loop that know something of its end."""

    pool: Pool
    gating: Gating
    waiting: Waiting
    parking: ParkedBeads
    meter: Meter
    root: Path
    open_ends: OpenEnds


async def account(tally: RunTally, remains: Remains, halt: Halt, parts: Parts) -> Ended:
    """Every bead that the run began with is accounted for; what is closed without a proof is not done."""
    pool, gating = parts.pool, parts.gating
    left, untrue = remains.left, remains.untrue
    blocked = and_before(left, gating.blocked() | tally.blocked | pool.unreadable | untrue)
    waits = parts.waiting.left_over(left)
    finished = await pool.settle() if pool.may_settle else []
    people = await pool.for_people()
    named = {wait.item.id for wait in waits}
    facts = RunFacts(
        in_scope=len(pool.watch.begun_with | {*tally.closed} | {bead.id for bead in left}),
        filters=tuple(pool.scope.filters),
        unmatched=tuple(sorted(pool.unmatched)),
        left=tuple(bead.id for bead in left),
        stuck="; ".join(_obstacle(bead, left) for bead in left[:3]),
        blocked=tuple(name for name in blocked if name not in {*gating.blocked(), *pool.unreadable}),
        unreadable=tuple(pool.unreadable),
        red_gates=gating.red_gates,
        parked=str(parts.parking),
        held_up=_held_up(waits, hopeful=parts.waiting.survey.hopeful),
        people=() if pool.scope.filters else tuple(step.item.id for step in people),
        stopped=_told(halt, left),
        interrupted=halt.told is not None and halt.told[0] == "interrupted",
        one_round=halt.one_round,
    )
    ends = parts.open_ends() if facts.all_closed else ()
    conflicts = await in_thread(_conflicts, parts.root, tally)
    facts = replace(facts, plan=tuple(end.message for end in ends))
    told = ending(facts)
    return Ended(
        told.why,
        told.reason,
        tuple(tally.closed),
        tuple(blocked.items()),
        tuple(tally.pulls),
        tally.attempts,
        parts.meter.seconds,
        tuple(waits),
        tuple(finished),
        tuple(step.item for step in people if step.can_be_done and step.item.id not in named),
        tally.standing,
        remarks=(*tally.remarks, *(f"{end.message}. {end.remedy}" for end in ends)),
        flags=tally.flags,
        red_gates=gating.red_gates,
        usage=parts.meter.spent,
        programs=tuple(parts.meter.by_program.values()),
        conflicts=conflicts,
        unreadable=facts.unreadable,
        untried=frozenset(bead.id for bead in left if not bead.metadata.attempt_count),
    )


def _conflicts(root: Path, tally: RunTally) -> tuple[PullConflict, ...]:
    try:
        return pull_conflicts.among(root, tally.pulls)
    except RalphError as error:
        tally.remarks.append(f"nobody knows whether the pull requests conflict: {error.message}")
        return ()


def _told(halt: Halt, left: Sequence[Bead]) -> str:
    if halt.told is None:
        return ""
    if halt.told[0] == "interrupted" and not halt.cancelled:
        return f"what ran was finished; {counted(len(left), 'is', 'are')} left, run again to go on"
    return halt.told[1]


def _held_up(waits: Sequence[Wait], *, hopeful: bool) -> HeldUp | None:
    if not waits:
        return None
    by_people = any(wait.standing.state != "waits" for wait in waits)
    return HeldUp(sentence(waits), by_people=by_people, hopeful=hopeful)


def and_before(left: Sequence[Bead], blocked: Mapping[str, str]) -> dict[str, str]:
    """What is blocked and why, those included that were so when the run began."""
    found = dict(blocked)
    for bead in left:
        if bead.status == "blocked" and bead.id not in found:
            result = bead.metadata.scrum_result
            said = f": {result.error}" if result and result.error else ""
            found[bead.id] = f"blocked before this run{said}"
    return found


def _obstacle(bead: Bead, left: Sequence[Bead]) -> str:
    holder = (bead.model_extra or {}).get("claimed_by")
    if holder:
        return f"{bead.id} is held by {holder}"
    known = {other.id for other in left}
    waits = [name for name in bead.dependencies if name in known] or bead.dependencies
    return f"{bead.id} waits for {', '.join(waits)}" if waits else f"{bead.id} is {bead.status}"


def counted(number: int, one: str, many: str) -> str:
    return f"{plural(number, 'bead')} {one if number == 1 else many}"

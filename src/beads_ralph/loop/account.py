"""The account at the end of a run: what was done, what is left, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from beads_ralph.bead.model import Bead
from beads_ralph.bead.standing import Standing
from beads_ralph.bead.words import plural
from beads_ralph.forge.protocol import PullRequest
from beads_ralph.loop.blocker_watch import Waiting
from beads_ralph.loop.blockers import Wait, sentence
from beads_ralph.loop.health_gates import Gating
from beads_ralph.loop.limits import ParkedBeads
from beads_ralph.loop.run_settings import Ended, Why
from beads_ralph.loop.run_store import Pool


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


async def account(
    tally: RunTally,
    remains: Remains,
    halt: Halt,
    pool: Pool,
    gating: Gating,
    waiting: Waiting,
    parking: ParkedBeads,
    seconds: float,
) -> Ended:
    """Every bead that the run began with is accounted for; what is closed without a proof is not done."""
    left, untrue = remains.left, remains.untrue
    blocked = and_before(left, gating.blocked() | tally.blocked | pool.unreadable | untrue)
    complete = not left and not untrue and not pool.unreadable and not gating.red
    waits = waiting.left_over(left)
    done: tuple[Why, str] = "done", f"every bead {'of the one round ' if halt.one_round else ''}is closed"
    open_still = _told(halt, left) or _held_up(gating, parking, left)
    named = {wait.item.id for wait in waits}
    return Ended(
        *(done if complete else open_still or why_of(left, blocked, waits, hopeful=waiting.survey.hopeful)),
        tuple(tally.closed),
        tuple(blocked.items()),
        tuple(tally.pulls),
        tally.attempts,
        seconds,
        complete,
        tuple(waits),
        tuple(await pool.settle() if pool.may_settle else ()),
        tuple(item for item in await pool.for_people() if item.id not in named),
        tally.standing,
        flags=tally.flags,
        remarks=tuple(tally.remarks),
    )


def _told(halt: Halt, left: Sequence[Bead]) -> tuple[Why, str] | None:
    if halt.told and halt.told[0] == "interrupted" and not halt.cancelled:
        return (
            "interrupted",
            f"what ran was finished; {counted(len(left), 'is', 'are')} left, run again to go on",
        )
    return halt.told


def _held_up(gating: Gating, parking: ParkedBeads, left: Sequence[Bead]) -> tuple[Why, str] | None:
    if not gating.red and not parking:
        return None
    return (
        "blocked" if gating.red else "stopped",
        f"{counted(len(left), 'is', 'are')} left: {gating.why or parking}",
    )


def why_of(
    left: Sequence[Bead], blocked: Mapping[str, str], waits: Sequence[Wait] = (), *, hopeful: bool = False
) -> tuple[Why, str]:
    """Why nothing more can start, where nobody has told the run to end. `hopeful`: waiting would have
    helped."""
    if not left and not blocked:
        return "done", "every bead is closed"
    if blocked:
        waiting = len([bead for bead in left if bead.id not in blocked])
        also = f"; {sentence(waits)}" if waits else ""
        return "blocked", f"{counted(len(blocked), 'is', 'are')} blocked, {waiting} more not done{also}"
    if waits:
        by_itself = all(wait.standing.state == "waits" for wait in waits)
        return "stopped" if hopeful else "no_progress" if by_itself else "blocked", sentence(waits)
    shown = "; ".join(_obstacle(bead, left) for bead in left[:3])
    return "no_progress", f"{counted(len(left), 'is', 'are')} left, and none is ready: {shown}"


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

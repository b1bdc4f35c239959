"""Faults of agent programs: whose they are, what is done about each, and the one thing a person can do.

One table for every call of every role. A call whose fault is in it says nothing of the work: it spends no
attempt and becomes no finding. Whatever is not in it (no change, a crash, the time limit without any sign of
trouble) is the work's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from beads_ralph.agents.protocol import Reply
    from beads_ralph.process.jobs import Exit

Kind = Literal[
    "limit", "server", "stalled", "auth", "credit", "configuration", "refused", "too_long", "forgotten",
    "missing",
]  # fmt: skip
"""A `Trouble` that is not the work's, or `missing`: the program is not installed."""
First = Literal["nothing", "again", "fresh"]
"""How often the same program is asked before another one is. nothing: not again. again: a few times, seconds
apart, in the same session. fresh: once more, in a fresh session that is told what was done so far."""
Alone = Literal["park", "wait", "end", "block"]
"""The answer where nobody stands in. park: the beads wait until it is over, however long. wait: they wait up
to `outage_patience`, then the run ends. end: the run ends. block: this bead is blocked, others go on."""
Rests = Literal["program", "setup", "nobody"]
"""Who is not asked meanwhile, by any bead of the run: the program, the program with that model and those
options, or nobody but for this bead."""


@dataclass(frozen=True)
class FaultClass:
    """The faults that have one answer, and that answer."""

    meaning: str
    says: str
    """In a sentence about the program; what the program said itself follows."""
    todo: str
    """The one thing that a person can do."""
    alone: Alone
    first: First = "nothing"
    rests: Rests = "program"

    @property
    def passes(self) -> bool:
        """Waiting helps."""
        return self.alone in ("park", "wait")


FAULTS: Final[Mapping[Kind, FaultClass]] = {
    "limit": FaultClass(
        "a rate or usage limit, which lifts by itself",
        "{program} is at a limit",
        "name another program in `fallback` to go on meanwhile",
        "park",
    ),
    "server": FaultClass(
        "the model's server or the network fails, or the program waits for it until its time is up",
        "the server of {program} cannot be reached",
        "if its address, proxy or network is set up wrongly, stop the run and correct that",
        "wait",
        first="again",
    ),
    "stalled": FaultClass(
        "no sign of life for `stall_limit`, so it was ended",
        "{program} gives no sign of life",
        "see its output with `beads-ralph logs` for what it waited for",
        "wait",
        first="fresh",
    ),
    "auth": FaultClass(
        "nobody is signed in, or not with enough rights",
        "{program} is not signed in",
        "sign in",
        "end",
    ),
    "credit": FaultClass(
        "the account has no money left, or its quota is used up for good",
        "the account of {program} has no credit left",
        "add credit to the account, or name another program in `fallback`",
        "end",
    ),
    "missing": FaultClass(
        "the program is not installed",
        "{program} is not installed",
        "install it",
        "end",
    ),
    "configuration": FaultClass(
        "the model is not known, an option or a setting is wrong, the program is too old",
        "{program} is not set up for this",
        "correct the agent's model or options, or the program's own settings",
        "block",
        rests="setup",
    ),
    "refused": FaultClass(
        "the program or its model will not do this, however often it is asked",
        "{program} refuses this",
        "change the task, or name another program in `fallback`",
        "block",
        rests="nobody",
    ),
    "too_long": FaultClass(
        "the session no longer fits into the model's context",
        "this is too long for the model of {program}",
        "make the task smaller, or name a model with a larger context",
        "block",
        first="fresh",
        rests="nobody",
    ),
    "forgotten": FaultClass(
        "the session to go on with is not known",
        "{program} has forgotten the session",
        "see its output with `beads-ralph logs` for what it did with its session",
        "block",
        first="fresh",
        rests="nobody",
    ),
}


def kind_of(reply: Reply, ended: Exit) -> Kind | None:
    """The class of a call's fault; None where the call went well, or what went wrong is the work's. A call
    that we ended for its time has met what its program waited for last."""
    if ended.flooded or ended.over_memory:
        return None
    return next((kind for kind in FAULTS if kind == reply.trouble), None)


def told(kind: Kind, program: str, detail: str = "") -> str:
    """The fault in words, with what the program said itself."""
    return f"{FAULTS[kind].says.format(program=program)}: {detail}".rstrip(": ")


def remedy(kind: Kind, then: str = "") -> str:
    """The one thing to do, as a sentence, and what comes after it."""
    todo = FAULTS[kind].todo
    return f"{todo[0].upper()}{todo[1:]}{f'; then: {then}' if then else ''}"

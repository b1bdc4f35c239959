"""What "done" means: one function from what is known when a run is over to its end, its words and its exit
code. `docs/explanation/what-done-means.md` has the same table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from beads_ralph.bead.words import plural, several
from beads_ralph.journal.events import RedGate

Why = Literal[
    "done",
    "for_people",
    "empty",
    "no_match",
    "gates_red",
    "plan_differs",
    "unreadable",
    "blocked",
    "no_progress",
    "stopped",
    "interrupted",
]


@dataclass(frozen=True)
class End:
    """One of the ways in which a run can end."""

    words: str
    mark: str
    colour: str
    exit_code: int
    meaning: str


ENDS: Final[Mapping[Why, End]] = {
    "done": End(
        "done",
        "✓",
        "green",
        0,
        "there was at least one bead; all are closed, proven or accepted, and nothing else is open",
    ),
    "blocked": End(
        "blocked",
        "✗",
        "red",
        1,
        "beads are blocked, or closed without a proof; or a person or a red gate has to let them pass",
    ),
    "unreadable": End(
        "unreadable",
        "!",
        "red",
        1,
        "beads cannot be read, so nobody knows whether they are done; nothing else is wrong",
    ),
    "gates_red": End(
        "gates are red",
        "✗",
        "red",
        1,
        "every bead is closed, but a gate is red, even if `--force-gates` has overridden it",
    ),
    "plan_differs": End(
        "the plan differs",
        "≠",
        "yellow",
        1,
        "every bead is closed, but the plan says otherwise than the store: finished work reads differently "
        "now, or somebody edited the plan during the run",
    ),
    "stopped": End(
        "stopped",
        "■",
        "yellow",
        1,
        "told to stop, a verdict of `stop`, a budget, broken tools, or a limit or a gate with `--once`",
    ),
    "no_progress": End(
        "no progress", "?", "yellow", 1, "beads are left, none of them is blocked, and none is ready"
    ),
    "empty": End("nothing to do", "○", "yellow", 4, "there is no bead that the run could be about"),
    "no_match": End(
        "no match", "✗", "red", 5, "no bead matches a filter, such as `--team`; the filter is named"
    ),
    "for_people": End(
        "people are next", "…", "yellow", 6, "the agents' part is done, and steps of people are open"
    ),
    "interrupted": End("interrupted", "■", "yellow", 130, "Ctrl-C or a signal, with something left"),
}
"""Exit code 1 says that something is wrong or left; where a script would do something else, the end has a
code of its own."""


# --- what is known when a run is over -----------------------------------------------------------------


@dataclass(frozen=True)
class HeldUp:
    """What beads wait for besides beads."""

    text: str
    by_people: bool
    """Whether somebody must do something about it."""
    hopeful: bool
    """Whether waiting would have helped."""


@dataclass(frozen=True)
class RunFacts:
    """All that decides how a run ends."""

    in_scope: int = 0
    """How many beads the run was about, closed ones included."""
    filters: tuple[str, ...] = ()
    """What chose them, as it is written on the command line; empty where the run was about all."""
    unmatched: tuple[str, ...] = ()
    """The filters without a bead, as they are written on the command line."""
    left: tuple[str, ...] = ()
    """The beads that are not closed."""
    stuck: str = ""
    """Why none of those is ready."""
    blocked: tuple[str, ...] = ()
    """The beads that a person has to look at: blocked, closed without a proof, altered, or gone."""
    unreadable: tuple[str, ...] = ()
    red_gates: tuple[RedGate, ...] = ()
    parked: str = ""
    """Which beads wait for a limit of a program to lift, and until when."""
    held_up: HeldUp | None = None
    people: tuple[str, ...] = ()
    """The open steps of people."""
    plan: tuple[str, ...] = ()
    """Where the plan says otherwise than the store."""
    stopped: str = ""
    """Why the run was told to end, or ended itself, before its time."""
    interrupted: bool = False
    """Whether that was a signal."""
    one_round: bool = False

    @property
    def all_closed(self) -> bool:
        """Whether no bead is left, whatever else is."""
        return not (self.left or self.blocked or self.unreadable)

    @property
    def closed_gates(self) -> tuple[RedGate, ...]:
        """The red gates that let no feature start."""
        return tuple(gate for gate in self.red_gates if not gate.overridden_by)


@dataclass(frozen=True)
class Ending:
    """How a run ended, and why, in a sentence."""

    why: Why
    reason: str


# --- the rules: the first one that applies decides ----------------------------------------------------


def ending(facts: RunFacts) -> Ending:
    """How a run ends about which this is known."""
    return next(found for rule in RULES if (found := rule(facts)) is not None)


def _was_told(facts: RunFacts) -> Ending | None:
    """An order to end counts where something is left; a run that had just finished is finished."""
    if not facts.stopped or (facts.all_closed and not facts.red_gates):
        return None
    return Ending("interrupted" if facts.interrupted else "stopped", facts.stopped)


def _is_held_up(facts: RunFacts) -> Ending | None:
    if not facts.left or not (facts.closed_gates or facts.parked):
        return None
    text = _gates(facts.closed_gates) or facts.parked
    return Ending("blocked" if facts.closed_gates else "stopped", f"{_beads(facts.left)} left: {text}")


def _is_blocked(facts: RunFacts) -> Ending | None:
    if not facts.blocked:
        return None
    stopped = {*facts.blocked, *facts.unreadable}
    also = f"; {facts.held_up.text}" if facts.held_up else ""
    return Ending("blocked", f"{_beads(sorted(stopped))} blocked, {_others(facts, stopped)}{also}")


def _is_unreadable(facts: RunFacts) -> Ending | None:
    if not facts.unreadable:
        return None
    more = _others(facts, {*facts.unreadable})
    count = plural(len(facts.unreadable), "bead")
    return Ending("unreadable", f"{count} cannot be read: {several(facts.unreadable)}; {more}")


def _waits(facts: RunFacts) -> Ending | None:
    held = facts.held_up
    if not facts.left or held is None:
        return None
    return Ending("stopped" if held.hopeful else "blocked" if held.by_people else "no_progress", held.text)


def _makes_no_progress(facts: RunFacts) -> Ending | None:
    if not facts.left:
        return None
    return Ending("no_progress", f"{_beads(facts.left)} left, and none is ready: {facts.stuck}")


def _matches_nothing(facts: RunFacts) -> Ending | None:
    if not facts.unmatched:
        return None
    others = f"; every other bead is closed ({facts.in_scope})" if facts.in_scope else ""
    return Ending("no_match", f"no bead matches {', '.join(facts.unmatched)}{others}")


def _has_red_gates(facts: RunFacts) -> Ending | None:
    if not facts.red_gates:
        return None
    begun = "every bead is closed, but " if facts.in_scope else ""
    return Ending("gates_red", f"{begun}{_gates(facts.red_gates)}")


def _differs_from_plan(facts: RunFacts) -> Ending | None:
    if not facts.plan:
        return None
    more = f" (and {len(facts.plan) - 1} more)" if len(facts.plan) > 1 else ""
    return Ending(
        "plan_differs", f"every bead is closed, but the plan differs from the store: {facts.plan[0]}{more}"
    )


def _leaves_people(facts: RunFacts) -> Ending | None:
    if not facts.people:
        return None
    begun = "every bead is closed" if facts.in_scope else "there is no bead for agents"
    verb = "step is" if len(facts.people) == 1 else "steps are"
    return Ending(
        "for_people", f"{begun}; {len(facts.people)} {verb} left for people: {several(facts.people)}"
    )


def _is_empty(facts: RunFacts) -> Ending | None:
    return None if facts.in_scope else Ending("empty", "there is no bead to work on")


def _is_done(facts: RunFacts) -> Ending:
    chosen = f"that matches {several(facts.filters)} " if facts.filters else ""
    return Ending("done", f"every bead {chosen}{'of the one round ' if facts.one_round else ''}is closed")


RULES: Final[Sequence[Callable[[RunFacts], Ending | None]]] = (
    _was_told,
    _is_held_up,
    _is_blocked,
    _is_unreadable,
    _waits,
    _makes_no_progress,
    _matches_nothing,
    _has_red_gates,
    _differs_from_plan,
    _leaves_people,
    _is_empty,
    _is_done,
)


# --- words ----------------------------------------------------------------------------------------------


def _gates(gates: Sequence[RedGate]) -> str:
    return "; ".join(map(_gate, gates))


def _gate(gate: RedGate) -> str:
    forced = f" (overridden by {gate.overridden_by})" if gate.overridden_by else ""
    return f"gate {gate.id} is red: {gate.reason}{forced}"


def _beads(names: Sequence[str]) -> str:
    return f"{plural(len(names), 'bead')} {'is' if len(names) == 1 else 'are'}"


def _others(facts: RunFacts, named: set[str]) -> str:
    return f"{len({*facts.left} - named)} more not done"

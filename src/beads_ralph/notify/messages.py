"""Which events are worth a message, how urgent each is, and its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from beads_ralph.bead.redaction import redact
from beads_ralph.bead.words import plural, visible
from beads_ralph.config.model import Urgency
from beads_ralph.journal.events import (
    BeadBlocked,
    BeadClosed,
    Event,
    ProgramUnavailable,
    PullRequestOpened,
    RunEnded,
    RunStarted,
    RunWaiting,
    WarningGiven,
)

URGENCIES: Final[tuple[Urgency, ...]] = ("needs_you", "ready", "warning", "info")
"""The most urgent first."""
LONGEST: Final = 600
NEEDS_A_PERSON: Final = ("auth", "credit", "configuration", "missing")
"""Troubles of a program that do not pass by themselves."""


@dataclass(frozen=True)
class Message:
    """A text for a person."""

    urgency: Urgency
    title: str
    text: str = ""
    cause: str = ""
    """What it is about: of one cause a person is told once."""
    run_id: str = ""
    bead: str = ""

    @property
    def whole(self) -> str:
        return f"{self.title}\n{self.text}".strip()


def message_of(event: Event) -> Message | None:
    """The message of an event; None for one that nobody need be told of."""
    found = _message(event)
    if found is None:
        return None
    urgency, title, text, cause = found
    bead = event.bead or ""
    return Message(urgency, clean(title), clean(text), f"{cause} {bead}".strip(), event.run_id, bead)


def _message(event: Event) -> tuple[Urgency, str, str, str] | None:
    """Urgency, title, text, cause."""
    match event:
        case BeadBlocked(reason=reason):
            return "needs_you", f"{event.bead} is blocked", reason, "blocked"
        case RunEnded(ended=ended, reason=reason):
            urgency: Urgency = "ready" if ended == "done" else "needs_you"
            return urgency, f"the run ended: {ended}", f"{reason}. {_counts(event)}", "ended"
        case ProgramUnavailable(program=program, trouble=trouble, reason=reason):
            urgent: Urgency = "needs_you" if trouble in NEEDS_A_PERSON else "warning"
            return (
                urgent,
                f"{program} cannot be used: {trouble}",
                f"{reason}. {event.todo}",
                f"{program} {trouble}",
            )
        case RunWaiting():
            return _waiting(event)
        case _:
            return _by_the_way(event)


def _waiting(event: RunWaiting) -> tuple[Urgency, str, str, str] | None:
    """Steps that only a person can take."""
    steps = [gate for gate in event.gates if gate.state in ("person", "failed")]
    if not steps:
        return None
    text = "\n".join(f"{step.title}: {step.reason}" for step in steps)
    names = " ".join(sorted(step.id for step in steps))
    return "needs_you", f"{plural(len(steps), 'step')} for you", text, f"waits {names}"


def _by_the_way(event: Event) -> tuple[Urgency, str, str, str] | None:
    match event:
        case WarningGiven(message=message):
            return "warning", "warning", message, message
        case PullRequestOpened(url=url, branch=branch):
            return "info", f"{event.bead} has a pull request", url or branch, "pull"
        case BeadClosed(reason=reason):
            return "info", f"{event.bead} is closed", reason, "closed"
        case RunStarted():
            return "info", "a run has started", f"{plural(event.max_parallel, 'bead')} at once", "started"
        case _:
            return None


def _counts(event: RunEnded) -> str:
    pulls = plural(len(event.pull_requests), "pull request")
    return f"{len(event.closed)} closed, {len(event.blocked)} blocked, {pulls}"


def clean(text: str) -> str:
    """Without secrets, without what a terminal would obey, and short."""
    shown = visible(redact(text)).strip()
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def digest(messages: Sequence[Message]) -> Message:
    """Many messages as one: as urgent as the most urgent of them."""
    first = min(messages, key=lambda one: URGENCIES.index(one.urgency))
    lines = [f"- {one.title}" for one in messages[:10]]
    more = [f"- and {len(messages) - 10} more"] if len(messages) > 10 else []  # noqa: PLR2004
    title = f"{len(messages)} messages: {first.title}"
    return Message(first.urgency, title, "\n".join([*lines, *more]), run_id=first.run_id)

"""A run in lines: one for each event that a person wants to know of."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from beads_ralph.bead.names import doer, persona_name
from beads_ralph.bead.words import visible
from beads_ralph.cli import page
from beads_ralph.cli.answer import Display, Style
from beads_ralph.journal.events import (
    AgentEnded,
    AgentStarted,
    AttemptInterrupted,
    BaselineTaken,
    BeadBlocked,
    BeadClaimed,
    BeadClosed,
    BeadParked,
    BeadReleased,
    BeadReopened,
    ConflictForeseen,
    Event,
    GateChecked,
    GatePassed,
    GatesOverridden,
    ItemsSettled,
    ParallelismChanged,
    ProgramRecovered,
    ProgramReplaced,
    ProgramUnavailable,
    PullRequestOpened,
    RunDraining,
    RunPaused,
    RunResumed,
    RunStarted,
    RunWaiting,
    StraysEnded,
    TeamAwaited,
    VerdictGiven,
    VerifierEnded,
    WarningGiven,
    WorktreePrepared,
)
from beads_ralph.journal.journal import Journal

if TYPE_CHECKING:
    from rich.text import Text

STAGES = {
    BeadClaimed.kind: "claimed",
    WorktreePrepared.kind: "worktree ready",
    BaselineTaken.kind: "baseline",
    AgentEnded.kind: "checking",
    VerifierEnded.kind: "checking",
    VerdictGiven.kind: "judged",
    PullRequestOpened.kind: "proposed",
}
MARKS = {"✓": "green", "✗": "red", "!": "yellow", "…": "yellow", "■": "yellow", "▶": "cyan"}


def stage_of(kind: str, role: str | None, agent: str | None, program: str | None = None) -> str:
    """What a bead is at, in a word or two."""
    if kind == AgentStarted.kind:
        return f"{role} {doer(agent or '', program or '')}"
    return STAGES.get(kind, "")


def line(event: Event) -> str | None:
    """One event for people, None for what would only be noise; nothing in it that a terminal would obey."""
    text = _work(event) or _end(event) or _program(event) or _gate(event) or _run(event)
    return text and visible(text)


def _work(event: Event) -> str:
    bead, text = event.bead or "", ""
    match event:
        case BeadClaimed(title=title):
            text = f"▶ {bead}  attempt {event.attempt}  {title}"
        case AgentStarted(call=call):
            goes_on = f", in the session of {call.session_of}" if call.session_of else ""
            text = f"  {bead}  {call.role} {doer(call.agent, call.program, call.model)}{goes_on}"
        case VerdictGiven(ruling=ruling, message=message, flags=flags):
            text = "; look at: ".join([f"  {bead}  {ruling}: {message}", *flags])
        case ConflictForeseen(other=other, files=files):
            text = f"! {bead}  will conflict with {other} in {', '.join(files)}"
        case PullRequestOpened(url=url, branch=branch):
            text = f"  {bead}  pull request {url or branch}"
        case TeamAwaited(by=other):
            text = f"… {bead}  waits for the session of its team, in which {other} is worked on"
        case AttemptInterrupted():
            text = f"! {bead}  attempt {event.attempt} was interrupted; it goes on"
        case WarningGiven(message=message):
            text = f"! {bead}  {message}" if bead else f"! {message}"
    return text


def _end(event: Event) -> str:
    bead, text = event.bead or "", ""
    match event:
        case BeadClosed(reason=reason):
            text = f"✓ {bead}  {reason}"
        case BeadBlocked(reason=reason):
            text = f"✗ {bead}  {reason}"
        case BeadParked(reason=reason, until=until):
            text = f"… {bead}  {reason}, resumes {until or 'later'}"
        case BeadReleased(reason=reason):
            text = f"= {bead}  given back: {reason}"
        case BeadReopened(reason=reason):
            text = f"! {bead}  open again: {reason}"
    return text


def _program(event: Event) -> str:
    text = ""
    match event:
        case ProgramUnavailable(reason=reason, todo=todo):
            when = asked_again(event.trouble, event.until, event.gives_up_at)
            text = f"! {reason}; {when}{f'. {todo}' if todo else ''}"
        case ProgramReplaced(agent=agent, program=program, by=by):
            text = f"  {event.bead or ''}  {by} plays {persona_name(agent)} for {program}"
        case ProgramRecovered(program=program):
            text = f"▶ {program} is asked again"
        case ParallelismChanged(parallel=parallel, most=most):
            text = f"! {parallel} of {most} beads at once"
        case StraysEnded(pids=pids):
            text = f"! {len(pids)} processes of a run that was killed were ended"
    return text


def asked_again(trouble: str, until: str, gives_up_at: str | None = None) -> str:
    """When a program is asked again, and how long it is waited for."""
    if trouble == "configuration":
        return "not asked again in this run"
    patience = f"; it is waited for until {gives_up_at}" if gives_up_at else ""
    return f"not asked before {until}{patience}"


def _gate(event: Event) -> str:
    text = ""
    match event:
        case GateChecked(ruling=ruling, message=message):
            text = f"{'✓' if ruling == 'pass' else '✗'} gate {event.bead or ''}  {message}"
        case GatesOverridden(gates=gates):
            text = f"! red gates are overridden: {', '.join(gates)}"
        case GatePassed(gate=gate, reason=reason):
            text = f"✓ gate {gate}  {reason}"
        case RunWaiting(gates=waits):
            text = "… waits for " + "; ".join(f"{wait.id}: {wait.reason}" for wait in waits)
    return text


def _run(event: Event) -> str | None:
    match event:
        case RunStarted():
            return _sandbox(event)
        case RunDraining(reason=reason):
            return f"■ {reason}: nothing more is started{_what_runs(event)}"
        case ItemsSettled():
            return _settled(event)
        case RunPaused():
            return "■ paused"
        case RunResumed():
            return "▶ resumed"
        case _:
            return None


def _sandbox(event: RunStarted) -> str | None:
    rooms = {"": "", "none": "; checks get no rooms of their own"}
    own = rooms.get(event.check_rooms, "; checks get rooms of their own")
    if event.sandbox_note:
        return f"! {event.sandbox_note}{own}"
    return f"  sandbox: agents and checks run inside {event.sandbox}{own}" if event.sandbox else None


def _what_runs(event: RunDraining) -> str:
    if not event.running or event.reason != "interrupted":
        return ""
    return f"; {', '.join(event.running)} may finish the attempt, another Ctrl-C ends that, too"


def _settled(event: ItemsSettled) -> str:
    closed = [f"{item.type} {item.title}" for item in event.closed]
    again = [f"{item.type} {item.title}" for item in event.reopened]
    parts = [(closed, "all closed"), (again, "open again")]
    mark = "✓" if closed else "○"
    return f"{mark} " + "; ".join(f"{', '.join(names)}: {word}" for names, word in parts if names)


def _coloured(text: str) -> Text:
    from rich.text import Text

    shown = Text(text)
    shown.stylize(MARKS.get(text[:1], ""), 0, 1)
    return shown


class Board(Display):
    """Listens to the journal while a run lasts, and tells each event in a line."""

    def __init__(self, journal: Journal, style: Style) -> None:
        self.journal = journal
        self.silent = style != "text"

    def __enter__(self) -> Self:
        if not self.silent:
            self.journal.listeners.append(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Whoever listens hears nothing more after the run."""

    def _hear(self, event: Event) -> None:
        text = line(event)
        if text is None or self.silent:
            return
        with self._unseen():
            self.say(text)

    def say(self, text: str) -> None:
        if sys.stderr.isatty():
            page.screen(stderr=True).print(_coloured(text), soft_wrap=True)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

"""The live view of a run: a table where a person watches, plain lines where none does."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from beads_ralph.bead.legacy import persona_name
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
    RunWaiting,
    StraysEnded,
    VerdictGiven,
    VerifierEnded,
    WarningGiven,
    WorktreePrepared,
)
from beads_ralph.journal.journal import Journal

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table
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
WORDS = {RunPaused.kind: "■ paused", RunResumed.kind: "▶ resumed"}
MARKS = {"✓": "green", "✗": "red", "!": "yellow", "…": "yellow", "■": "yellow", "▶": "cyan"}


@dataclass
class Row:
    """A bead at work."""

    bead: str
    team: str = ""
    attempt: int = 1
    stage: str = "claimed"
    since: float = field(default_factory=time.monotonic)


def stage_of(kind: str, role: str | None, agent: str | None) -> str:
    """What a bead is at, in a word or two."""
    if kind == AgentStarted.kind:
        return f"{role} {persona_name(agent or '')}"
    return STAGES.get(kind, "")


def line(event: Event) -> str | None:
    """One event for people, None for what would only be noise."""
    return _of_bead(event) if event.bead else _of_run(event)


def _of_bead(event: Event) -> str | None:
    bead = event.bead
    match event:
        case BeadClaimed(title=title):
            return f"▶ {bead}  attempt {event.attempt}  {title}"
        case AgentStarted(call=call):
            return f"  {bead}  {call.role} {persona_name(call.agent)} ({call.model})"
        case VerdictGiven(ruling=ruling, message=message):
            return f"  {bead}  {ruling}: {message}"
        case ConflictForeseen(other=other, files=files):
            return f"! {bead}  will conflict with {other} in {', '.join(files)}"
        case PullRequestOpened(url=url, branch=branch):
            return f"  {bead}  pull request {url or branch}"
        case ProgramReplaced(agent=agent, program=program, by=by):
            return f"  {bead}  {by} plays {persona_name(agent)} for {program}"
        case GateChecked(ruling=ruling, message=message):
            return f"{'✓' if ruling == 'pass' else '✗'} gate {bead}  {message}"
        case AttemptInterrupted():
            return f"! {bead}  attempt {event.attempt} was interrupted; it goes on"
        case WarningGiven(message=message):
            return f"! {bead}  {message}"
        case _:
            return _end(event) or _of_run(event)


def _end(event: Event) -> str | None:
    match event:
        case BeadClosed(reason=reason):
            return f"✓ {event.bead}  {reason}"
        case BeadBlocked(reason=reason):
            return f"✗ {event.bead}  {reason}"
        case BeadParked(reason=reason, until=until):
            return f"… {event.bead}  {reason}, resumes {until or 'later'}"
        case BeadReleased(reason=reason):
            return f"= {event.bead}  given back: {reason}"
    return None


def _of_run(event: Event) -> str | None:
    match event:
        case ProgramUnavailable(reason=reason, until=until):
            return f"! {reason}; not asked before {until}"
        case ProgramRecovered(program=program):
            return f"▶ {program} is asked again"
        case GatesOverridden(gates=gates):
            return f"! red gates are overridden: {', '.join(gates)}"
        case GatePassed(gate=gate, reason=reason):
            return f"✓ gate {gate}  {reason}"
        case ParallelismChanged(parallel=parallel, most=most):
            return f"! {parallel} of {most} beads at once"
        case StraysEnded(pids=pids):
            return f"! {len(pids)} processes of a run that was killed were ended"
        case RunDraining(reason=reason):
            return f"■ {reason}: nothing more is started{_what_runs(event)}"
        case RunWaiting(gates=waits):
            return "… waits for " + "; ".join(f"{wait.id}: {wait.reason}" for wait in waits)
        case ItemsSettled():
            return _settled(event)
        case WarningGiven(message=message):
            return f"! {message}"
        case _:
            return WORDS.get(event.kind)


def _what_runs(event: RunDraining) -> str:
    if not event.running or event.reason != "interrupted":
        return ""
    return f"; {', '.join(event.running)} may finish, another Ctrl-C ends that, too"


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
    """Listens to the journal while a run lasts."""

    def __init__(self, journal: Journal, style: Style) -> None:
        self.journal = journal
        self.silent = style != "text"
        self.rows: dict[str, Row] = {}
        self.parked: dict[str, str] = {}
        """Beads that wait for a limit to lift, and until when."""
        self.closed = 0
        self.blocked = 0
        self.live: Live | None = None

    def __enter__(self) -> Self:
        if self.silent:
            return self
        if sys.stderr.isatty():
            self._watch()
        self.journal.listeners.append(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        with self._unseen():
            if self.live is not None:
                self.live.stop()

    def _watch(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.live = Live(
            console=Console(stderr=True), get_renderable=self._table, refresh_per_second=4, transient=True
        )
        self.live.start()

    def _hear(self, event: Event) -> None:
        self._note(event)
        text = line(event)
        if text is None or self.silent:
            return
        with self._unseen():
            self._say(text)

    def _say(self, text: str) -> None:
        if self.live is not None:
            self.live.console.print(_coloured(text), soft_wrap=True)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def _note(self, event: Event) -> None:
        if event.bead is None:
            return
        match event:
            case BeadClosed() | BeadBlocked() | BeadReleased() | BeadParked():
                self._note_end(event.bead, event)
            case BeadClaimed():
                self.rows[event.bead] = Row(event.bead)
                self.parked.pop(event.bead, None)
        if event.bead in self.rows:
            self._note_stage(self.rows[event.bead], event)

    def _note_end(self, bead: str, event: Event) -> None:
        self.rows.pop(bead, None)
        match event:
            case BeadClosed():
                self.closed += 1
            case BeadBlocked():
                self.blocked += 1
            case BeadParked(until=until):
                self.parked[bead] = until or "later"

    def _note_stage(self, row: Row, event: Event) -> None:
        row.team = event.team or row.team
        row.attempt = event.attempt or row.attempt
        call = event.call if isinstance(event, AgentStarted) else None
        row.stage = stage_of(event.kind, call and call.role, call and call.agent) or row.stage

    def _table(self) -> Table:
        from rich.table import Table

        title = f"{len(self.rows)} at work, {self.closed} closed, {self.blocked} blocked"
        title += f", {len(self.parked)} waiting for a limit" if self.parked else ""
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
        for heading in ("bead", "team", "attempt", "stage", "elapsed"):
            table.add_column(heading)
        for row in list(self.rows.values()):
            elapsed = f"{time.monotonic() - row.since:.0f} s"
            table.add_row(row.bead, row.team, str(row.attempt), row.stage, elapsed)
        for bead, until in list(self.parked.items()):
            table.add_row(bead, "", "", f"resumes {until}", "")
        return table

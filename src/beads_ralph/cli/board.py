"""The live view of a run: a table where a person watches, plain lines where none does."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from beads_ralph.bead.legacy import persona_name
from beads_ralph.cli.answer import Display, Style
from beads_ralph.journal.events import Event, Journal

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

STAGES = {
    "bead_claimed": "claimed",
    "worktree_prepared": "worktree ready",
    "baseline_taken": "baseline",
    "agent_ended": "checking",
    "verifier_ended": "checking",
    "verdict_given": "judged",
    "pull_request_opened": "proposed",
}
MARKS = {"✓": "green", "✗": "red", "!": "yellow", "…": "yellow", "■": "yellow", "▶": "cyan"}
ENDS = ("bead_closed", "bead_blocked", "bead_parked", "bead_released")


@dataclass
class Row:
    """A bead at work."""

    bead: str
    team: str = ""
    attempt: int = 1
    stage: str = "claimed"
    since: float = field(default_factory=time.monotonic)


def persona(event: Event) -> str:
    """`python-dev` for `.claude/agents/python-dev.md`."""
    return persona_name(str(event.data.get("agent")))


def _what_runs(event: Event) -> str:
    running = event.data.get("running") or ()
    if not running or event.data.get("reason") != "interrupted":
        return ""
    return f"; {', '.join(running)} may finish, another Ctrl-C ends that, too"


def stage_of(kind: str, role: str | None, agent: str | None) -> str:
    """What a bead is at, in a word or two."""
    if kind == "agent_started":
        return f"{role} {persona_name(agent or '')}"
    return STAGES.get(kind, "")


def _gates(event: Event) -> str:
    return "… waits for " + "; ".join(f"{row['id']}: {row['reason']}" for row in event.data.get("gates", ()))


def _settled(event: Event) -> str:
    closed = [f"{row['type']} {row['title']}" for row in event.data.get("closed", ())]
    again = [f"{row['type']} {row['title']}" for row in event.data.get("reopened", ())]
    parts = [(closed, "all closed"), (again, "open again")]
    mark = "✓" if closed else "○"
    return f"{mark} " + "; ".join(f"{', '.join(names)}: {word}" for names, word in parts if names)


LISTS = {"run_waiting": _gates, "items_settled": _settled}


def line(event: Event) -> str | None:
    """One event for people, None for what would only be noise."""
    if event.kind in LISTS:
        return LISTS[event.kind](event)
    bead, data = event.bead or "", event.data
    files = ", ".join(data.get("files", ()))
    texts: dict[str, str] = {
        "bead_claimed": f"▶ {bead}  attempt {event.attempt}  {data.get('title', '')}",
        "agent_started": f"  {bead}  {data.get('role')} {persona(event)} ({data.get('model')})",
        "verdict_given": f"  {bead}  {data.get('ruling')}: {data.get('message')}",
        "conflict_foreseen": f"! {bead}  will conflict with {data.get('other')} in {files}",
        "pull_request_opened": f"  {bead}  pull request {data.get('url') or data.get('branch')}",
        "bead_closed": f"✓ {bead}  {data.get('reason')}",
        "bead_blocked": f"✗ {bead}  {data.get('reason')}",
        "bead_parked": f"… {bead}  {data.get('reason')}, resumes {data.get('until') or 'later'}",
        "program_unavailable": f"! {data.get('reason')}; not asked before {data.get('until')}",
        "program_replaced": f"  {bead}  {data.get('by')} plays {persona(event)} for {data.get('program')}",
        "program_recovered": f"▶ {data.get('program')} is asked again",
        "gate_checked": f"{'✓' if data.get('ruling') == 'pass' else '✗'} gate {bead}  {data.get('message')}",
        "gates_overridden": f"! red gates are overridden: {', '.join(data.get('gates', ()))}",
        "gate_passed": f"✓ gate {data.get('gate')}  {data.get('reason')}",
        "parallelism_changed": f"! {data.get('parallel')} of {data.get('most')} beads at once",
        "bead_released": f"= {bead}  given back: {data.get('reason')}",
        "strays_ended": f"! {len(data.get('pids', ()))} processes of a run that was killed were ended",
        "attempt_interrupted": f"! {bead}  attempt {event.attempt} was interrupted; it goes on",
        "run_draining": f"■ {data.get('reason')}: nothing more is started{_what_runs(event)}",
        "run_paused": "■ paused",
        "run_resumed": "▶ resumed",
        "warning_given": f"! {bead}  {data.get('message')}" if bead else f"! {data.get('message')}",
    }
    return texts.get(event.kind)


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
        if event.kind in ENDS:
            self.rows.pop(event.bead, None)
            self.closed += event.kind == "bead_closed"
            self.blocked += event.kind == "bead_blocked"
            if event.kind == "bead_parked":
                self.parked[event.bead] = str(event.data.get("until") or "later")
            return
        if event.kind == "bead_claimed":
            self.rows[event.bead] = Row(event.bead)
            self.parked.pop(event.bead, None)
        if event.bead not in self.rows:
            return
        row = self.rows[event.bead]
        row.team = event.team or row.team
        row.attempt = event.attempt or row.attempt
        row.stage = stage_of(event.kind, event.data.get("role"), event.data.get("agent")) or row.stage

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

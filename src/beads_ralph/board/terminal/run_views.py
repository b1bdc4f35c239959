"""What a board shows of the run, as lines: the header, and the card at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from rich.cells import cell_len

from beads_ralph.bead.words import clock, plural
from beads_ralph.board.model import Attention, BoardState
from beads_ralph.board.terminal.lines import (
    EMPTY,
    Line,
    Piece,
    age,
    heading,
    lasted,
    line,
    money,
    tokens,
    wrapped,
)

MODES: Final = {
    "running": ("▶ running", "cyan"),
    "paused": ("■ paused", "yellow"),
    "draining": ("■ ends", "yellow"),
    "ended": ("● ended", ""),
    "dead": ("✗ killed", "red"),
    "none": ("○ no run yet", "dim"),
}
BAR: Final = (
    ("closed", "█", "green"), ("in_progress", "▓", "cyan"), ("blocked", "▚", "red"), ("open", "░", "dim"),
)  # fmt: skip
BAR_CELLS: Final = 24
BETWEEN_FACTS: Final = "  ·  "


# --- the header ---------------------------------------------------------------------------------------


def header(state: BoardState, now: datetime, width: int) -> list[Line]:
    run = state.run
    first = [(f" {MODES[run.mode][0]}", f"bold {MODES[run.mode][1]}")]
    for fact in _run_facts(state, now):
        if cell_len("".join(text for text, _ in first)) + len(BETWEEN_FACTS) + cell_len(fact) <= width:
            first += [(BETWEEN_FACTS, "dim"), (fact, "")]
    second: list[str | Piece] = [" ", *_bar(run.counts or {}), (f"  run {run.id or '-'}  ", "dim")]
    if run.mode in ("ended", "dead", "draining"):
        second.append(run.words)
    if state.attention:
        second.append((f"  ! {plural(len(state.attention), 'thing')} for you", "yellow"))
    return [line(*first), line(*second)]


def _run_facts(state: BoardState, now: datetime) -> Iterator[str]:
    """The most important first: what there is no room for is left out."""
    run, counts = state.run, state.run.counts or {}
    yield f"{counts.get('closed', 0)}/{sum(counts.values())} done"
    if counts.get("blocked"):
        yield f"{counts['blocked']} blocked"
    if run.mode in ("running", "paused", "draining"):
        yield f"{run.workers}/{run.parallel or '?'} at work"
    if length := lasted(run.seconds) if run.seconds is not None else age(run.started_at, now):
        yield length
    if run.forecast is not None:
        yield f"done about {clock(run.forecast.done_at, now)}"
    if run.cost_usd is not None:
        yield money(run.cost_usd) + (f" of {money(run.budget_usd)}" if run.budget_usd else "")
    if run.tokens:
        yield f"{tokens(run.tokens)} tokens"


def _bar(counts: Mapping[str, int]) -> Iterator[Piece]:
    """How far it has come: done, at work, blocked and the rest, each in a shape of its own."""
    whole = sum(counts.values())
    ends, at = 0.0, 0
    for status, sign, style in BAR if whole else ():
        ends += counts.get(status, 0) / whole * BAR_CELLS
        yield sign * (round(ends) - at), style
        at = round(ends)


# --- the end ------------------------------------------------------------------------------------------


def end_card(state: BoardState, width: int) -> list[Line]:
    """What a run has come to: done, cost, time, pull requests, and the next command."""
    run, counts = state.run, state.run.counts or {}
    good = run.end == "done"
    length = lasted(run.seconds) if run.seconds is not None else ""
    used = f"{tokens(run.tokens)} tokens" if run.tokens else ""
    spent = ", ".join(one for one in (length, money(run.cost_usd), used) if one)
    found = [
        line((f"{'✓' if good else '■'} {run.words}", "bold green" if good else "bold yellow")),
        EMPTY,
        line(f"{counts.get('closed', 0)} closed, {counts.get('blocked', 0)} blocked, "
             f"{counts.get('open', 0)} open"),
        line(spent),
    ]  # fmt: skip
    if run.pull_requests:
        found += [EMPTY, heading(plural(len(run.pull_requests), "pull request"))]
        found += [line(f"  {one}") for one in run.pull_requests[:8]]
        more = len(run.pull_requests) - 8
        found += [line((f"  and {more} more", "dim"))] if more > 0 else []
    if state.attention:
        found += [EMPTY, heading("needs you")]
        found += [one for item in state.attention[:6] for one in _for_you(item, width)]
    if run.next_commands:
        found += [EMPTY, heading("next")]
        found += [line(f"  → {one}") for one in run.next_commands]
    return found


def _for_you(item: Attention, width: int) -> Iterator[Line]:
    yield from wrapped(f"! {item.bead or 'run'}  {item.text}", width, "  ")
    if item.command:
        yield line(("    → ", "dim"), item.command)

"""What each pane shows of beads, as lines: the list, the waves, the detail of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.cells import cell_len

from beads_ralph.bead.names import doer
from beads_ralph.bead.words import clock, moment_of
from beads_ralph.board.model import Attention, BoardBead, BoardState, StageLine
from beads_ralph.board.terminal.lines import (
    EMPTY,
    SIGNS,
    Line,
    Piece,
    age,
    cut,
    heading,
    lasted,
    line,
    money,
    padded,
    tokens,
    wrapped,
)

FILTERS: Final = ("all", "attention", "running", "next", "done")
TITLE: Final = 20
"""So much of a title is shown among the waves."""
URGENT: Final = {"interrupted", "stalled", "budget", "blocked", "gate_red"}


@dataclass(frozen=True)
class ListRow:
    """A row of the list; those without a key are headings."""

    line: Line
    key: str = ""
    bead: str | None = None
    attention: Attention | None = None


BETWEEN: Final = ListRow(EMPTY)


# --- the list -----------------------------------------------------------------------------------------


def list_rows(state: BoardState, shown: str, search: str, width: int, now: datetime) -> list[ListRow]:
    """The rows of all lanes, or of one; of a search, those that have all of its words."""
    beads = {bead.id: bead for bead in state.beads}
    words = search.lower().split()
    found: list[ListRow] = []
    if shown in ("all", "attention"):
        rows = [_attention_row(one, beads) for one in state.attention if _matches(_about(one, beads), words)]
        found += _lane("needs you", rows)
    for lane, title in (("running", "running"), ("next", "next"), ("done", "done")):
        if shown not in ("all", lane):
            continue
        named = (beads[name] for name in getattr(state, lane))
        rows = [_row(bead, width, now) for bead in named if _matches(_words(bead), words)]
        found += _lane(title, rows)
    return found or [ListRow(line(("nothing here" if not search else f"nothing has {search}", "dim")))]


def _lane(title: str, rows: Sequence[ListRow]) -> list[ListRow]:
    return [ListRow(line((f"{title} ", "bold"), (str(len(rows)), "dim"))), *rows] if rows else []


def spaced(rows: list[ListRow], room: int) -> list[ListRow]:
    """With an empty line between lanes, where there is room for it."""
    heads = [at for at, row in enumerate(rows) if at and not row.key]
    if len(rows) + len(heads) > room:
        return rows
    return [one for at, row in enumerate(rows) for one in ((BETWEEN, row) if at in heads else (row,))]


def _matches(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _words(bead: BoardBead) -> str:
    return f"{bead.id} {bead.number} {bead.title} {bead.team} {bead.stage} {bead.program}".lower()


def _about(one: Attention, beads: Mapping[str, BoardBead]) -> str:
    bead = beads.get(one.bead or "")
    return f"{one.kind} {one.text} {one.bead or ''} {_words(bead) if bead else ''}".lower()


def _attention_row(one: Attention, beads: Mapping[str, BoardBead]) -> ListRow:
    bead = beads.get(one.bead or "")
    name = bead.number if bead else (one.bead or "run")
    until = f" until {clock(one.until)}" if one.until else ""
    style = "red" if one.kind in URGENT else "yellow"
    shown = line((" ! ", style), (f"{name:<5} ", "bold"), f"{one.kind.replace('_', ' ')}{until}: {one.text}")
    return ListRow(shown, f"!{one.kind}:{one.bead}:{one.text}", one.bead, one)


def _row(bead: BoardBead, width: int, now: datetime) -> ListRow:
    sign, style = SIGNS[sign_of(bead)]
    path = ("◆", "magenta") if bead.critical else (" ", "")
    facts = _facts(bead, now)
    room = max(width - 11 - len(facts), 10)
    title = cut(bead.title, room)
    start = line((f" {sign}", style), " ", path, (f"{bead.number:<5} ", "bold" if sign != "…" else "dim"))
    return ListRow((*start, *line(f"{padded(title, room)} ", (facts, "dim"))), bead.id, bead.id)


def sign_of(bead: BoardBead) -> str:
    if bead.status == "open":
        return "waits" if bead.waits else "ready"
    return "running" if bead.status == "in_progress" else bead.status


def _facts(bead: BoardBead, now: datetime) -> str:
    """The one thing to know of it, and how long."""
    match bead.status:
        case "in_progress":
            attempt = f" {bead.attempt}/{bead.max_attempts}" if bead.attempt > 1 else ""
            return f"{bead.stage.split(' (')[0]}{attempt} {age(bead.since, now)}"
        case "closed":
            took = _took(bead)
            return " ".join(one for one in (bead.standing or "", took, money(bead.cost_usd)) if one)
        case "open" if bead.waits:
            wait = bead.waits[0]
            if wait.until:
                return f"until {clock(wait.until)}"
            return f"after {len(wait.ids)}" if wait.kind == "bead" else wait.kind
        case "open":
            return "ready"
        case status:
            return status


def _took(bead: BoardBead) -> str:
    """From its taking up to its end, in this run."""
    try:
        return age(bead.since, moment_of(bead.ended_at)) if bead.since and bead.ended_at else ""
    except ValueError:
        return ""


# --- the waves ----------------------------------------------------------------------------------------


def graph_lines(state: BoardState, selected: str | None, width: int) -> list[Line]:
    """Beads that can run together stand in one wave; ◆ marks the longest chain, on which the end hangs."""
    waves: dict[int, list[BoardBead]] = {}
    for bead in state.beads:
        waves.setdefault(bead.wave, []).append(bead)
    chosen = state.bead(selected or "")
    before = set(chosen.depends_on) if chosen else set()
    found = [line(("waves", "bold"), ("   ◆ critical path   < before, > after what is selected", "dim"))]
    for number, beads in sorted(waves.items()):
        done = sum(bead.status == "closed" for bead in beads)
        name = f"wave {number}" if number else "in a circle"
        found.append(line((f"{name}  ", "bold"), (f"{done}/{len(beads)}", "dim")))
        found += _cells([_cell(bead, selected, before) for bead in beads], width)
    return found


def _cell(bead: BoardBead, selected: str | None, before: set[str]) -> Line:
    sign, style = SIGNS[sign_of(bead)]
    mark = "<" if bead.id in before else ">" if selected in bead.depends_on else "◆" if bead.critical else " "
    title = cut(bead.title, TITLE)
    body = "reverse" if bead.id == selected else ""
    return line((mark, "magenta"), (sign, style), (f" {bead.number} {title}", body))


def _cells(cells: Sequence[Line], width: int) -> Iterator[Line]:
    """Side by side, as many as fit."""
    wide = min(max((_width(cell) for cell in cells), default=1) + 2, max(width - 2, 10))
    across = max((width - 2) // wide, 1)
    for at in range(0, len(cells), across):
        pieces: list[Piece] = [("  ", "")]
        for cell in cells[at : at + across]:
            pieces += [*cell, (" " * max(wide - _width(cell), 0), "")]
        yield tuple(pieces)


def _width(cell: Line) -> int:
    return sum(cell_len(text) for text, _ in cell)


# --- a bead -------------------------------------------------------------------------------------------


def pipeline_line(stages: Sequence[StageLine], width: int) -> Line:
    """`✓ developed 12s → ▶ checked → · reviewed → · proposed → · closed`, closer where it is narrow."""
    for arrow, times in ((" → ", True), (" → ", False), (" ", False)):
        found = _stages(stages, arrow, times=times)
        if _width(found) <= width:
            break
    return found


def _stages(stages: Sequence[StageLine], arrow: str, *, times: bool) -> Line:
    pieces: list[str | Piece] = []
    for stage in stages:
        sign, style = SIGNS.get(stage.state, ("·", "dim")) if stage.state != "waits" else ("·", "dim")
        took = f" {lasted(stage.seconds)}" if times and stage.seconds is not None else ""
        pieces += [(arrow, "dim")] if pieces else []
        pieces += [
            (f"{sign} ", style),
            (stage.name, "bold" if stage.state == "now" else style),
            (took, "dim"),
        ]
    return line(*pieces)


def detail_lines(
    bead: BoardBead | None, metadata: Mapping[str, Any], width: int, now: datetime
) -> list[Line]:
    """All that is known of a bead: its pipeline, who works, attempts, verdict, evidence, findings."""
    if bead is None:
        return [line(("no bead is selected", "dim"))]
    sign, style = SIGNS[sign_of(bead)]
    found = [
        line((f"{sign} ", style), (f"{bead.number}  {bead.title}", "bold")),
        line((f"{bead.id}  ·  wave {bead.wave}{'  ·  ◆ critical path' if bead.critical else ''}", "dim")),
        EMPTY,
    ]
    if bead.pipeline:
        found += [pipeline_line(bead.pipeline, width), *_steps(bead), EMPTY]
    found += list(_doing(bead, now, width))
    found += [one for wait in bead.waits for one in wrapped(f"… {wait.text}{_until(wait.until)}", width)]
    found += _attempts(bead, width)
    found += _evidence(metadata, width)
    return found


def _until(until: str | None) -> str:
    return f", until {clock(until)}" if until else ""


def _steps(bead: BoardBead) -> Iterator[Line]:
    for stage in bead.pipeline:
        for step in stage.steps:
            sign, style = SIGNS[step.state]
            took = f"  {step.seconds:.1f}s" if step.seconds is not None else ""
            note = f"  {step.note}" if step.note else ""
            yield line(f"  {stage.name:<10}", (f"{sign} ", style), step.name, (took, "dim"), (note, "dim"))


def _doing(bead: BoardBead, now: datetime, width: int) -> Iterator[Line]:
    if bead.status == "in_progress":
        who = doer(bead.agent, bead.program, bead.model) if bead.agent else ""
        who = f"{bead.role} {who}".strip() or bead.stage
        who += f" on {bead.host}" if bead.host else ""
        attempt = f"attempt {bead.attempt} of {bead.max_attempts}"
        yield line((attempt, "bold"), f"  {who}  {age(bead.stage_since, now)}")
        if bead.last_activity:
            yield from wrapped(
                f"{bead.last_activity}  ({age(bead.last_activity_at, now)} ago)", width, "  ", "dim"
            )
    if bead.last_failure:
        yield from wrapped(f"last failure: {bead.last_failure}", width, style="yellow")
    if bead.reason and bead.status != "in_progress":
        yield from wrapped(bead.reason, width, style="red" if bead.status == "blocked" else "")
    spent = "  ".join(one for one in (f"{tokens(bead.tokens)} tokens" if bead.tokens else "",
                                      money(bead.cost_usd)) if one)  # fmt: skip
    if spent:
        yield line(spent)
    yield line(("branch  ", "dim"), bead.branch)
    if bead.pull_request:
        yield line(("pull request  ", "dim"), bead.pull_request)
    for flag in bead.flags:
        yield from wrapped(f"! look at: {flag}", width, style="yellow")


def _attempts(bead: BoardBead, width: int) -> list[Line]:
    if not bead.attempts:
        return []
    found = [EMPTY, heading("attempts of this run")]
    for one in bead.attempts:
        sign, style = SIGNS["done" if one.ruling == "pass" else "failed"]
        found.append(line(f"  {one.attempt} ", (f"{sign} ", style), f"{clock(one.at)}  {one.ruling}"))
        found += wrapped(one.message, width, "      ")
    return found


def _evidence(metadata: Mapping[str, Any], width: int) -> list[Line]:
    """The last verdict with what it rests on, and what nobody has settled."""
    verdict = metadata.get("last_verdict") or {}
    found: list[Line] = []
    if verdict:
        found += [EMPTY, heading(f"verdict: {verdict.get('ruling')}")]
        found += wrapped(str(verdict.get("message") or ""), width, "  ")
    for row in verdict.get("evidence") or ():
        sign, style = SIGNS["done" if row.get("ruling") == "pass" else "failed"]
        facts = f"  {row.get('seconds') or 0:.1f}s  {str(row.get('commit') or '')[:12]}"
        found.append(line("  ", (f"{sign} ", style), f"{row.get('kind')} {row.get('name')}", (facts, "dim")))
        if row.get("ruling") != "pass":
            found += wrapped(str(row.get("output_tail") or row.get("message") or ""), width, "      ", "dim")
    findings = metadata.get("open_findings") or ()
    if findings:
        found += [EMPTY, heading("findings that nobody has settled")]
    for row in findings:
        where = f" {row['file']}:{row.get('line') or ''}" if row.get("file") else ""
        found += wrapped(f"! {row.get('by')}{where}: {row.get('words')}", width, "  ")
    return found

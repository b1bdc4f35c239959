"""What the journal tells of each bead of a run: its attempts, and when somebody worked on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from beads_ralph.bead.agent_call import AgentCall
from beads_ralph.bead.words import plural
from beads_ralph.journal.events import (
    AgentEnded,
    BeadClaimed,
    Event,
    VerdictGiven,
    VerifierEnded,
    WorktreePrepared,
)
from beads_ralph.report.figures import money_text, time_text
from beads_ralph.report.plots import Piece, counted

KINDS: Final = {
    "prepare": "worktree",
    "baseline": "checks before the work",
    "dev": "dev agent",
    "merge": "merge agent",
    "verify": "verifiers",
    "qa": "QA agents",
}
MOST_ROWS: Final = 200
A_DAY: Final = 86_400
Judged = Mapping[tuple[int, str], tuple[str, str]]


@dataclass(frozen=True)
class Span:
    """A stretch of time that somebody worked on a bead."""

    kind: str
    start: float
    end: float
    name: str


@dataclass(frozen=True)
class AttemptRow:
    """A call or a check of an attempt."""

    ok: bool
    name: str
    how: str
    facts: str = ""
    words: bool = False
    """Whether somebody says it in words of their own, which are worth reading whole."""


@dataclass
class ShownAttempt:
    """One attempt at a bead, as the journal has it."""

    number: int
    rows: list[AttemptRow] = field(default_factory=list)
    ruling: str = "interrupted"
    message: str = "its run ended without a word"
    flags: Sequence[str] = ()


def attempts_of(told: Sequence[Event], judged: Judged) -> list[ShownAttempt]:
    """The journal's account of each attempt; the words of QA agents stand in the bead itself."""
    found: dict[int, ShownAttempt] = {}
    for event in told:
        if not event.attempt or not isinstance(event, AgentEnded | VerifierEnded | VerdictGiven):
            continue
        attempt = found.setdefault(event.attempt, ShownAttempt(event.attempt))
        match event:
            case VerdictGiven(ruling=ruling, message=message, flags=flags):
                attempt.ruling, attempt.message, attempt.flags = ruling, message, flags
            case VerifierEnded():
                how = f"exit code {event.exit_code}, {event.seconds:.2f} s"
                attempt.rows.append(AttemptRow(event.ruling == "pass", event.name, how))
            case AgentEnded(call=call):
                attempt.rows.append(_call(call, judged.get((event.attempt, call.agent))))
    return [found[number] for number in sorted(found)]


def _call(call: AgentCall, judged: tuple[str, str] | None) -> AttemptRow:
    ok = not call.problem and (judged is None or judged[0] == "pass")
    words = judged[1] if judged and call.role == "qa" else ""
    how = call.problem or words or f"worked for {call.seconds:.2f} s"
    return AttemptRow(ok, f"{call.role} {persona(call.agent)}", how, _facts(call), bool(words))


def _facts(call: AgentCall) -> str:
    """Who played it, for how long, and what that cost."""
    usage = call.usage
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    said = [" ".join(filter(None, (call.program, call.model))), time_text(call.seconds)]
    said += [f"{tokens:,} tokens"] if tokens else []
    said += [money_text(usage.cost_usd)] if usage.cost_usd is not None else []
    return ", ".join(filter(None, said))


def persona(agent: str) -> str:
    return PurePosixPath(agent).stem


# --- when ---------------------------------------------------------------------------------------------


def spans_of(told: Sequence[Event]) -> dict[str, list[Span]]:
    """By bead, the stretches that somebody worked on it."""
    found: dict[str, list[Span]] = {}
    marks: dict[str, float] = {}
    for event in told:
        if event.bead is not None:
            spans = list(_spans(event, marks))
            found.setdefault(event.bead, []).extend(spans)
    return {bead: spans for bead, spans in found.items() if spans}


def _spans(event: Event, marks: dict[str, float]) -> Iterator[Span]:
    now, bead = _moment(event), event.bead or ""
    match event:
        case BeadClaimed():
            marks[bead] = now
        case WorktreePrepared():
            yield Span("prepare", marks.get(bead, now), now, KINDS["prepare"])
        case VerifierEnded(stage=stage, seconds=seconds, name=name):
            yield Span("baseline" if stage == "baseline" else "verify", now - seconds, now, name)
        case AgentEnded(call=call):
            yield Span(call.role, now - call.seconds, now, f"{call.role} {persona(call.agent)}")


def _moment(event: Event) -> float:
    try:
        return datetime.fromisoformat(event.at).timestamp()
    except ValueError:  # somebody has written into the journal
        return 0.0


@dataclass(frozen=True)
class Timeline:
    """The run from left to right: a row for each bead."""

    said: str
    rows: Sequence[tuple[str, str, Sequence[Piece]]]
    foot: Sequence[str]
    table: Sequence[Sequence[Any]]


def timeline(told: Sequence[Event], names: Mapping[str, str]) -> Timeline | None:
    """None where nobody worked on anything."""
    found = spans_of(told)
    if not found:
        return None
    begin = min(span.start for spans in found.values() for span in spans)
    end = max(span.end for spans in found.values() for span in spans)
    whole = max(end - begin, 0.001)
    shown = dict(sorted(found.items(), key=lambda row: row[1][0].start)[:MOST_ROWS])
    cut = f" The first {MOST_ROWS} are drawn." if len(found) > MOST_ROWS else ""
    said = (
        f"{plural(len(found), 'bead')} in {time_text(end - begin)}, from {_date(begin, whole)} UTC on.{cut}"
    )
    rows = [
        (names.get(bead, bead), _figure(spans), [_piece(span, begin, whole) for span in spans])
        for bead, spans in shown.items()
    ]
    foot = [_date(begin + share * whole, whole) for share in (0.0, 0.5, 1.0)]
    table = [
        (names.get(bead, bead), span.name, _date(span.start, whole), time_text(span.end - span.start))
        for bead, spans in shown.items()
        for span in spans
    ]
    return Timeline(said, rows, foot, table)


def _figure(spans: Sequence[Span]) -> str:
    calls = sum(span.kind not in ("prepare", "baseline", "verify") for span in spans)
    return f"{counted(calls, 'call')}, {time_text(spans[-1].end - spans[0].start)}"


def _piece(span: Span, begin: float, whole: float) -> Piece:
    said = f"{span.name}, {time_text(span.end - span.start)}"
    kind = span.kind if span.kind in KINDS else "other"
    return Piece((span.start - begin) / whole, (span.end - begin) / whole, kind, said)


def _date(moment: float, whole: float) -> str:
    """With the day, and with seconds where the run was short."""
    at = datetime.fromtimestamp(moment, UTC)
    return f"{at:%Y-%m-%d %H:%M}" if whole > A_DAY else f"{at:%Y-%m-%d %H:%M:%S}"

"""A run as one web page that needs nothing else: plan, graph, every attempt, pull requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final

from beads_ralph.bead.model import Bead
from beads_ralph.journal.events import (
    AgentEnded,
    BeadClaimed,
    Event,
    VerdictGiven,
    VerifierEnded,
    WorktreePrepared,
)
from beads_ralph.plan.draw import Drawing
from beads_ralph.report import plots
from beads_ralph.report.plots import text

BOX: Final = (196, 46)
GAP: Final = (28, 40)
STRIP: Final = 1000
LONGEST_TITLE: Final = 24
LONGEST_WORDS: Final = 400


@dataclass(frozen=True)
class PageSubject:
    """The content of the page: plain data, all of which is escaped on its way in."""

    title: str
    drawing: Drawing
    beads: Sequence[Bead]
    events: Sequence[Event]
    ended: Mapping[str, Any]
    closing: str = ""
    pulls_folder: str = ""
    """Where the pages of local pull requests lie, seen from the page."""
    analysis: str = ""
    """The page of what the records teach, seen from this one."""


@dataclass(frozen=True)
class Span:
    """A stretch of time that somebody worked on a bead."""

    kind: str
    start: float
    end: float
    name: str


@dataclass
class ShownAttempt:
    """One attempt at a bead, as the journal has it."""

    number: int
    rows: list[tuple[bool, str, str]] = field(default_factory=list)
    """Each check and call: whether it went well, what it was, how it went."""
    ruling: str = "interrupted"
    message: str = "its run ended without a word"
    flags: Sequence[str] = ()


# --- the page -----------------------------------------------------------------------------------------


def html(subject: PageSubject) -> str:
    """The whole page as text."""
    body = (*_head(subject), *_story(subject), *_graph(subject), *_beads(subject), *_pulls(subject))
    return plots.page(subject.title, ["page.css"], body)


def _head(subject: PageSubject) -> Iterator[str]:
    ended = subject.ended
    good = "good" if ended["ended"] == "done" else "bad"
    yield f'<p class="{good} pill">{text(ended["ended"])}</p>'
    yield f"<h1>{text(subject.title)}</h1>"
    yield f"<p>{text(ended['reason'])}. {text(subject.closing)}</p>"
    figures = {
        "sprints": f"{len(ended['closed'])} of {len(subject.beads)}",
        "attempts": str(ended["attempts"]),
        "pull requests": str(len(ended["pull_requests"])),
        "seconds": f"{ended['duration_seconds']:.1f}",
    }
    yield plots.key_figures(figures)
    if subject.analysis:
        yield f'<p><a href="{text(subject.analysis)}">What the records of the run teach</a></p>'


def _story(subject: PageSubject) -> Iterator[str]:
    rows = list(story(subject))
    if rows:
        yield "<h2>On the way</h2><ul>"
        yield from (f"<li><b>{text(sprint)}</b> {text(told)}</li>" for sprint, told in rows)
        yield "</ul>"


def story(subject: PageSubject) -> Iterator[tuple[str, str]]:
    """Where it did not go right at once, and what came of it; sprint by sprint."""
    for bead in subject.beads:
        told = [event for event in subject.events if event.bead == bead.id]
        for event in told:
            if isinstance(event, WorktreePrepared) and event.conflict:
                where = event.conflict.rpartition(": ")[2]
                yield bead.metadata.sprint, f"a real conflict in {where}; the merge agent was called"
        for attempt in _attempts(bead, told):
            if attempt.ruling != "pass":
                why = next((f"{name}: {how}" for ok, name, how in attempt.rows if not ok), attempt.message)
                yield bead.metadata.sprint, f"attempt {attempt.number} was sent back: {_shortened(why)}"


# --- the graph ----------------------------------------------------------------------------------------


def _graph(subject: PageSubject) -> Iterator[str]:
    drawing = subject.drawing
    widest = max((len(wave) for wave in drawing.waves), default=1)
    width = widest * (BOX[0] + GAP[0]) - GAP[0] + 4
    height = len(drawing.waves) * (BOX[1] + GAP[1]) - GAP[1] + 4
    yield "<h2>What waits for what</h2>"
    yield "<p>A row is a wave: what stands in it may run at the same time.</p>"
    yield (
        f'<div class="graph"><svg viewBox="0 0 {width} {height}" role="img" '
        f'style="max-width:{width}px" aria-label="The graph of sprints">'
    )
    places = _places(drawing, width)
    for sprint, (x, y) in places.items():
        for other in drawing.inner(sprint):
            yield _edge(places[other], (x, y))
    states = {bead.metadata.plan_sprint_id: bead.status for bead in subject.beads}
    for sprint, place in places.items():
        yield _node(drawing, sprint, place, states.get(sprint, "open"))
    yield "</svg></div>"


def _places(drawing: Drawing, width: int) -> dict[str, tuple[int, int]]:
    """Each below the middle of what it waits for, as far as its neighbours leave room."""
    places: dict[str, tuple[int, int]] = {}
    for row, wave in enumerate(drawing.waves):
        wanted = {sprint: _wanted(drawing.inner(sprint), places, width) for sprint in wave}
        ordered = sorted(wave, key=lambda sprint: wanted[sprint])
        y = 2 + row * (BOX[1] + GAP[1])
        spread = _spread([wanted[sprint] for sprint in ordered], width)
        places |= {sprint: (x, y) for sprint, x in zip(ordered, spread, strict=True)}
    return places


def _wanted(before: Sequence[str], places: Mapping[str, tuple[int, int]], width: int) -> int:
    if not before:
        return (width - BOX[0]) // 2
    return sum(places[other][0] for other in before) // len(before)


def _spread(wanted: Sequence[int], width: int) -> list[int]:
    """Side by side without overlap, around the same middle, inside the drawing."""
    step = BOX[0] + GAP[0]
    apart: list[int] = []
    for x in wanted:
        apart.append(max(x, apart[-1] + step) if apart else x)
    shift = (sum(wanted) - sum(apart)) // len(wanted)
    last = width - 2 - BOX[0] - (len(wanted) - 1) * step
    return [min(max(x + shift, 2 + at * step), last + at * step) for at, x in enumerate(apart)]


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + BOX[0] // 2, start[1] + BOX[1]
    x2, y2 = end[0] + BOX[0] // 2, end[1]
    bend = (y1 + y2) // 2
    return f'<path class="edge" d="M{x1} {y1}C{x1} {bend} {x2} {bend} {x2} {y2}"/>'


def _node(drawing: Drawing, sprint: str, place: tuple[int, int], status: str) -> str:
    x, y = place
    node = drawing.nodes[sprint]
    critical = " critical" if sprint in drawing.critical_path else ""
    title = plots.cut(node.title, LONGEST_TITLE)
    return (
        f'<a href="#{text(node.bead_id)}"><rect class="box {text(status)}{critical}" x="{x}" y="{y}" '
        f'width="{BOX[0]}" height="{BOX[1]}" rx="8"/>'
        f'<text class="id" x="{x + 12}" y="{y + 19}">{text(sprint)}</text>'
        f'<text x="{x + 12}" y="{y + 36}">{text(title)}</text></a>'
    )


# --- beads and their attempts -------------------------------------------------------------------------

KINDS: Final = {
    "prepare": "worktree",
    "baseline": "checks before the work",
    "dev": "dev agent",
    "merge": "merge agent",
    "verify": "verifiers",
    "qa": "QA agents",
}


def _beads(subject: PageSubject) -> Iterator[str]:
    if not subject.events:
        return
    begin, end = _moment(subject.events[0]), _moment(subject.events[-1])
    yield "<h2>How each sprint went</h2>"
    yield plots.key(KINDS)
    for bead in subject.beads:
        told = [event for event in subject.events if event.bead == bead.id]
        yield from _bead(bead, told, begin, max(end - begin, 0.001))


def _bead(bead: Bead, told: Sequence[Event], begin: float, whole: float) -> Iterator[str]:
    attempts = _attempts(bead, told)
    is_open = " open" if len(attempts) > 1 else ""
    tries = plots.counted(len(attempts), "attempt")
    yield f'<details id="{text(bead.id)}"{is_open}><summary>'
    yield f'<b>{text(bead.metadata.sprint)}</b> {text(bead.title)} <small class="{text(bead.status)}">'
    standing = f", {bead.metadata.standing}" if bead.status == "closed" and bead.metadata.standing else ""
    flagged = f", {plots.counted(len(bead.metadata.flags), 'flag')}" if bead.metadata.flags else ""
    yield f"{text(bead.status + standing)}, {tries}{flagged}</small>"
    yield f'<svg class="strip" viewBox="0 0 {STRIP} 12" preserveAspectRatio="none" aria-hidden="true">'
    yield f'<rect class="track" width="{STRIP}" height="12"/>'
    for span in _spans(told):
        left = (span.start - begin) / whole * STRIP
        width = max((span.end - span.start) / whole * STRIP, 2.0)
        yield (
            f'<rect class="{text(span.kind)}" x="{left:.1f}" width="{width:.1f}" height="12">'
            f"<title>{text(span.name)}, {span.end - span.start:.2f} s</title></rect>"
        )
    yield "</svg></summary>"
    yield f"<p><code>{text(bead.id)}</code> on <code>{text(bead.metadata.branch)}</code></p>"
    for attempt in attempts:
        yield from _attempt(attempt)
    yield "</details>"


def _attempt(attempt: ShownAttempt) -> Iterator[str]:
    good = "good" if attempt.ruling == "pass" else "bad"
    yield f'<h3><span class="{good} pill">{text(attempt.ruling)}</span> attempt {attempt.number}</h3>'
    yield f"<p>{text(_shortened(attempt.message))}</p><ul class='checks'>"
    for ok, name, how in attempt.rows:
        yield f'<li class="{"good" if ok else "bad"}"><code>{text(name)}</code> {text(_shortened(how))}</li>'
    for flag in attempt.flags:
        yield f'<li class="flag">look at: {text(_shortened(flag))}</li>'
    yield "</ul>"


def _attempts(bead: Bead, told: Sequence[Event]) -> list[ShownAttempt]:
    """The journal's account of each attempt; the words of QA agents stand in the bead itself."""
    found: dict[int, ShownAttempt] = {}
    judged = {(call.attempt, call.agent): call for call in bead.metadata.qa_calls}
    for event in told:
        if not event.attempt or not isinstance(event, AgentEnded | VerifierEnded | VerdictGiven):
            continue
        attempt = found.setdefault(event.attempt, ShownAttempt(event.attempt))
        match event:
            case VerdictGiven(ruling=ruling, message=message, flags=flags):
                attempt.ruling, attempt.message, attempt.flags = ruling, message, flags
            case VerifierEnded():
                how = f"exit code {event.exit_code}, {event.seconds:.2f} s"
                attempt.rows.append((event.ruling == "pass", event.name, how))
            case AgentEnded(call=call):
                row = judged.get((event.attempt, call.agent))
                ok = not call.problem and (row is None or row.status == "pass")
                words = row.message if row and call.role == "qa" else ""
                how = call.problem or words or f"worked for {call.seconds:.2f} s"
                attempt.rows.append((ok, f"{call.role} {_persona(call.agent)}", how))
    return [found[number] for number in sorted(found)]


def _spans(told: Sequence[Event]) -> Iterator[Span]:
    """The timeline of agents at work."""
    mark = 0.0
    for event in told:
        now = _moment(event)
        match event:
            case BeadClaimed():
                mark = now
            case WorktreePrepared():
                yield Span("prepare", mark, now, KINDS["prepare"])
            case VerifierEnded(stage=stage, seconds=seconds, name=name):
                kind = "baseline" if stage == "baseline" else "verify"
                yield Span(kind, now - seconds, now, name)
            case AgentEnded(call=call):
                yield Span(call.role, now - call.seconds, now, f"{call.role} {_persona(call.agent)}")


def _persona(agent: str) -> str:
    return PurePosixPath(agent).stem


def _moment(event: Event) -> float:
    return datetime.fromisoformat(event.at).timestamp()


def _shortened(words: str) -> str:
    return plots.cut(" ".join(words.split()), LONGEST_WORDS)


# --- pull requests ------------------------------------------------------------------------------------


def _pulls(subject: PageSubject) -> Iterator[str]:
    titles = {bead.id: f"{bead.metadata.sprint} {bead.title}" for bead in subject.beads}
    yield '<h2>Pull requests</h2><ul class="pulls">'
    for pull in subject.ended["pull_requests"]:
        number = pull["number"]
        name = text(titles.get(pull["bead"], pull["bead"]))
        if subject.pulls_folder and isinstance(number, int):
            name = f'<a href="{text(subject.pulls_folder)}/{number}.md">{name}</a>'
        yield f"<li><b>{text(number or '')}</b> {name}<br><code>{text(pull['branch'])}</code> "
        yield f"<code>{text(pull['commit'][:12])}</code></li>"
    yield "</ul>"

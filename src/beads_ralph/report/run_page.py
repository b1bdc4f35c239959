"""A run as one web page that needs nothing else: graph, timeline, every attempt with its evidence, costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from beads_ralph.bead.evidence import Evidence
from beads_ralph.bead.model import Bead
from beads_ralph.bead.usage import Usage
from beads_ralph.journal.accounts import BeadAccount, RunAccount
from beads_ralph.journal.events import Event, WorktreePrepared
from beads_ralph.plan.draw import Drawing
from beads_ralph.report import plots
from beads_ralph.report.figures import money_text, time_text
from beads_ralph.report.plots import PlotTable, text
from beads_ralph.report.run_story import KINDS, ShownAttempt, Span, attempts_of, spans_of, timeline

BOX: Final = (196, 46)
GAP: Final = (28, 40)
STRIP: Final = 1000
FITTING: Final = 4
"""So many boxes side by side can be read in the width of the page."""
LONGEST_TITLE: Final = 24
LONGEST_WORDS: Final = 400
LONGEST_MESSAGE: Final = 4000
ADDRESS: Final = re.compile(r"https?://[^\s\"'<>]+")


@dataclass(frozen=True)
class ShownBead:
    """A bead as the page shows it."""

    id: str
    title: str = ""
    sprint: str = ""
    status: str = "open"
    standing: str = ""
    branch: str = ""
    reason: str = ""
    flags: Sequence[str] = ()
    waits: Sequence[str] = ()
    judged: Mapping[tuple[int, str], tuple[str, str]] = field(default_factory=dict)
    """By attempt and agent, what a reviewer ruled and said."""
    evidence: Sequence[Evidence] = ()
    """The checks of its last verdict."""
    outputs: Sequence[tuple[str, str]] = ()
    """What each call and check printed: a name and an address, seen from the page."""

    @classmethod
    def of(cls, bead: Bead) -> ShownBead:
        place = bead.metadata
        last = place.verdict
        return cls(
            bead.id,
            bead.title,
            place.sprint,
            bead.status,
            (place.standing or "") if bead.status == "closed" else "",
            place.branch,
            flags=tuple(place.flags),
            waits=tuple(bead.dependencies),
            judged={(call.attempt, call.agent): (call.status, call.message) for call in place.qa_calls},
            evidence=tuple(last.evidence) if last else (),
        )


@dataclass(frozen=True)
class PageSubject:
    """The content of the page: plain data, all of which is escaped on its way in."""

    title: str
    drawing: Drawing
    beads: Sequence[ShownBead]
    events: Sequence[Event]
    account: RunAccount
    closing: str = ""
    pulls_folder: str = ""
    """Where the pages of local pull requests lie, seen from the page."""
    analysis: str = ""
    """The page of what the records teach, seen from this one."""


# --- the page -----------------------------------------------------------------------------------------


def html(subject: PageSubject) -> str:
    """The whole page as text."""
    body = (
        *(*_head(subject), *_story(subject), *_graph(subject), *_timeline(subject), *_beads(subject)),
        *(*_pulls(subject), *_costs(subject), *_next(subject)),
    )
    return plots.page(subject.title, ("page.css", "analysis.css"), body)


def _head(subject: PageSubject) -> Iterator[str]:
    found = subject.account
    good = "good" if found.ended == "done" else "bad"
    yield f'<p class="{good} pill">{text(found.ended)}</p>'
    yield f"<h1>{text(subject.title)}</h1>"
    yield f"<p>{text(found.reason or _unsaid(found))}. {text(subject.closing)}</p>"
    if found.started_at:
        when = f"{_moment_text(found.started_at)} to {_moment_text(found.ended_at)} UTC"
        yield f"<p><small>{text(when)}, run {text(found.run_id)}</small></p>"
    closed = sum(bead.status == "closed" for bead in subject.beads)
    figures = {
        "closed": f"{closed} of {len(subject.beads)}",
        "attempts": str(found.attempts),
        "pull requests": str(len(found.pull_requests)),
        "time": time_text(found.seconds),
        "cost": money_text(found.usage.cost_usd),
        "tokens": f"{_tokens(found.usage):,}",
    }
    yield plots.key_figures(figures)
    if subject.analysis:
        yield f'<p><a href="{text(subject.analysis)}">What the records of the run teach</a></p>'


def _unsaid(found: RunAccount) -> str:
    return "The run goes on" if found.ended == "running" else "The run ended without a word"


def _moment_text(moment: str) -> str:
    return f"{moment[:10]} {moment[11:19]}"


def _tokens(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)


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
                yield bead.sprint or bead.id, f"a real conflict in {where}; the merge agent was called"
        for attempt in attempts_of(told, bead.judged):
            if attempt.ruling != "pass":
                why = next((f"{row.name}: {row.how}" for row in attempt.rows if not row.ok), attempt.message)
                said = f"attempt {attempt.number} was sent back: {_shortened(why)}"
                yield bead.sprint or bead.id, said


# --- the graph ----------------------------------------------------------------------------------------


def _graph(subject: PageSubject) -> Iterator[str]:
    drawing = subject.drawing
    widest = max((len(wave) for wave in drawing.waves), default=1)
    width = widest * (BOX[0] + GAP[0]) - GAP[0] + 4
    height = len(drawing.waves) * (BOX[1] + GAP[1]) - GAP[1] + 4
    if not drawing.nodes:
        return
    yield "<h2>What waits for what</h2>"
    yield "<p>A row is a wave: what stands in it may run at the same time.</p>"
    yield (
        f'<div class="graph" tabindex="0"><svg viewBox="0 0 {width} {height}" role="img" '
        f'style="{_size(widest, width)}" aria-label="The graph of sprints">'
    )
    places = _places(drawing, width)
    for sprint, (x, y) in places.items():
        for other in drawing.inner(sprint):
            yield _edge(places[other], (x, y))
    known = {bead.id: bead for bead in subject.beads}
    for sprint, place in places.items():
        bead = known.get(drawing.nodes[sprint].bead_id)
        yield _node(drawing, sprint, place, bead)
    yield "</svg></div>"


def _size(widest: int, width: int) -> str:
    """As wide as the page where that is readable; a wider one can be scrolled."""
    return f"max-width:{width}px" if widest <= FITTING else f"width:{width}px"


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


def _node(drawing: Drawing, sprint: str, place: tuple[int, int], bead: ShownBead | None) -> str:
    x, y = place
    node = drawing.nodes[sprint]
    status, label = (bead.status, bead.sprint) if bead else ("open", "")
    critical = " critical" if sprint in drawing.critical_path else ""
    title = plots.cut(node.title, LONGEST_TITLE)
    return (
        f'<a href="#{text(node.bead_id)}"><rect class="box {text(status)}{critical}" x="{x}" y="{y}" '
        f'width="{BOX[0]}" height="{BOX[1]}" rx="8"/>'
        f'<text class="id" x="{x + 12}" y="{y + 19}">{text(label or sprint)}</text>'
        f'<text x="{x + 12}" y="{y + 36}">{text(title)}</text></a>'
    )


# --- the timeline -------------------------------------------------------------------------------------


def _timeline(subject: PageSubject) -> Iterator[str]:
    names = {bead.id: f"{bead.sprint} {bead.title}".strip() or bead.id for bead in subject.beads}
    drawn = timeline(subject.events, names)
    if drawn is None:
        return
    table = PlotTable(["bead", "what", "from", "took"], drawn.table)
    plot = [plots.key(KINDS), *plots.rows("When each bead was worked on", drawn.rows, drawn.foot)]
    yield from plots.figure("timeline", "When", drawn.said, plot, table)


# --- beads and their attempts -------------------------------------------------------------------------


def _beads(subject: PageSubject) -> Iterator[str]:
    if not subject.events:
        return
    spans = spans_of(subject.events)
    begin = min((span.start for found in spans.values() for span in found), default=0.0)
    end = max((span.end for found in spans.values() for span in found), default=0.0)
    yield "<h2>How each sprint went</h2>"
    yield plots.key(KINDS)
    for bead in subject.beads:
        told = [event for event in subject.events if event.bead == bead.id]
        counted = subject.account.beads.get(bead.id) or BeadAccount(bead.id)
        yield from _summary(bead, attempts_of(told, bead.judged), counted)
        yield from _strip(spans.get(bead.id, ()), begin, max(end - begin, 0.001))
        yield from _details(bead, attempts_of(told, bead.judged))


def _summary(bead: ShownBead, attempts: Sequence[ShownAttempt], counted: BeadAccount) -> Iterator[str]:
    is_open = " open" if len(attempts) > 1 or bead.status == "blocked" else ""
    yield f'<details id="{text(bead.id)}"{is_open}><summary>'
    yield f'<b>{text(bead.sprint)}</b> {text(bead.title)} <small class="{text(bead.status)}">'
    said = [bead.status, bead.standing, plots.counted(len(attempts), "attempt")]
    said += [plots.counted(len(bead.flags), "flag")] if bead.flags else []
    said += [money_text(counted.usage.cost_usd)] if counted.usage.cost_usd is not None else []
    yield f"{text(', '.join(filter(None, said)))}</small>"


def _strip(spans: Sequence[Span], begin: float, whole: float) -> Iterator[str]:
    yield f'<svg class="strip" viewBox="0 0 {STRIP} 12" preserveAspectRatio="none" aria-hidden="true">'
    yield f'<rect class="track" width="{STRIP}" height="12"/>'
    for span in spans:
        left = (span.start - begin) / whole * STRIP
        width = max((span.end - span.start) / whole * STRIP, 2.0)
        yield (
            f'<rect class="{text(span.kind)}" x="{left:.1f}" width="{width:.1f}" height="12">'
            f"<title>{text(span.name)}, {span.end - span.start:.2f} s</title></rect>"
        )
    yield "</svg></summary>"


def _details(bead: ShownBead, attempts: Sequence[ShownAttempt]) -> Iterator[str]:
    yield f"<p><code>{text(bead.id)}</code> on <code>{text(bead.branch)}</code></p>"
    if bead.reason:
        yield f"<p>{text(plots.cut(bead.reason, LONGEST_MESSAGE))}</p>"
    for attempt in attempts:
        yield from _attempt(attempt)
    yield from _evidence(bead.evidence)
    if bead.outputs:
        links = (f'<a href="{quote(where)}">{text(name)}</a>' for name, where in bead.outputs)
        yield f"<p><small>What was printed: {', '.join(links)}</small></p>"
    yield "</details>"


def _attempt(attempt: ShownAttempt) -> Iterator[str]:
    good = "good" if attempt.ruling == "pass" else "bad"
    yield f'<h3><span class="{good} pill">{text(attempt.ruling)}</span> attempt {attempt.number}</h3>'
    yield f"<p>{text(plots.cut(attempt.message, LONGEST_MESSAGE))}</p><ul class='checks'>"
    for row in attempt.rows:
        how = plots.cut(" ".join(row.how.split()), LONGEST_MESSAGE if row.words else LONGEST_WORDS)
        facts = f" <small>{text(row.facts)}</small>" if row.facts else ""
        kind = "good" if row.ok else "bad"
        yield f'<li class="{kind}"><code>{text(row.name)}</code> {text(how)}{facts}</li>'
    for flag in attempt.flags:
        yield f'<li class="flag">look at: {text(_shortened(flag))}</li>'
    yield "</ul>"


def _evidence(rows: Sequence[Evidence]) -> Iterator[str]:
    """What the last verdict rests on: each check with its command, its commit, and how a failed one ended."""
    if not rows:
        return
    heads = ["check", "command", "ruling", "exit", "took", "commit"]
    cells = [
        (row.name, row.command, row.ruling, row.exit_code, time_text(row.seconds), row.commit[:12])
        for row in rows
    ]
    yield "<details><summary>Evidence of the last verdict</summary>"
    yield from plots.table_of(PlotTable(heads, cells), "Evidence of the last verdict")
    for row in rows:
        if row.output_tail:
            yield f"<p><code>{text(row.name)}</code></p><pre>{plots.block(row.output_tail)}</pre>"
    yield "</details>"


def _shortened(words: str) -> str:
    return plots.cut(" ".join(words.split()), LONGEST_WORDS)


# --- pull requests, costs, what is next ---------------------------------------------------------------


def _pulls(subject: PageSubject) -> Iterator[str]:
    if not subject.account.pull_requests:
        return
    titles = {bead.id: f"{bead.sprint} {bead.title}" for bead in subject.beads}
    yield '<h2>Pull requests</h2><ul class="pulls">'
    for pull in subject.account.pull_requests:
        name = text(titles.get(pull.bead, pull.bead))
        if pull.url and ADDRESS.fullmatch(pull.url):
            name = f'<a href="{text(pull.url)}" rel="noreferrer">{name}</a>'
        elif subject.pulls_folder and isinstance(pull.number, int):
            name = f'<a href="{text(subject.pulls_folder)}/{pull.number}.md">{name}</a>'
        yield f"<li><b>{text(pull.number or '')}</b> {name}<br><code>{text(pull.branch)}</code> "
        yield f"<code>{text(pull.commit[:12])}</code></li>"
    yield "</ul>"


def _costs(subject: PageSubject) -> Iterator[str]:
    if not subject.account.programs:
        return
    heads = ["program", "model", "calls", "tokens in", "tokens out", "cost"]
    rows = [
        (
            *(one.program, one.model, one.calls, one.usage.input_tokens or 0, one.usage.output_tokens or 0),
            f"{'about ' if one.cost_computed else ''}{money_text(one.usage.cost_usd)}",
        )
        for one in subject.account.programs
    ]
    yield "<h2>What it cost</h2>"
    yield from plots.table_of(PlotTable(heads, rows), "By program and model")


def _next(subject: PageSubject) -> Iterator[str]:
    found = subject.account
    if found.remarks or found.next:
        yield "<h2>What is next</h2><ul>"
        yield from (f"<li>{text(remark)}</li>" for remark in found.remarks)
        yield from (f"<li><code>{text(step)}</code></li>" for step in found.next)
        yield "</ul>"

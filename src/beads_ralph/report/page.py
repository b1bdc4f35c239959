"""The analysis as one web page that needs nothing else: no script, no request, no wide screen."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from beads_ralph.bead.words import plural
from beads_ralph.report import plots
from beads_ralph.report.advice import Advice
from beads_ralph.report.figures import FINISHED, RunGroup, Spread, money_text, time_text
from beads_ralph.report.plots import Piece, PlotTable, text
from beads_ralph.report.tally import Stretch, Tally, ranked

EDGES: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800)
MOST_BEADS: Final = 60
MOST_FAILED: Final = 200
WITHOUT_CENTS: Final = 10
QUIET: Final = timedelta(minutes=30)
"""Records of other programs name no run; a gap like this ends one."""
MOST_REASONS: Final = 12
NAMES: Final = {
    "success": "succeeded",
    "failed": "failed",
    "timeout": "timed out",
    "running": "running",
    "waiting": "will be tried again",
}


@dataclass(frozen=True)
class AnalysisSubject:
    """The figures that the page shows."""

    tally: Tally
    advice: Sequence[Advice]
    now: datetime
    since: str | None = None
    unreadable: int = 0


def html(subject: AnalysisSubject) -> str:
    """The whole page as text."""
    tally = subject.tally
    body = (
        *(
            *_head(subject),
            *_advice(subject.advice),
            *_trend(tally),
            *_costs(tally),
            *_durations(tally),
            *_gantt(subject),
        ),
        *(*_failures(tally), *_failed_beads(tally), *_groups(tally), *_verifiers(tally)),
    )
    return plots.page("What the runs teach", ("page.css", "analysis.css"), body)


# --- words ------------------------------------------------------------------------------------------


def _head(subject: AnalysisSubject) -> Iterator[str]:
    runs, tally = subject.tally.runs, subject.tally
    since = f", since {subject.since}" if subject.since else ""
    yield "<h1>What the runs teach</h1>"
    yield f"<p>{text(f'{subject.now:%Y-%m-%d %H:%M} UTC{since}')}. {text(_counted(subject))}</p>"
    spent = sum(tally.spending.costs) if tally.spending.costs else None
    figures = {
        "beads, by their last attempt": str(runs.count),
        "succeeded": _percent(runs.success_rate.percent),
        "passed at first": _percent(runs.first_pass.percent),
        "median attempt": time_text(Spread.of(runs.attempt_seconds).p50),
        "for each closed bead": money_text(runs.cost_per_closed),
        f"spent ({tally.spending.without_cost} attempts do not say)": money_text(spent),
    }
    yield plots.key_figures(figures)


def _counted(subject: AnalysisSubject) -> str:
    runs, tally = subject.tally.runs, subject.tally
    said = [f"{runs.finished} finished runs of {tally.attempts} attempts"]
    said += [f"{runs.running} running and {runs.waiting} to be tried again are in no rate"]
    said += [f"{tally.bad_timestamps} records have bad times"] if tally.bad_timestamps else []
    said += [f"{plural(subject.unreadable, 'file')} could not be read"] if subject.unreadable else []
    return "; ".join(said) + "."


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


def _advice(found: Sequence[Advice]) -> Iterator[str]:
    yield '<h2>Recommendations</h2><ul class="advice">'
    for piece in found:
        sure = "" if piece.confidence is None else f", confidence {piece.confidence:g} %"
        rests = f"{piece.rule}, on {piece.runs} data points{sure}"
        follow = f" <code>{text(piece.follow)}</code>" if piece.follow else ""
        yield f"<li>{text(piece.text)}{follow} <small>{text(rests)}</small></li>"
    yield "</ul>"


# --- plots ------------------------------------------------------------------------------------------


def _trend(tally: Tally) -> Iterator[str]:
    trend = tally.trend()
    rows = trend["rows"]
    if not rows:
        return
    title = f"Outcomes per {trend['by']}"
    said = f"{sum(row['runs'] for row in rows)} finished runs by the {trend['by']} of their end, in UTC."
    stacks = [(row["start"], {name: row[name] for name in FINISHED}) for row in rows]
    foot = _dates(rows)
    table = PlotTable(
        [trend["by"], "runs", *FINISHED, "success rate"],
        [
            [row["start"], row["runs"], *(row[name] for name in FINISHED), _percent(row["success_rate"])]
            for row in rows
        ],
    )
    drawn = [plots.key({name: NAMES[name] for name in FINISHED}), *plots.columns(title, stacks, foot)]
    yield from plots.figure("outcomes", title, said, drawn, table)


def _dates(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The first and the last, below a plot from left to right."""
    ends = list(dict.fromkeys((rows[0]["start"], rows[-1]["start"])))
    return ends if len(rows) > plots.FEW // 2 else [" to ".join(ends)]


def _costs(tally: Tally) -> Iterator[str]:
    trend = tally.trend()
    rows, by = trend["rows"], trend["by"]
    known = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    if not known:
        return
    title = f"Money per {by}"
    said = (
        f"{money_text(sum(known))} by the {by} of the attempt, in UTC. "
        "The table says what a closed bead cost, with all that failed meanwhile."
    )
    stacks = [(row["start"], {"spent": row["cost_usd"] or 0.0}) for row in rows]
    table = PlotTable(
        [by, "spent", "closed", "for each closed bead"],
        [
            [
                row["start"],
                money_text(row["cost_usd"]),
                row["success"],
                money_text(row["cost_per_closed_usd"]),
            ]
            for row in rows
        ],
    )
    drawn = plots.columns(title, stacks, _dates(rows), _short_money)
    yield from plots.figure("costs", title, said, drawn, table)


def _short_money(usd: float) -> str:
    """Beside a plot there is little room."""
    return f"${usd:,.0f}" if usd >= WITHOUT_CENTS or not usd else f"${usd:.2f}"


def _durations(tally: Tally) -> Iterator[str]:
    seconds = tally.runs.attempt_seconds
    if not seconds:
        return
    found = Counter(bisect_right(EDGES, value) for value in seconds)
    counts = [(_bin(at), found.get(at, 0)) for at in range(min(found), max(found) + 1)]
    times = Spread.of(seconds)
    said = (
        f"{times.n} finished attempts: half of them took at most {time_text(times.p50)}, "
        f"95 % at most {time_text(times.p95)}."
    )
    table = PlotTable(["duration", "attempts"], counts)
    title = "How long attempts take"
    yield from plots.figure("durations", title, said, plots.rows(title, plots.lengths(counts)), table)


def _bin(at: int) -> str:
    if at == 0:
        return f"below {time_text(EDGES[0])}"
    if at == len(EDGES):
        return f"{time_text(EDGES[-1])} and more"
    return f"{time_text(EDGES[at - 1])} to {time_text(EDGES[at])}"


def last_run(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Those that belong to the run that began an attempt last, in the order of their start."""
    ordered = sorted(stretches, key=lambda stretch: stretch.start)
    run_id = ordered[-1].run_id if ordered else None
    same = [stretch for stretch in ordered if stretch.run_id == run_id]
    return same if run_id is not None else _since_quiet(same)


def _since_quiet(ordered: Sequence[Stretch]) -> list[Stretch]:
    found: list[Stretch] = []
    busy = datetime.min.replace(tzinfo=UTC)
    for stretch in ordered:
        if stretch.start - busy > QUIET:
            found.clear()
        found.append(stretch)
        busy = max(busy, stretch.end or stretch.start)
    return found


def _gantt(subject: AnalysisSubject) -> Iterator[str]:
    found = last_run(subject.tally.stretches or ())
    if not found:
        return
    start = found[0].start
    end = max(stretch.lasts_until(subject.now) for stretch in found)
    whole = max((end - start).total_seconds(), 0.001)
    beads: dict[str, list[Stretch]] = {}
    for stretch in found:
        beads.setdefault(stretch.bead, []).append(stretch)
    shown = dict(list(beads.items())[:MOST_BEADS])
    cut = f" The first {MOST_BEADS} are drawn." if len(beads) > MOST_BEADS else ""
    said = f"{plural(len(beads), 'bead')} in {time_text(whole)}, from {start:%Y-%m-%d %H:%M:%S} on.{cut}"
    title = "The last run"
    rows = [
        (
            bead,
            plots.counted(len(tries), "attempt"),
            [_piece(one, start, whole, subject.now) for one in tries],
        )
        for bead, tries in shown.items()
    ]
    form = "%Y-%m-%d %H:%M" if end - start > timedelta(days=1) else "%H:%M:%S"
    foot = [f"{start:{form}}", f"{end:{form}}"]
    kinds = {name: said_ for name, said_ in NAMES.items() if any(one.outcome == name for one in found)}
    table = PlotTable(
        ["bead", "attempt", "start", "took", "ended"],
        [
            [one.bead, one.attempt, f"{one.start:{form}}", _took(one, subject.now), NAMES[one.outcome]]
            for tries in shown.values()
            for one in tries
        ],
    )
    drawn = [plots.key(kinds), *plots.rows(title, rows, foot)]
    yield from plots.figure("gantt", title, said, drawn, table)


def _took(one: Stretch, now: datetime) -> str:
    return time_text((one.lasts_until(now) - one.start).total_seconds())


def _piece(one: Stretch, start: datetime, whole: float, now: datetime) -> Piece:
    left = (one.start - start).total_seconds() / whole
    right = (one.lasts_until(now) - start).total_seconds() / whole
    return Piece(left, right, one.outcome, f"attempt {one.attempt}: {NAMES[one.outcome]}, {_took(one, now)}")


def _failures(tally: Tally) -> Iterator[str]:
    reasons = ranked(tally.setbacks)
    if not reasons:
        return
    final = tally.failures
    counts = [(row["reason"], row["count"]) for row in reasons]
    said = (
        f"{plural(sum(tally.setbacks.values()), 'attempt')} came to nothing; "
        f"{sum(final.values())} of them were the last at their bead."
    )
    table = PlotTable(
        ["reason", "attempts", "last attempts"], [[name, n, final.get(name, 0)] for name, n in counts]
    )
    title = "Why attempts fail"
    drawn = plots.rows(title, plots.lengths(counts[:MOST_REASONS], "failed"))
    yield from plots.figure("failures", title, said, drawn, table)


def _failed_beads(tally: Tally) -> Iterator[str]:
    """Each with its record."""
    rows = sorted(tally.failed)
    if not rows:
        return
    yield "<h2>Beads that failed</h2><ul>"
    for bead, reason, attempts, file in rows[:MOST_FAILED]:
        place = quote(str(Path(file).absolute()), errors="replace")
        link = f'<a href="file://{text(place)}">{text(bead)}</a>'
        yield f"<li>{link}: {text(reason)}, after {plural(attempts, 'attempt')}</li>"
    yield "</ul>"
    if len(rows) > MOST_FAILED:
        yield f"<p>And {len(rows) - MOST_FAILED} more.</p>"


# --- tables -----------------------------------------------------------------------------------------


def _groups(tally: Tally) -> Iterator[str]:
    yield "<h2>Who does how well</h2>"
    for trait, name in TRAITS.items():
        if groups := tally.by(trait):
            table = PlotTable([name, *HEADS], [_row(key, group) for key, group in groups.items()])
            yield from plots.table_of(table)


TRAITS: Final = {
    **{name: name for name in ("agent", "model", "template")},
    "kind": "kind of bead",
    "parallel": "beads at once",
    "task_type": "task",
}
HEADS: Final = (
    *("beads", "attempts", "first pass", "between", "attempts a closed bead", "its cost"),
    *("median", "p25", "p75"),
)


def _row(name: Any, group: RunGroup) -> list[Any]:
    """Attempts and cost are those for each closed bead, failures included."""
    times = Spread.of(group.attempt_seconds)
    rate, each = group.first_pass, group.attempts_per_closed
    between = f"{rate.interval[0]:.0f} to {rate.interval[1]:.0f} %" if rate.interval else "-"
    spent = money_text(group.cost_per_closed)
    closed = "-" if each is None else f"{each:.1f}"
    measured = [time_text(value) for value in (times.p50, times.p25, times.p75)]
    return [name, group.beads, group.attempts, _percent(rate.percent), between, closed, spent, *measured]


def _verifiers(tally: Tally) -> Iterator[str]:
    seen = [row for _, row in sorted(tally.verifiers.seen.items())]
    if seen:
        yield "<h2>Verifiers</h2>"
        heads = ["verifier", "runs", "red", "commits judged again", "both red and green"]
        rows = [[row.name, row.runs, row.red, row.repeated, row.flips] for row in seen]
        yield from plots.table_of(PlotTable(heads, rows))

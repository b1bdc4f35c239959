"""status: what is at work, done and blocked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from beads_ralph.bead.json_fields import to_json
from beads_ralph.bead.words import clock, plural, utc_text
from beads_ralph.board.source import BoardSource
from beads_ralph.cli import executions, options, page
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import Option
from beads_ralph.cli.page import Line, line
from beads_ralph.cli.style import current_style
from beads_ralph.config import workspace
from beads_ralph.journal import journal, runs
from beads_ralph.journal.runs import RunFolder

REFRESH_SECONDS = 1.0
FLAGGED_SHOWN = 10
PEOPLES_SHOWN = 10
URGENT = ("stalled", "budget", "gate_red", "failed_twice", "plan_differs")
STATUSES = ("open", "in_progress", "blocked", "closed")


def status(
    watch: Annotated[bool, Option("--watch", help="Show it again every second.")] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Show what is at work, what is done and what is blocked."""
    source = BoardSource(workspace.place(), store)
    while watch and current_style() == "text" and executions.is_anything_running(source.place):
        _show_again(_status(source))
        time.sleep(REFRESH_SECONDS)
    found = _status(BoardSource(source.place, store))
    return Answer(found, page=lambda: _page(found))


def _show_again(found: dict[str, Any]) -> None:
    console = page.screen(highlight=False)
    console.clear()
    page.draw(console, _page(found))


def _status(source: BoardSource) -> dict[str, Any]:
    place = source.place
    source.poll()
    state, look, folder = source.expect(), source.look, source.folder
    if look.error is not None:
        raise look.error
    listing, running = look.listing, runs.is_running(place.home)
    cut_off = [] if running else [left.run_id for left in runs.left_unfinished(place.home)]
    return {
        "running": running,
        "run_id": folder.run_id if folder else None,
        "cut_off": cut_off,
        "orphans": _orphans(cut_off),
        "order": runs.ordered(place.home),
        "counts": dict(Counter(bead.status for bead in listing.beads)),
        "standing": dict(Counter(bead.standing for bead in listing.beads if bead.standing)),
        "flagged": [{"id": bead.id, "flags": list(bead.flags)} for bead in listing.beads if bead.flags],
        **_run_facts(folder if running else None),
        "parked": [
            {"id": bead.id, "until": parked.get("until"), "reason": parked.get("reason")}
            for bead in listing.beads
            if (parked := bead.parked) is not None
        ],
        "blocked": [
            {"id": bead.id, "reason": bead.error} for bead in listing.beads if bead.status == "blocked"
        ],
        "unreadable": [
            {"id": broken.id, "faults": [fault.to_json() for fault in broken.faults]}
            for broken in listing.unreadable
        ],
        "waiting_for": [dict(wait) for wait in look.waits],
        "people": [dict(step) for step in look.people],
        "executions": executions.rows(executions.homes(place)),
        "store": look.kind,
        "attention": to_json(state.attention),
        "run": to_json(state.run),
        "next": [
            {"id": bead.id, "waits": to_json(bead.waits)}
            for bead in map(state.bead, state.next)
            if bead is not None
        ],
    }


def _run_facts(folder: RunFolder | None) -> dict[str, Any]:
    """How the run that goes on now stands, as its journal tells."""
    if folder is None:
        return {"at_work": [], "awaiting_team": [], "parallel": None, "unavailable": [], "draining": None}
    from beads_ralph.cli.run_status import at_work, awaiting_team, draining, parallel, unavailable

    told = list(journal.read(folder.journal))
    now = utc_text(datetime.now(UTC))
    return {
        "at_work": at_work(told),
        "awaiting_team": awaiting_team(told),
        "parallel": parallel(told),
        "unavailable": unavailable(told, now),
        "draining": draining(told),
    }


def _orphans(cut_off: Sequence[str]) -> list[dict[str, Any]]:
    """The agents and checks of runs that were killed, where they live on."""
    if not cut_off:
        return []
    from beads_ralph.cli.run_status import orphans

    return [row for run_id in cut_off for row in orphans(run_id)]


def _unavailable(rows: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """Programs that are not asked now."""
    for row in rows:
        from beads_ralph.cli.board import asked_again

        when = asked_again(row["trouble"], row["until"], row.get("gives_up_at"))
        yield line(f"  ! {row['reason'] or ''}; {when}")


def _page(found: dict[str, Any]) -> Iterator[Line]:
    state = ("running", "green") if found["running"] else ("not running", "dim")
    word = f", told to {found['order']}" if found["order"] else _ending(found)
    yield line(state, f"{word}  ", (found["run_id"] or "no run yet", "dim"))
    yield from _cut_off(found)
    counts = found["counts"]
    yield line("  ".join(f"{counts.get(name, 0)} {name}" for name in STATUSES))
    if forecast := found["run"]["forecast"]:
        now = datetime.now(UTC)
        times = [clock(forecast[name], now) for name in ("done_at", "earliest", "latest")]
        yield line("  probably done at {}, 8 of 10 times between {} and {}".format(*times))
    if reviewed := found["standing"].get("reviewed"):
        yield line(f"  {reviewed} of the closed on review alone: no verifier ran")
    yield from _urgent(found["attention"])
    yield from _flagged(found["flagged"])
    width = found["parallel"]
    if width and width["now"] != width["most"]:
        yield line(f"  ! {width['now']} of {width['most']} beads at once, while a limit lasts")
    yield from _unavailable(found["unavailable"])
    yield from _at_work(found["at_work"])
    yield from _awaiting_team(found["awaiting_team"])
    for row in found["parked"]:
        yield line(f"  … {row['id']}  {row['reason'] or ''}, resumes {row['until']}")
    for row in found["waiting_for"]:
        yield line(f"  … {row['id']}  {row['title']}: {row['reason']}; holds up {', '.join(row['beads'])}")
        if row["command"]:
            yield line(f"    → {row['command']}")
    yield from _peoples(found["people"], {row["id"] for row in found["waiting_for"]})
    for row in found["blocked"]:
        yield line("  ", ("✗", "red"), f" {row['id']}  {(row['reason'] or '').split(chr(10))[0]}")
    for row in found["unreadable"]:
        yield line("  ", ("!", "red"), f" {row['id']} cannot be read: {row['faults'][0]['message']}")
        yield line(f"    → beads-ralph retry {row['id']}")
    yield from executions.page(found["executions"])


def _cut_off(found: dict[str, Any]) -> Iterator[Line]:
    """The runs that were killed, and what lives on of them."""
    for run_id in found["cut_off"]:
        yield line(f"  ! run {run_id} was cut off; the next run records what it could not")
    for row in found["orphans"]:
        about = f" on {row['bead']}" if row["bead"] else ""
        who = f"process {row['pid']} ({row['program']}) of run {row['run_id']}"
        yield line(("  !", "yellow"), f" {who} is still at work{about}, since {row['since']}")
        yield line(f"    → the next run ends it; to end it now: kill {row['pid']}")


def _ending(found: dict[str, Any]) -> str:
    """A run that was told to stop has heeded it when it starts nothing more."""
    if not found["draining"]:
        return ""
    return f", starts nothing more ({found['draining']}), finishes {plural(len(found['at_work']), 'bead')}"


def _urgent(rows: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """What needs a person and has no line of its own further down."""
    for row in rows:
        if row["kind"] in URGENT:
            yield line(("  !", "yellow"), f" {row['bead'] or 'run'}  {row['text']}")
            if row["command"]:
                yield line(f"    → {row['command']}")


def _flagged(rows: Sequence[dict[str, Any]]) -> Iterator[Line]:
    for row in rows[:FLAGGED_SHOWN]:
        first, *more = row["flags"]
        also = f", and {plural(len(more), 'more flag')}: beads-ralph show {row['id']}" if more else ""
        yield line(("  !", "yellow"), f" {row['id']}  look at: {first}{also}")
    if (left := len(rows) - FLAGGED_SHOWN) > 0:
        yield line(("  !", "yellow"), f" {plural(left, 'more bead')} with flags: beads-ralph list")


def _awaiting_team(rows: Sequence[dict[str, Any]]) -> Iterator[Line]:
    for row in rows:
        yield line(f"  … {row['bead']}  waits for the session of its team, in which {row['by']} is worked on")


def _peoples(rows: Sequence[dict[str, Any]], named: Collection[str]) -> Iterator[Line]:
    """The open steps of people. Those that hold beads up are named as such already."""
    if not rows:
        return
    ready = [row for row in rows if row["command"]]
    yield line(f"{plural(len(rows), 'step')} for people, {len(ready)} of them can be done now")
    shown = [row for row in ready if row["id"] not in named]
    for row in shown[:PEOPLES_SHOWN]:
        yield line(f"  ○ {row['id']}  {row['title']}")
        yield line(f"    → {row['command']}")
    if (left := len(shown) - PEOPLES_SHOWN) > 0:
        yield line(f"  ○ {left} more: beads-ralph ready")


def _at_work(rows: Sequence[dict[str, Any]]) -> Iterator[Line]:
    for row in rows:
        from beads_ralph.cli.run_status import lent, progress

        where = f" on {row['host']}" if row.get("host") else ""
        yield line(f"  ▶ {row['bead']}  {progress(row)}{where}")
        if row.get("lease"):
            yield line("    ", (lent(row["lease"]), "dim"))

"""runs: the runs of this repository, and what each of them did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from beads_ralph.bead.usage import Usage
from beads_ralph.bead.words import plural
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import Option
from beads_ralph.cli.page import Line, line
from beads_ralph.config import workspace
from beads_ralph.journal import accounts
from beads_ralph.journal.accounts import BeadAccount, RunAccount, run_named
from beads_ralph.report.figures import money_text, time_text

MARKS = {
    "closed": ("✓", "green"),
    "blocked": ("✗", "red"),
    "at work": ("▶", "cyan"),
    "parked": ("…", "yellow"),
    "released": ("○", "yellow"),
}
GOOD = {"done": "green", "running": "cyan", "for_people": "yellow"}


# --- runs ---------------------------------------------------------------------------------------------


def list_runs(
    limit: Annotated[int | None, Option("--limit", min=1, help="Only the last N.")] = None,
    json_: options.Json = False,
) -> Answer:
    """List the runs, oldest first: when, how long, why each ended, what it closed and what it cost."""
    found = list(accounts.summaries(workspace.find().home))
    shown = found if limit is None else found[-limit:]
    return Answer({"runs": shown, "total": len(found)}, page=lambda: _list_page(shown, len(found)))


def _list_page(rows: Sequence[Mapping[str, Any]], total: int) -> Iterator[Line]:
    if not rows:
        yield line("no run yet; start one: beads-ralph run")
    for row in rows:
        usage = Usage(**row["usage"])
        counts = f"{row['closed']} closed, {row['blocked']} blocked, {plural(row['attempts'], 'attempt')}"
        when = f"{_when(row['started_at'])}, {time_text(row['duration_seconds'])}"
        yield line((row["run_id"], "bold"), "  ", (row["ended"], GOOD.get(row["ended"], "red")), f"  {when}")
        yield line(f"  {', '.join([counts, *_spent(usage)])}")
        if row["reason"]:
            yield line((f"  {_one_line(row['reason'])}", "dim"))
    if len(rows) < total:
        yield line((f"{total - len(rows)} earlier: beads-ralph runs list", "dim"))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def show(name: options.RunName = None, json_: options.Json = False) -> Answer:
    """Show what a run did: each bead, its attempts, its cost, and why the run ended."""
    found = accounts.account_of(run_named(workspace.find().home, name or accounts.LATEST))
    return Answer(account_json(found), page=lambda: account_page(found))


def account_json(found: RunAccount) -> dict[str, Any]:
    return {
        **found.to_json(),
        "beads": [{**vars(bead), "usage": vars(bead.usage)} for bead in found.beads.values()],
        "programs": [{**vars(one), "usage": vars(one.usage)} for one in found.programs],
        "pull_requests": [vars(pull) for pull in found.pull_requests],
        "remarks": list(found.remarks),
        "next": list(found.next),
    }


def account_page(found: RunAccount) -> Iterator[Line]:
    yield line((found.run_id, "bold"), "  ", (found.ended, GOOD.get(found.ended, "red")))
    yield line(f"  {_when(found.started_at)} to {_when(found.ended_at)}, {time_text(found.seconds)}")
    if found.reason:
        yield line(f"  {_one_line(found.reason)}")
    closed, blocked = len(found.with_result("closed")), len(found.with_result("blocked"))
    counts = f"{closed} closed, {blocked} blocked, {plural(found.attempts, 'attempt')}"
    yield line(f"  {', '.join([counts, *_spent(found.usage)])}")
    for one in found.programs:
        name = f"{one.program} ({one.model})" if one.model else one.program
        yield line((f"  {name}: {', '.join([plural(one.calls, 'call'), *_spent(one.usage)])}", "dim"))
    for bead in found.beads.values():
        yield from _bead_lines(bead)
    for remark in found.remarks:
        yield line(("  !", "yellow"), f" {_one_line(remark)}")
    for step in found.next:
        yield line(f"  → {step}")


def _bead_lines(bead: BeadAccount) -> Iterator[Line]:
    facts = [plural(bead.attempts, "attempt"), *_spent(bead.usage)]
    yield line("  ", MARKS[bead.result], f" {bead.id}  {bead.title}  ", (", ".join(facts), "dim"))
    if bead.pull_request:
        yield line((f"    {bead.pull_request}", "dim"))
    if bead.result != "closed" and bead.reason:
        yield line(f"    {_one_line(bead.reason)}")


def _when(moment: str) -> str:
    """A time as people read it; those of the journal are in UTC."""
    return f"{moment[:10]} {moment[11:16]} UTC" if moment else "never"


def _spent(usage: Usage) -> list[str]:
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    money = [] if usage.cost_usd is None else [money_text(usage.cost_usd)]
    return [*money, *([f"{tokens:,} tokens"] if tokens else [])]

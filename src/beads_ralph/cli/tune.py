"""tune: settings that past runs give reason for, as a change of the file; and what became of earlier ones."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from beads_ralph.bead.words import moment_of, utc_text
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.config import workspace
from beads_ralph.config.edit import with_setting
from beads_ralph.config.read import read
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.files import text_files
from beads_ralph.journal import records
from beads_ralph.journal.records import Attempt
from beads_ralph.report import advice as advising
from beads_ralph.report import tallied
from beads_ralph.report.figures import RunGroup, money_text
from beads_ralph.report.tuning import Proposal, proposals

if TYPE_CHECKING:
    from rich.console import Console

APPLIED: Final = "applied-advice.jsonl"
"""In the folder of the records: one line for each setting that was changed on advice."""
OUTCOME: Final = (
    *("first_attempts", "first_passed", "first_pass_rate"),
    *("cost_per_closed_usd", "attempts_per_closed"),
)


def tune(
    apply: Annotated[bool, typer.Option("--apply", help="Write it into the file; comments stay.")] = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Propose settings from the records of past runs, as a diff, and tell what became of earlier ones."""
    space = workspace.find(config_file=config)
    told = read(space.root, config)
    attempts = list(records.read_all(space.state))
    tally = tallied(attempts)
    advice = advising.advice(tally)
    found = proposals(tally, advice, told.config)
    file = told.file or space.root / CONFIG_NAME
    old = text_files.read_text(file) if told.file else ""
    new = old
    for one in found:
        new = with_setting(new, one.key, one.proposed)
    before = outcomes(space.state, attempts)
    if apply and found:
        text_files.write_text(file, new)
        _note(space.state, found)
    by_hand = [piece for piece in advice if piece.rule == "split-beads"]
    was, is_ = (text.splitlines(keepends=True) for text in (old, new))
    diff = "".join(difflib.unified_diff(was, is_, file.name, file.name))
    data = {
        "file": str(file),
        "proposals": [one.to_json() for one in found],
        "diff": diff,
        "applied": apply and bool(found),
        "by_hand": [piece.to_json() for piece in by_hand],
        "outcomes": before,
    }
    return Answer(data, lambda console: _show(console, data, found, by_hand))


# --- what became of it ----------------------------------------------------------------------------


def _note(state: Path, found: Sequence[Proposal]) -> None:
    place = state / APPLIED
    known = text_files.read_text(place) if place.is_file() else ""
    at = utc_text(datetime.now(UTC))
    rows = [{"at": at, "key": one.key, "from": one.now, "to": one.proposed, "why": one.why} for one in found]
    text_files.make_folder(place.parent, private=True)
    text_files.write_text(place, known + "".join(json.dumps(row) + "\n" for row in rows))


def outcomes(state: Path, attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Each setting that was changed on advice, with the attempts that began before and after it."""
    place = state / APPLIED
    found = []
    for line in text_files.read_text(place).splitlines() if place.is_file() else ():
        try:
            row = json.loads(line)
            moment = moment_of(row["at"])
        except (ValueError, KeyError, TypeError):
            continue
        sides = {"before": RunGroup(), "after": RunGroup()}
        for attempt in attempts:
            if attempt.started_at is not None:
                sides["after" if attempt.started_at >= moment else "before"].charge(attempt)
        told = {name: {key: group.account()[key] for key in OUTCOME} for name, group in sides.items()}
        found.append({**{key: row.get(key) for key in ("at", "key", "from", "to", "why")}, **told})
    return found


# --- for people -----------------------------------------------------------------------------------


def _show(
    console: Console, data: dict[str, Any], found: Sequence[Proposal], by_hand: Sequence[advising.Advice]
) -> None:
    for row in data["outcomes"]:
        sides = ", ".join(f"{name} {_said(row[name])}" for name in ("before", "after"))
        console.print(f"{row['key']}: {row['from']} → {row['to']} at {row['at']}: {sides}", markup=False)
    for one in found:
        known = "" if one.confidence is None else f" (confidence {one.confidence:g} %)"
        console.print(f"{one.key}: {one.now} → {one.proposed}", markup=False)
        console.print(f"  {one.why}{known}", markup=False)
    for piece in by_hand:
        console.print(f"by hand: {piece.text}", markup=False)
    if not found:
        console.print("No setting that the records give reason to change.")
        return
    console.print(data["diff"], markup=False, highlight=False)
    done = f"Written to {data['file']}." if data["applied"] else "Write it with: beads-ralph tune --apply"
    console.print(done, markup=False)


def _said(side: dict[str, Any]) -> str:
    cost = money_text(side["cost_per_closed_usd"])
    return f"{side['first_passed']} of {side['first_attempts']} passed at first, {cost} a closed bead"

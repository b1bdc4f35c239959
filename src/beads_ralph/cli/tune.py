"""tune: settings that past runs give reason for, as a change of the file; and what became of earlier ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.config import workspace
from beads_ralph.config.edit import with_setting
from beads_ralph.config.read import read
from beads_ralph.config.settings_file import CONFIG_NAME
from beads_ralph.files import text_files
from beads_ralph.journal import records
from beads_ralph.report import advice as advising
from beads_ralph.report import applied, tallied
from beads_ralph.report.applied import AppliedAdvice
from beads_ralph.report.tuning import Proposal, proposals

if TYPE_CHECKING:
    from rich.console import Console


def tune(
    apply: Annotated[bool, typer.Option("--apply", help="Write it into the file; comments stay.")] = False,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Propose settings from the records of past runs, as a diff, and tell what became of earlier ones."""
    space = workspace.find(config_file=config)
    told = read(space.root, config)
    before = applied.applied(space.state)
    tally = tallied(records.read_all(space.state), also=applied.adding(before))
    advice = advising.advice(tally)
    found = proposals(tally, advice, told.config)
    file = told.file or space.root / CONFIG_NAME
    old = text_files.read_text(file) if told.file else ""
    new = old
    for one in found:
        new = with_setting(new, one.key, one.proposed)
    if apply and found:
        text_files.write_text(file, new)
        applied.note(space.state, found)
    by_hand = [piece for piece in advice if piece.rule == "split-beads"]
    was, is_ = (text.splitlines(keepends=True) for text in (old, new))
    diff = "".join(difflib.unified_diff(was, is_, file.name, file.name))
    data = {
        "file": str(file),
        "proposals": [one.to_json() for one in found],
        "diff": diff,
        "applied": apply and bool(found),
        "by_hand": [piece.to_json() for piece in by_hand],
        "outcomes": [past.to_json() for past in before],
    }
    return Answer(data, lambda console: _show(console, data, found, by_hand, before))


# --- for people -----------------------------------------------------------------------------------


def _show(
    console: Console,
    data: dict[str, Any],
    found: Sequence[Proposal],
    by_hand: Sequence[advising.Advice],
    before: Sequence[AppliedAdvice],
) -> None:
    for past in before:
        console.print(past.text, markup=False)
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

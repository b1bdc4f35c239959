"""plan import: the plan of another tool as a plan of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beads_ralph.bead.words import plural, several
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.commands import PROGRAM
from beads_ralph.cli.text import lines
from beads_ralph.errors import Code, RalphError
from beads_ralph.files import text_files
from beads_ralph.plan import foreign


def import_plan(
    file: Annotated[Path, typer.Argument(help="A ralphex plan (.md) or a prd.json.", readable=False)],
    to: Annotated[Path, typer.Option("--to", help="Where to write it.", readable=False)] = Path("plan.md"),
    force: Annotated[bool, typer.Option("--force", help="Replace the plan that is there.")] = False,
    json_: options.Json = False,
) -> Answer:
    """Write a plan from that of another tool: a ralphex plan, or the stories of a prd.json."""
    if to.exists() and not force:
        action = f"Name another with --to, or replace it: {PROGRAM} plan import {file} --to {to} --force"
        raise RalphError(Code.USAGE, f"{to} exists", suggested_action=action)
    made = foreign.convert(text_files.read_text(file), file.as_posix())
    text_files.write_text(to, made.text)
    data = {
        "plan": str(to),
        "sprints": [{"sprint": one.number, "title": one.title, "was": one.key} for one in made.stories],
        "done": made.done,
        "verify": list(made.verify),
    }
    return Answer(data, lines(*_said(made, to)))


def _said(made: foreign.Imported, to: Path) -> list[str]:
    said = [f"✓ {to}: {plural(len(made.stories), 'sprint')}"]
    if not made.verify:
        said += [
            "! no command proves the work yet: add verify: to the front matter, or **Verify** to sprints"
        ]
    if made.done:
        said += [
            f"  done already: {several(made.done)}; beads-ralph mason {to} --adopt takes them as accepted"
        ]
    return [*said, f"  next: {PROGRAM} plan check {to}"]

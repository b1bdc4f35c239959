"""demo: the whole job on a sample plan, offline."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, Answer, speaker
from beads_ralph.cli.page import console
from beads_ralph.cli.style import current_style

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.demo.demonstration import Demonstration


def demo(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Where to build it; a new temporary folder by default.")
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Only compile the plan; start nothing.")
    ] = False,
    json_: options.Json = False,
) -> Answer:
    """Watch the main job: a sample plan worked through in a scratch repository, without any model."""
    from beads_ralph import app
    from beads_ralph.cli.board import Board
    from beads_ralph.cli.run import ended_answer
    from beads_ralph.demo import demonstration

    say = speaker(current_style())
    shown = demonstration.prepare(folder)
    if plan_only:
        return _planned(shown)
    if current_style() == "text":
        screen = console()
        demonstration.show(shown, screen)
        screen.print("\n[bold]Agents at work[/bold], scripted ones: no network, no account")
    with chdir(shown.root):
        planned = app.plan_run(app.RunRequest(shown.plan, config=shown.settings), progress=say)
        ended = planned.start(lambda journal: Board(journal, current_style()), say)
        ran = ended_answer(planned, ended)
    finished = demonstration.finish(shown, ran.data)
    return Answer(
        finished.to_json(),
        lambda screen: demonstration.show_end(finished, screen),
        exit_code=ran.exit_code or (0 if finished.ok else FAILED),
    )


def _planned(shown: Demonstration) -> Answer:
    from beads_ralph.demo import demonstration

    data = {**shown.to_json(), "ended": None, "report": None, "analysis": None}

    def show(screen: Console) -> None:
        demonstration.show(shown, screen)
        demonstration.show_ready(shown, screen)

    return Answer(data, show)

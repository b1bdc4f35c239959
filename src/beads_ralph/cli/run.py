"""run: its options. What it does is imported only when it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.files.plugins import ExecutorName, ForgeName

Executor = Annotated[
    ExecutorName | None, typer.Option("--executor", help="Where agents run.", show_default=False)
]
Forge = Annotated[
    ForgeName | None,
    typer.Option("--forge", help="Where pull requests are opened.", show_default=False),
]


def run(  # noqa: PLR0913 - one parameter an option
    plan: Annotated[Path | None, typer.Argument(help="Compile this plan first.", show_default=False)] = None,
    *,
    max_parallel: Annotated[
        int | None, typer.Option("--max-parallel", min=1, help="Beads at work at once.", show_default=False)
    ] = None,
    team: Annotated[
        list[str] | None, typer.Option("--team", help="Only this team.", show_default=False)
    ] = None,
    bead: Annotated[
        list[str] | None, typer.Option("--bead", help="Only this bead.", show_default=False)
    ] = None,
    convoy: Annotated[
        list[str] | None,
        typer.Option("--convoy", help="Only the beads of this convoy.", show_default=False),
    ] = None,
    wisps: Annotated[bool, typer.Option("--wisps", help="Wisps too.")] = False,
    once: Annotated[bool, typer.Option("--once", help="One round of ready beads, then end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would start, in waves.")] = False,
    stop_on_failure: Annotated[
        bool, typer.Option("--stop-on-failure", help="A blocked bead ends it.")
    ] = False,
    force_gates: Annotated[
        bool, typer.Option("--force-gates", help="Start features although a gate is red; it is recorded.")
    ] = False,
    executor: Executor = None,
    forge_name: Forge = None,
    store: options.Store = None,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Work through the ready beads with agents until nothing is left, and say why it ended."""
    from beads_ralph.cli import running

    wishes = running.Wishes(
        plan=plan,
        max_parallel=max_parallel,
        teams=frozenset(team or ()),
        beads=frozenset(bead or ()),
        convoys=tuple(convoy or ()),
        wisps=wisps,
        once=once,
        dry_run=dry_run,
        stop_on_failure=stop_on_failure,
        force_gates=force_gates,
        executor=executor,
        forge=forge_name,
        store=store,
        config=config,
    )
    return running.run(wishes)

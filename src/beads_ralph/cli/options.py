"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from beads_ralph.config.store_settings import StoreChoice

Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON envelope on stdout.")]
Store = Annotated[
    StoreChoice | None,
    typer.Option("--store", help="Where the beads live; auto takes bd where .beads/ is initialised."),
]
# readable=False: the parser would call a file that must not be read a slip of the command line.
PlanFile = Annotated[Path, typer.Argument(help="The markdown plan.", show_default=False, readable=False)]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Another file than beads-ralph.yaml.", show_default=False, readable=False),
]
Follow = Annotated[bool, typer.Option("-f", "--follow", help="Go on as it grows.")]
NoAgentCheck = Annotated[
    bool, typer.Option("--no-agent-check", help="Do not look for the agent files in .claude/agents/.")
]
MasonSchema = Annotated[Literal["4.1a", "legacy"], typer.Option("--schema", help="The schema of the beads.")]
BeadId = Annotated[str, typer.Argument(help="The bead's id, in full.", show_default=False)]
BeadIds = Annotated[list[str], typer.Argument(metavar="BEAD…", help="Bead ids, in full.", show_default=False)]
BeadFiles = Annotated[
    list[Path], typer.Argument(metavar="FILE…", help="Ralph beads.", show_default=False, readable=False)
]

"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from beads_ralph.cli.commands import Argument, Option
from beads_ralph.config.settings_file import StoreChoice

if TYPE_CHECKING:
    from beads_ralph.cli.answer import Answer

Request = TypeVar("Request")


Json = Annotated[bool, Option("--json", help="Answer with one JSON envelope on stdout.")]
Store = Annotated[
    StoreChoice | None,
    Option("--store", help="Where the beads live; auto takes bd where .beads/ is initialised."),
]
# readable=False: the parser would call a file that must not be read a slip of the command line.
PlanFile = Annotated[Path, Argument(help="The markdown plan.", readable=False)]
ConfigFile = Annotated[
    Path | None,
    Option("--config", help="Read this file instead of beads-ralph.yaml.", readable=False),
]
Follow = Annotated[bool, Option("-f", "--follow", help="Follow it as it grows.")]
NoAgentCheck = Annotated[
    bool, Option("--no-agent-check", help="Do not look for the agent files in .claude/agents/.")
]
MasonSchema = Annotated[Literal["4.1a", "legacy"], Option("--schema", help="The schema of the beads.")]
Prefer = Annotated[
    Literal["plan", "store"] | None,
    Option("--prefer", help="Which value wins where both the plan and a person changed it."),
]
Reason = Annotated[str, Option("--reason", help="Why, for whoever reads it later.")]


def bead_ids(incomplete: str) -> list[str]:
    from beads_ralph.cli import bead_names

    return bead_names.completions(incomplete)


BEAD = "The bead: its id, the beginning of it, or its sprint."
BeadId = Annotated[str, Argument(help=BEAD, autocompletion=bead_ids)]
BeadIds = Annotated[
    list[str],
    Argument(
        metavar="BEAD…",
        help="Beads: their ids, the beginnings of them, or their sprints.",
        autocompletion=bead_ids,
    ),
]
RunName = Annotated[
    str | None,
    Argument(metavar="[RUN]", help="A run: its id, the beginning of it, or latest.", show_default=False),
]
BeadFiles = Annotated[list[Path], Argument(metavar="FILE…", help="Ralph beads.", readable=False)]


def taken_from(request: type[Request]) -> Callable[[Callable[[Request], Answer]], Callable[..., Answer]]:
    """Make a command of a function that takes a request: its options are the fields of the dataclass."""

    def decorate(command: Callable[[Request], Answer]) -> Callable[..., Answer]:
        @wraps(command)
        def called(**given: Any) -> Answer:
            return command(request(**given))

        vars(called)["__signature__"] = inspect.signature(request, eval_str=True)
        return called

    return decorate

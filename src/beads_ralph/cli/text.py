"""Text for people; rich is imported when something is shown, and not for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from beads_ralph.bead.words import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def printable(text: str) -> str:
    """The text for stdout: as it is, but on a terminal with nothing that it would obey. JSON stays the same
    value."""
    return visible(text) if sys.stdout.isatty() else text


def lines(*said: str) -> Callable[[Console], None]:
    """Show these lines as they are."""
    return lambda _: sys.stdout.writelines(f"{printable(line)}\n" for line in said)


def escape(text: str) -> str:
    """The text as it is, square brackets and all, but nothing that a terminal would obey."""
    from rich import markup

    return markup.escape(visible(text))


def table(*headings: str, folding: tuple[str, ...] = ()) -> Table:
    """A table without lines; the columns that fold come last."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        made.add_column(heading, no_wrap=True)
    for heading in folding:
        made.add_column(heading, overflow="fold")
    return made


def pretty(value: Any) -> str:
    """A value as JSON that people can read."""
    return json.dumps(value, indent=2, ensure_ascii=False)

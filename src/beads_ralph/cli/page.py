"""What a person is shown, line by line: drawn by rich on a terminal, plain text everywhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from beads_ralph.bead.words import visible
from beads_ralph.cli import text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

Span = str | tuple[str, str]
"""A text, or a text and its style."""
PIPE_WIDTH: Final = 200
GAP: Final = "  "
COLOURED: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables that ask rich for colours where no terminal is."""


@dataclass(frozen=True)
class Line:
    """One line, or several where a text holds line ends."""

    spans: tuple[Span, ...]


def line(*spans: Span) -> Line:
    return Line(spans)


@dataclass(frozen=True)
class Table:
    """Columns of one width each, the last of them as wide as there is room."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Span]]


Page = Iterable[Line | Table]


def give(page: Page) -> None:
    """Print on stdout."""
    if sys.stdout.isatty() or any(os.environ.get(name) for name in COLOURED):
        draw(console(), page)
    else:
        sys.stdout.writelines(f"{words}\n" for block in page for words in _plain(block))


# --- plain ------------------------------------------------------------------------------------------


def _plain(block: Line | Table) -> Iterator[str]:
    if isinstance(block, Line):
        yield "".join(map(_text, block.spans))
        return
    rows = [block.headings, *([_text(cell) for cell in row] for row in block.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _text(span: Span) -> str:
    """What it says, with nothing that a reader's terminal would obey."""
    return visible(span if isinstance(span, str) else span[0])


# --- drawn ------------------------------------------------------------------------------------------


def console() -> Console:
    """A rich console on stdout; colours only where a person watches, and wide lines where none does."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return screen(highlight=False, soft_wrap=True, width=width)


def screen(**how: Any) -> Console:
    """A rich console that shows what others wrote and obeys nothing of it."""
    from rich.console import Console
    from rich.segment import Segment

    class Screen(Console):
        def render(self, *args: Any, **named: Any) -> Iterator[Segment]:
            for one in super().render(*args, **named):
                yield one if one.control else Segment(visible(one.text), one.style)

    return Screen(**how)


def draw(on: Console, page: Page) -> None:
    for block in page:
        on.print(_drawn_line(block) if isinstance(block, Line) else _drawn_table(block))


def _drawn_line(line: Line) -> Text:
    from rich.text import Text

    return Text.assemble(*map(_shown, line.spans))


def _shown(span: Span) -> Span:
    return visible(span) if isinstance(span, str) else (visible(span[0]), span[1])


def _drawn_table(table: Table) -> RichTable:
    from rich.text import Text

    *headings, last = table.headings
    drawn = text.table(*headings, folding=(last,))
    for row in table.rows:
        drawn.add_row(*(Text.assemble(_shown(cell)) for cell in row))
    return drawn

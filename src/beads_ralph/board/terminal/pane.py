"""A part of the screen that shows lines: only those that can be seen are drawn, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from beads_ralph.board.terminal.lines import Line

SELECTED: Final = Style(reverse=True)
EDGE: Final = " │ "
"""Between two panes side by side."""
KEPT: Final = Style(bold=True)
"""All that a selected line keeps of its styles: one colour from end to end is seen at once."""


class Pane(Widget, can_focus=True):
    """Lines, scrolled by hand; with a cursor where one of them is selected."""

    DEFAULT_CSS = "Pane { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the name of textual's own
        super().__init__(id=id)
        self.lines: Sequence[Line] = ()
        self.edge = ""
        self.top = 0
        self.cursor: int | None = None
        self.at_end = False
        """Whether it follows what is added."""

    def show(self, lines: Sequence[Line], cursor: int | None = None) -> None:
        """Draw again only where something differs."""
        if lines == self.lines and cursor == self.cursor:
            return
        self.lines, self.cursor = lines, cursor
        self._keep_in_sight()
        self.refresh()

    def scroll(self, by: int) -> None:
        self.top = min(max(self.top + by, 0), self._lowest)
        self.at_end = self.top == self._lowest and by > 0
        self.refresh()

    @property
    def _lowest(self) -> int:
        return max(len(self.lines) - max(self.size.height, 1), 0)

    def _keep_in_sight(self) -> None:
        height = max(self.size.height, 1)
        if self.at_end:
            self.top = self._lowest
        elif self.cursor is not None:
            highest = self.cursor - 1 if self.cursor == 1 else self.cursor  # with its heading
            self.top = min(max(self.top, self.cursor - height + 1), highest)
        self.top = min(max(self.top, 0), self._lowest)

    def on_resize(self) -> None:
        self._keep_in_sight()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        at, width = self.top + y, self.size.width
        chosen, plain = at == self.cursor, Style.null()
        pieces = [Segment(self.edge, Style(dim=True))] if self.edge else []
        if at < len(self.lines):
            pieces += [Segment(text, _style(style, chosen=chosen)) for text, style in self.lines[at]]
        length = sum(cell_len(piece.text) for piece in pieces)
        return Strip(pieces, length).adjust_cell_length(width, SELECTED if chosen else plain)


def _style(name: str, *, chosen: bool) -> Style:
    style = Style.parse(name)
    return style if not chosen else SELECTED + KEPT if style.bold else SELECTED

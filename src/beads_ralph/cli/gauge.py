"""How far a pour is: a bar for people, lines for files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from beads_ralph.cli.answer import Display
from beads_ralph.cli.style import current_style

if TYPE_CHECKING:
    from rich.progress import Progress

    from beads_ralph.compile.pour import Tell


LINES = 20
"""So many lines tell of a pour, and one more; a file of a thousand rows need not fill a log."""


@contextmanager
def meter(rows: int) -> Iterator[Tell]:
    """A bar for a person at a terminal, lines for a file, nothing for a script or a single row."""
    if rows == 1 or current_style() != "text":
        yield lambda _done, _all: None
        return
    gauge = Gauge(rows)
    try:
        yield gauge.tell
    finally:
        gauge.stop()


class Gauge(Display):
    """Shows on stderr how far a pour is; where nobody looks any more, the pour goes on unseen."""

    def __init__(self, rows: int) -> None:
        self.bar = _bar(rows) if sys.stderr.isatty() else None
        self.silent = False
        self.told = 0

    def tell(self, done: int, rows: int) -> None:
        enough = self.bar is not None or done == rows or (done - self.told) * LINES >= rows
        if enough and not self.silent:
            self.told = done
            with self._unseen():
                self._show(done, rows)

    def _show(self, done: int, rows: int) -> None:
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done)
        else:
            sys.stderr.write(f"poured {done} of {rows} rows\n")
            sys.stderr.flush()

    def stop(self) -> None:
        if self.bar is not None:
            with self._unseen():
                self.bar.stop()


def _bar(rows: int) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("pouring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("rows", total=rows)
    bar.start()
    return bar

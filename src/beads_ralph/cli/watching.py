"""board: the board in the terminal, on a run of this repository."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Annotated, Final, Self

import typer

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, Style
from beads_ralph.cli.board import Board
from beads_ralph.cli.status import status
from beads_ralph.config import workspace
from beads_ralph.errors import RalphError
from beads_ralph.journal import runs
from beads_ralph.journal.journal import Journal
from beads_ralph.process.foreground import ForegroundProgram

END_SECONDS: Final = 4.0
"""The board of a run shows its end for so long, and then leaves the terminal to the run's last lines."""

PATIENCE_SECONDS: Final = 10.0
KEPT_LINES: Final = 1000
ATTACH: Final = "  the board is closed, the run goes on; to attach again: beads-ralph board"


def board(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="This run: its id, or the beginning of it.")
    ] = None,
    of_run: Annotated[bool, typer.Option("--of-run", hidden=True)] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Watch a run and steer it on a board in the terminal; looking changes nothing."""
    if not is_screen():
        return status(store=store, json_=json_)
    from beads_ralph.board.source import BoardSource
    from beads_ralph.board.terminal.board_app import TerminalBoard

    source = BoardSource.open(store=store, run=run, glance=True)
    ends = END_SECONDS if of_run else None
    app = TerminalBoard(source, interrupt=_interrupt(of_run=of_run), end_seconds=ends, budget=_budget)
    app.run(mouse=False)
    return Answer({}, lambda _: None, exit_code=app.return_code or 0)


def is_screen() -> bool:
    """True if a person sits at a terminal that can show a board."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(one is not None and one.isatty() for one in streams) and os.environ.get("TERM") != "dumb"


def _budget() -> dict[str, float | None]:
    """That of the settings, where they can be read."""
    try:
        config = workspace.find().config
    except RalphError:
        return {}
    said = {"minutes": config.budget_minutes, "cost_usd": config.budget_usd, "tokens": config.budget_tokens}
    return dict(said)


def _interrupt(*, of_run: bool) -> Callable[[], None] | None:
    """In a run's own terminal Ctrl-C is for the run, as it is without a board."""
    if not of_run:
        return None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run, home = os.getppid(), workspace.place().home

    def tell() -> None:
        holder = runs.holder(home)
        if holder is not None and holder.pid == run == os.getppid():
            os.kill(run, signal.SIGINT)

    return tell


# --- beside a run -------------------------------------------------------------------------------------


class BoardBeside(Board):
    """The board of a run in its own terminal: another process, so that nothing there can touch the run.

    While it has the terminal, the lines of the run are kept; they are told when it leaves, in whichever way.
    """

    def __init__(self, journal: Journal, style: Style) -> None:
        super().__init__(journal, style)
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._lock = threading.Lock()
        self._board: ForegroundProgram | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        if not self.silent:
            words = (sys.executable, "-m", "beads_ralph", "board", self.journal.run_id, "--of-run")
            self._board = ForegroundProgram.start(words)
            threading.Thread(target=self._await_end, args=(self._board,), daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        board = self._board
        if board is not None:
            code = board.wait(END_SECONDS + PATIENCE_SECONDS if problem[0] is None else 0.0)
            self._left(board, board.end() if code is None else code, over=True)

    def say(self, text: str) -> None:
        with self._lock:
            if self._board is not None:
                self._kept.append(text)
                return
        super().say(text)

    def _await_end(self, board: ForegroundProgram) -> None:
        with self._unseen():
            self._left(board, board.wait() or 0)

    def _left(self, board: ForegroundProgram, code: int, *, over: bool = False) -> None:
        """The terminal is the run's again, and has all that was kept."""
        with self._lock:
            if self._board is None:
                return
            board.restore(code)
            told = list(self._kept) + ([] if over else [ATTACH])
            for text in told:
                super().say(text)
            self._board = None

"""The board's screen: panes, keys and what they do. It looks at a run in another process and only looks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.message import Message
from textual.widgets import Input

from beads_ralph.board.model import BoardBead, BoardState
from beads_ralph.board.source import POLL_SECONDS, BoardSource
from beads_ralph.board.terminal import reading, run_views, views
from beads_ralph.board.terminal.asking import WordsOrder, YesQuestion
from beads_ralph.board.terminal.keys import BINDINGS, FOOTER, HELP
from beads_ralph.board.terminal.lines import Line, heading, line
from beads_ralph.board.terminal.pane import EDGE, Pane
from beads_ralph.board.terminal.views import FILTERS, ListRow
from beads_ralph.errors import RalphError

WIDE: Final = 100
"""From so many columns on the list and another pane stand side by side."""
SIDES: Final = ("detail", "output", "diff", "graph")
MESSAGE_SECONDS: Final = 6.0


class Looked(Message):
    """Somebody beside the screen has looked again."""

    def __init__(self, state: BoardState, said: str = "") -> None:
        super().__init__()
        self.state, self.said = state, said


class TerminalBoard(App[None]):
    """One repository's board. `interrupt` is what Ctrl-C does; without one it leaves the board."""

    CSS = """
    Screen { layout: vertical; }
    #header { height: 2; } #footer { height: 1; } Input { height: 1; border: none; display: none; }
    #body { height: 1fr; } #side { width: 6fr; } #list { width: 5fr; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = BINDINGS

    def __init__(
        self,
        source: BoardSource,
        *,
        of_run: bool = False,
        interrupt: Callable[[], None] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        end_seconds: float | None = None,
        budget: Callable[[], Mapping[str, float | None]] = dict,
    ) -> None:
        super().__init__()
        self.source, self.of_run, self.interrupt, self.now = source, of_run, interrupt, now
        self.end_seconds, self.budget = end_seconds, budget
        """How long the end of the run is shown before the board leaves; None for until somebody does."""
        self.state: BoardState = source.snapshot()
        self.rows: list[ListRow] = []
        self.key = ""
        self.side, self.whole = "detail", "list"
        self.on_side = False
        self.shown, self.search = FILTERS[0], ""
        self.question: YesQuestion | None = None
        self.order: WordsOrder | None = None
        self.message = ""
        self.over = False
        self.follower = reading.SelectedReader(source)
        self._drawable = False
        self._leaving, self._reading = threading.Event(), threading.Lock()
        self.ended_before = self.state.run.mode == "ended"

    def compose(self) -> ComposeResult:
        yield Pane(id="header")
        with Horizontal(id="body"):
            yield Pane(id="list")
            yield Pane(id="side")
        yield Input(id="search", placeholder="search", compact=True, select_on_focus=False)
        yield Input(id="words", compact=True, select_on_focus=False)
        yield Pane(id="footer")

    def on_mount(self) -> None:
        self._drawable = True
        self.query_one("#list", Pane).focus()
        self.set_interval(1.0, self.draw)
        threading.Thread(target=self._watch, daemon=True).start()
        self.draw()

    def on_unmount(self) -> None:
        self._leaving.set()

    def _watch(self) -> None:
        """Beside the screen, since settings and a store may take a while."""
        self.source.budget = self.budget()
        while not self._leaving.is_set():
            with self._reading:
                state = self.source.poll()
            changed = self.follower.look(self.selected, self.pane)
            if state is not self.state or changed:
                self.post_message(Looked(state))
            self._leaving.wait(POLL_SECONDS)

    def on_looked(self, message: Looked) -> None:
        if message.said:
            self.say(message.said)
        self.take(message.state)

    def take(self, state: BoardState) -> None:
        self.state = state
        if state.run.mode in ("ended", "dead") and not self.ended_before:
            self.ended_before, self.over = True, True
            if self.end_seconds is not None:
                self.set_timer(self.end_seconds, self.exit)
        self.draw()

    # --- drawing --------------------------------------------------------------------------------------

    @property
    def wide(self) -> bool:
        return self.size.width >= WIDE

    @property
    def pane(self) -> str:
        """The pane besides the list that is to be seen."""
        return self.side if self.wide else self.whole

    @property
    def selected(self) -> BoardBead | None:
        row = self._row
        return self.state.bead(row.bead) if row and row.bead else None

    @property
    def _row(self) -> ListRow | None:
        return next((row for row in self.rows if row.key and row.key == self.key), None)

    def on_resize(self, _event: Resize) -> None:
        self.draw()

    def draw(self) -> None:
        if not self._drawable or self._leaving.is_set() or not self.query("#list"):
            return  # not yet there, or taken down already
        now, narrow = self.now(), not self.wide
        listed, side = self.query_one("#list", Pane), self.query_one("#side", Pane)
        listed.display = self.wide or self.whole == "list"
        side.display = self.wide or self.whole != "list"
        side.edge = "" if narrow else EDGE
        width = self.size.width if narrow else self.size.width * 5 // 11
        rows = views.list_rows(self.state, self.shown, self.search, width, now)
        self.rows = views.spaced(rows, self.size.height - 3)
        if self._row is None:
            self.key = next((row.key for row in self.rows if row.key), "")
        cursor = next((at for at, row in enumerate(self.rows) if row.key and row.key == self.key), None)
        self.query_one("#header", Pane).show(run_views.header(self.state, now, self.size.width))
        listed.show([row.line for row in self.rows], cursor)
        side.show(self._side_lines(self.size.width if narrow else self.size.width - width - len(EDGE), now))
        self.query_one("#footer", Pane).show([self._footer()])

    def _side_lines(self, width: int, now: datetime) -> list[Line]:
        bead, pane = self.selected, self.pane
        if pane == "help":
            return [heading("keys"), *(line((f"  {keys:<9} ", "bold cyan"), text) for keys, text in HELP)]
        if self.over:
            return run_views.end_card(self.state, width)
        if pane == "graph":
            return views.graph_lines(self.state, bead.id if bead else None, width)
        if pane == "output":
            return self.follower.output_lines(bead, width)
        if pane == "diff":
            return self.follower.diff_lines(bead)
        return views.detail_lines(bead, self.follower.metadata(bead), width, now)

    def _footer(self) -> Line:
        if self.question is not None:
            return line((f" {self.question.text} ", "bold yellow"), "y yes  n no")
        if self.order is not None:
            return line((f" {self.order.text} ", "bold yellow"), "Enter sends it, Esc leaves it")
        if self.message:
            return line(f" {self.message}")
        name = f"{self.shown}" + (f" /{self.search}" if self.search else "")
        keys = FOOTER if not self.over else (("q", "leave: the run is over"),)
        hints = [piece for key, what in keys for piece in ((f"  {key}", "bold cyan"), (f" {what}", "dim"))]
        return line((f" {name} ", "reverse"), *hints)

    def say(self, text: str) -> None:
        self.message = text
        self.set_timer(MESSAGE_SECONDS, self._unsay)
        self.draw()

    def _unsay(self) -> None:
        self.message = ""
        self.draw()

    # --- moving ---------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        if self.on_side or (not self.wide and self.whole != "list"):
            self.query_one("#side", Pane).scroll(by)
            return
        keys = [row.key for row in self.rows if row.key]
        if keys:
            at = keys.index(self.key) if self.key in keys else 0
            self.key = keys[min(max(at + by, 0), len(keys) - 1)]
            self.query_one("#side", Pane).top = 0
        self.draw()

    def action_page(self, by: int) -> None:
        self.action_move(by * max(self.query_one("#body").size.height - 2, 1))

    def action_open(self) -> None:
        self.over = False
        if not self.wide:
            self.action_pane("detail" if self.whole == "list" else "list")
        else:
            self.on_side = True
            self.action_pane("detail")

    def action_close(self) -> None:
        self.question, self.on_side, self.over = None, False, False
        if self.order is not None:
            self._close_words()
        elif self.search or self.query_one("#search").display:
            self._close_search(clear=True)
        elif not self.wide:
            self.whole = "list"
        elif self.side == "help":
            self.side = "detail"
        self.draw()

    def action_other(self) -> None:
        if self.wide:
            self.on_side = not self.on_side
        else:
            self.whole = "list" if self.whole != "list" else self.side
        self.draw()

    def action_pane(self, name: str) -> None:
        self.over = False
        if name == "list":
            self.whole, self.on_side = "list", False
        else:
            self.whole = self.side = name
        side = self.query_one("#side", Pane)
        side.top, side.at_end = 0, name == "output"
        self.draw()

    def action_cycle(self) -> None:
        at = SIDES.index(self.pane) + 1 if self.pane in SIDES else 0
        self.action_pane(SIDES[at % len(SIDES)])

    def action_filter(self) -> None:
        self.shown = FILTERS[(FILTERS.index(self.shown) + 1) % len(FILTERS)]
        self.draw()

    # --- searching ------------------------------------------------------------------------------------

    def action_search(self) -> None:
        box = self.query_one("#search", Input)
        self.whole = "list"
        box.display = True
        box.focus()
        self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "search":
            self.search = event.value
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "search":
            self._close_search(clear=False)
        elif self.order is not None:
            self.act(self.order.name, self.order.bead, event.value)
            self._close_words()

    def _close_search(self, *, clear: bool) -> None:
        box = self.query_one("#search", Input)
        if clear:
            box.value = self.search = ""
        box.display = False
        self.query_one("#list", Pane).focus()
        self.draw()

    # --- steering -------------------------------------------------------------------------------------

    def act(self, name: str, bead: str = "", words: str = "") -> None:
        threading.Thread(target=self._act, args=(name, bead, words), daemon=True).start()

    def _act(self, name: str, bead: str, words: str) -> None:
        # Here, since it brings the whole loop along, and who only looks sees the board five times sooner.
        from beads_ralph.board.actions import ActionRequest, perform

        try:
            said = perform(ActionRequest(name, bead, words), self.source.place.root).lines[0]
        except RalphError as error:
            said = f"✗ {error.message}"
        with self._reading:
            self.post_message(Looked(self.source.refresh(), said))

    def action_pause(self) -> None:
        self.act("resume" if self.state.run.mode == "paused" else "pause")

    def action_retry(self) -> None:
        bead = self.selected
        if bead is None:
            self.say("select a bead first")
        else:
            self._ask(f"Open {bead.number or bead.id} again?", lambda: self.act("retry", bead.id))

    def action_close_step(self) -> None:
        row = self._row
        one = row.attention if row and row.attention and row.attention.kind == "person" else None
        if one is None or one.bead is None:
            self.say("select a person's step first")
        elif "approve" in one.orders:
            self._ask_words(f"Approve {one.bead}? A note:", "approve", one.bead)
        else:
            self._ask_words(f"Is {one.bead} done? A note or your answer:", "close", one.bead)

    def action_accept(self) -> None:
        bead = self.selected
        if bead is None:
            self.say("select a bead first")
        else:
            self._ask_words(f"Why is {bead.number or bead.id} done?", "accept", bead.id)

    def action_release(self) -> None:
        bead = self.selected
        if bead is None:
            self.say("select a bead first")
        else:
            ask = f"Release {bead.number or bead.id}, which a dead run holds?"
            self._ask(ask, lambda: self.act("release", bead.id))

    def _ask_words(self, text: str, name: str, bead: str) -> None:
        self.order = WordsOrder(text, name, bead)
        box = self.query_one("#words", Input)
        box.value, box.display = "", True
        box.focus()
        self.draw()

    def _close_words(self) -> None:
        self.order = None
        self.query_one("#words", Input).display = False
        self.query_one("#list", Pane).focus()
        self.draw()

    def action_stop(self) -> None:
        self._ask("Stop the run when what is at work has finished?", lambda: self.act("stop"))

    def _ask(self, text: str, yes: Callable[[], None]) -> None:
        self.question = YesQuestion(text, yes)
        self.draw()

    def action_yes_or_yank(self) -> None:
        question, self.question = self.question, None
        if question is not None:
            question.yes()
            self.draw()
        elif self.selected is not None:
            self.copy_to_clipboard(self.selected.id)
            self.say(f"copied {self.selected.id}")

    def action_no(self) -> None:
        self.question = None
        self.draw()

    def action_leave(self) -> None:
        self.exit()

    def action_interrupt(self) -> None:
        if self.interrupt is None:
            self.exit()
        else:
            self.interrupt()
            self.say("the run was told to end; Ctrl-C once more ends it at once")

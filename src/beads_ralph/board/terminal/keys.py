"""The keys of the terminal board, and what its help says of them."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding, BindingType

HELP: Final = (
    ("j k ↑ ↓", "move; in the right pane, scroll"),
    ("PgUp PgDn", "a page; Home and End the ends"),
    ("Enter", "open the bead; Esc goes back"),
    ("Tab", "from the list to the other pane, and back"),
    ("1 2 3 4", "list, waves, detail, output"),
    ("o", "the next pane: detail, output, diff, waves"),
    ("g v d", "waves; verdict and evidence; diff"),
    ("/", "search: id, number, title, team, program"),
    ("f", "filter: all, needs you, running, next, done"),
    ("p", "pause the run, or let it go on"),
    ("x", "stop the run, when asked twice"),
    ("r", "retry the bead"),
    ("a", "accept the bead as done, on your word"),
    ("R", "release the bead that a dead run holds"),
    ("c", "a person's step: done, approved or answered"),
    ("y", "copy the bead's id"),
    ("Ctrl-C", "in `run`: as in the run itself; once ends gently, twice at once"),
    ("q", "leave the board; the run goes on"),
)
FOOTER: Final = (
    ("Enter", "open"), ("/", "find"), ("o", "pane"), ("p", "pause"), ("r", "retry"), ("x", "stop"),
    ("?", "help"), ("q", "leave"),
)  # fmt: skip
BINDINGS: Final[list[BindingType]] = [
    Binding(keys, action, show=False, priority=keys in ("tab", "ctrl+c"))
    for keys, action in (
        ("j,down", "move(1)"),
        ("k,up", "move(-1)"),
        ("pagedown,ctrl+d", "page(1)"),
        ("pageup,ctrl+u", "page(-1)"),
        ("home", "move(-1000000)"),
        ("end,G", "move(1000000)"),
        ("enter", "open"),
        ("escape", "close"),
        ("tab", "other"),
        ("1", "pane('list')"),
        ("2,g", "pane('graph')"),
        ("3,v", "pane('detail')"),
        ("4", "pane('output')"),
        ("d", "pane('diff')"),
        ("o", "cycle"),
        ("slash", "search"),
        ("f", "filter"),
        ("p", "pause"),
        ("x", "stop"),
        ("r", "retry"),
        ("a", "accept"),
        ("R", "release"),
        ("c", "close_step"),
        ("y", "yes_or_yank"),
        ("n", "no"),
        ("question_mark", "pane('help')"),
        ("q", "leave"),
        ("ctrl+c", "interrupt"),
    )
]

"""Record `beads-ralph demo` at a real terminal, and draw what was seen there as docs/images/demo.svg.

    make picture

Nothing is edited: the demonstration runs, a pseudo-terminal records it, and the screen that it leaves is
drawn.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import sys
import termios
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE: Final = Path(__file__).parent.parent / "docs" / "images" / "demo.svg"
FOLDER: Final = Path("/tmp/todo-app")  # noqa: S108 - a short name, since the picture shows it
COLUMNS: Final = 112
ROWS: Final = 50
CONTROL: Final = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")
FONTS: Final = re.compile(r"\s*@font-face \{.*?\n    \}\n|\s*<!--.*?-->", re.DOTALL)
LIGHT: Final = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    [
        (36, 41, 47),
        (207, 34, 46),
        (17, 99, 41),
        (125, 78, 0),
        (9, 105, 218),
        (130, 80, 223),
        (5, 115, 125),
        (110, 119, 129),
    ],
)


def main() -> int:
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is in the way: move it")
    try:
        code, recorded = record(["beads-ralph", "demo", "--dir", str(FOLDER)])
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    if code:
        sys.exit(f"the demonstration ended with {code}:\n{recorded}")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(screen(recorded)), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size} bytes\n")
    return 0


def record(words: list[str]) -> tuple[int, str]:
    """Everything that the program writes to its terminal, and its exit code."""
    child, terminal = pty.fork()
    if child == 0:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL") if name in os.environ}
        os.execvpe(words[0], words, {**kept, "TERM": "xterm-256color"})  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    seen = b"".join(iter(lambda: _more(terminal), b""))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen.decode("utf-8", "replace")


def _more(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how a terminal says that nobody writes to it any more
        return b""


def screen(recorded: str) -> Iterator[str]:
    """The lines that are left, with their colours: a live table goes up and erases what it drew before."""
    lines, row = [""], 0
    for found in CONTROL.finditer(recorded):
        count, letter = found.groups()
        if found[0] == "\n":
            row += 1
        elif letter == "A":
            row = max(row - int(count or 1), 0)
        elif letter == "K":
            lines[row] = ""
        elif letter in (None, "m") and found[0] != "\r":
            lines[row] += found[0]
        lines += [""] * (row + 1 - len(lines))
    yield from lines


def draw(lines: Iterable[str]) -> str:
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, highlight=False)
    for line in lines:
        console.print(Text.from_ansi(line))
    drawn = console.export_svg(title="beads-ralph demo", theme=LIGHT, unique_id="demo")
    # A picture that fetches fonts is none: whoever shows it takes a font of theirs.
    return FONTS.sub("", drawn).replace("Fira Code, monospace", "monospace")


if __name__ == "__main__":
    sys.exit(main())

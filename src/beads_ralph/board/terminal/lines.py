"""Lines for a terminal: pieces of text, each with a style. A text is data: nothing in it is obeyed.

Every sign differs from the others in its shape, so that colours only help.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, TypeAlias

from rich.cells import cell_len, set_cell_size

from beads_ralph.bead.words import moment_of, visible

Piece: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Piece, ...]
"""Pieces of text with the names of their styles, as rich has them."""
EMPTY: Final[Line] = ()

MINUTE, HOUR, DAY, THOUSAND = 60, 3600, 86400, 1000
SIGNS: Final = {
    "running": ("▶", "cyan"),
    "ready": ("○", ""),
    "waits": ("…", "dim"),
    "blocked": ("✗", "red"),
    "closed": ("✓", "green"),
    "attention": ("!", "yellow"),
    "now": ("▶", "cyan"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
}


def line(*pieces: str | Piece) -> Line:
    """A line of pieces; those without a style are plain. Nothing in them moves the cursor."""
    styled = (piece if isinstance(piece, tuple) else (piece, "") for piece in pieces)
    return tuple((one_line(text), style) for text, style in styled if text)


def one_line(text: str) -> str:
    return visible(text.replace("\n", " ").replace("\t", " "))


def cut(text: str, width: int) -> str:
    """The text in that many cells at most; wide letters take two."""
    shown = one_line(text)
    if cell_len(shown) <= width:
        return shown
    return set_cell_size(shown, max(width - 1, 0)).rstrip() + "…"


def padded(text: str, width: int) -> str:
    return text + " " * max(width - cell_len(text), 0)


def heading(text: str) -> Line:
    return line((text, "bold"))


def wrapped(text: str, width: int, indent: str = "", style: str = "") -> Iterator[Line]:
    """The text on as many lines as it takes."""
    for part in text.splitlines() or [""]:
        shown = visible(part.replace("\t", "    "))
        for row in textwrap.wrap(shown, max(width - len(indent), 10), drop_whitespace=False) or [""]:
            yield line(indent, (row, style))


def text_of(lines: Iterable[Line]) -> str:
    """The same without styles."""
    return "\n".join("".join(text for text, _ in one).rstrip() for one in lines)


# --- amounts ------------------------------------------------------------------------------------------


def lasted(seconds: float) -> str:
    """`12s`, `3m05s`, `2h14m`, `3d04h`."""
    whole = max(int(seconds), 0)
    if whole < MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m{whole % MINUTE:02d}s"
    if whole < DAY:
        return f"{whole // HOUR}h{whole % HOUR // MINUTE:02d}m"
    return f"{whole // DAY}d{whole % DAY // HOUR:02d}h"


def age(since: str | None, now: datetime) -> str:
    """How long ago that was; empty where nobody knows."""
    try:
        return lasted((now - moment_of(since)).total_seconds()) if since else ""
    except ValueError:
        return ""


def tokens(count: int | None) -> str:
    """`950`, `12k`, `3.4M`."""
    if count is None:
        return ""
    if count < THOUSAND:
        return str(count)
    return f"{count / THOUSAND:.0f}k" if count < THOUSAND**2 else f"{count / THOUSAND**2:.1f}M"


def money(cost: float | None) -> str:
    return "" if cost is None else f"${cost:.2f}"

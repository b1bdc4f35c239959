"""Describe the rooms of the source by what they say themselves, and draw them.

    make architecture

A room is a package of `beads_ralph`, or a module that lies loose. Its docstring says what belongs there; the
layers are those that import-linter holds it to. `--write` renews the tables in
docs/internals/architecture.md and CONTRIBUTING.md, and docs/images/architecture.svg.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import architecture_page
from tools.architecture_page import PROJECT
from tools.metrics import SOURCE, levels

BLOCK: Final = "rooms"
GUIDE: Final = PROJECT / "CONTRIBUTING.md"
PICTURE: Final = PROJECT / "docs" / "images" / "architecture.svg"

WAY: Final = (
    ("plan", "markdown into sprints"),
    ("compile", "sprints into beads"),
    ("store", "keeps them"),
    ("loop", "starts all it may"),
    ("session", "one bead"),
    ("agents", "who plays"),
    ("process", "runs and ends it"),
    ("git", "worktree, checkout"),
    ("forge", "pull request"),
    ("store", "closed, with its proof"),
)
"""The rooms that carry a bead, in order, and what each does with it."""
ON_THE_WAY: Final = frozenset(name for name, _ in WAY)


@dataclass(frozen=True)
class Room:
    name: str
    layer: int
    """Counted from the top."""
    about: str

    @property
    def folder(self) -> str:
        return f"{self.name}/" if (SOURCE / self.name).is_dir() else f"{self.name}.py"

    def says(self, paragraphs: int) -> str:
        """The beginning of its docstring, as far as that is prose."""
        prose = (text for text in self.about.split("\n\n")[:paragraphs] if not text.startswith(" "))
        return " ".join(" ".join(prose).split())


def rooms() -> list[Room]:
    """All of them, from the top layer to the bottom one."""
    return [Room(name, layer, _about(name)) for name, layer in levels().items()]


def _about(name: str) -> str:
    folder = SOURCE / name / "__init__.py"
    path = folder if folder.is_file() else SOURCE / f"{name}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


# --- tables -------------------------------------------------------------------------------------------


def table(found: list[Room], paragraphs: int) -> str:
    """One row a room, with so much of what the room says of itself."""
    lines = ["| layer | room | what belongs there |", "|---|---|---|"]
    rows = ((room.layer, room.folder, room.says(paragraphs).replace("|", "&#124;")) for room in found)
    return "\n".join([*lines, *(f"| {layer} | `{folder}` | {says} |" for layer, folder, says in rows)])


# --- the picture --------------------------------------------------------------------------------------

WIDTH: Final = 1000
STEP: Final = 96
BAND: Final = 46
ROOM: Final = 150
TOP: Final = 150
STYLE: Final = (
    "text{font-family:system-ui,sans-serif;font-size:14px;fill:#24292f}"
    ".small{font-size:11px;fill:#57606a}.title{font-weight:600}"
    ".room{fill:#fff;stroke:#57606a}.way{fill:#ddf4ff;stroke:#0969da}.band{fill:#f6f8fa}"
    ".arrow{stroke:#0969da;stroke-width:1.5;fill:none;marker-end:url(#head)}"
)


def picture(found: list[Room]) -> str:
    """The way of a bead above, the layers below."""
    height = TOP + BAND * max(room.layer for room in found) + 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>The way of a bead, and the layers of the source</title><style>{STYLE}</style>"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#0969da"/></marker></defs>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    )
    return "\n".join([head, *_way(), *_bands(found), "</svg>"]) + "\n"


def _way() -> Iterator[str]:
    yield _text(20, 26, "From plan to closed; the journal keeps every fact on the way", "title")
    for at, (name, does) in enumerate(WAY):
        left = 20 + at * STEP
        yield _box(left, 42, STEP - 16, name, "way")
        yield _text(left, 90, does, "small", STEP - 8)
        if at:
            yield f'<path class="arrow" d="M{left - 16} 56H{left}"/>'


def _bands(found: list[Room]) -> Iterator[str]:
    yield _text(20, TOP - 16, "Layers: a room imports only from rooms below it", "title")
    for layer in range(1, max(room.layer for room in found) + 1):
        top = TOP + (layer - 1) * BAND
        here = [room for room in found if room.layer == layer]
        yield f'<rect class="band" x="20" y="{top}" width="{WIDTH - 40}" height="{BAND - 6}" rx="4"/>'
        yield _text(32, top + 25, str(layer), "small")
        for at, room in enumerate(here):
            kind = "way" if room.name in ON_THE_WAY else "room"
            yield _box(56 + at * ROOM, top + 6, ROOM - 12, room.name, kind)


def _box(left: int, top: int, width: int, name: str, kind: str) -> str:
    box = f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="28" rx="4"/>'
    middle = left + width // 2
    return f'{box}<text x="{middle}" y="{top + 19}" text-anchor="middle">{escape(name)}</text>'


def _text(left: int, top: int, words: str, kind: str, width: int = 0) -> str:
    """A line, or several where it is wider than it may be."""
    lines = [words] if not width or len(words) * 6 <= width else words.split(" ", 1)
    rows = "".join(
        f'<tspan x="{left}" dy="{14 * (at > 0)}">{escape(row)}</tspan>' for at, row in enumerate(lines)
    )
    return f'<text class="{kind}" x="{left}" y="{top}">{rows}</text>'


def main() -> int:
    parser = argparse.ArgumentParser(description="Describe the rooms of the source.")
    parser.add_argument("--write", action="store_true", help="renew the pages and the picture")
    found = rooms()
    if parser.parse_args().write:
        architecture_page.put(BLOCK, table(found, 2))
        architecture_page.put(BLOCK, table(found, 1), GUIDE)
        PICTURE.write_text(picture(found), encoding="utf-8")
    print(table(found, 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

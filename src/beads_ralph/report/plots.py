"""Parts of web pages that need nothing else: the page itself, tables, small plots as inline SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, Final, NamedTuple

# No request leaves a page, and no script runs in it, even if a record smuggled one in.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
ROW: Final = 34
BAR: Final = 12
LONGEST_LABEL: Final = 34
COLUMNS: Final = 150
FEW: Final = 6
"""Fewer columns than this do not fill the width."""
LEFT: Final = 12.0
"""Where columns begin, in per cent; the scale stands before them."""


class PlotTable(NamedTuple):
    """The same figures in words, for whoever cannot see a plot."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Piece(NamedTuple):
    """A part of a row's bar: from where to where, in shares of the whole."""

    start: float
    end: float
    kind: str
    said: str


def text(value: Any) -> str:
    """Safe inside a page, whatever a record holds."""
    shown = "".join(char if char.isprintable() else " " for char in str(value))
    return escape(shown.encode("utf-8", "replace").decode("utf-8"))


def block(value: str) -> str:
    """The same, line by line, for a text whose lines matter."""
    return "\n".join(text(line) for line in value.splitlines())


def page(title: str, style: Sequence[str], body: Iterable[str]) -> str:
    """A whole page; `style` names the files that its looks are in."""
    folder = resources.files(__package__ or "")
    looks = "".join(folder.joinpath(name).read_text("utf-8") for name in style)
    head = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{text(title)}</title>",
        f"<style>{looks}</style></head><body><main>",
    ]
    return "\n".join([*head, *body, "</main></body></html>"]) + "\n"


def key_figures(figures: Mapping[str, str]) -> str:
    cells = (f"<div><b>{text(value)}</b><span>{text(name)}</span></div>" for name, value in figures.items())
    return f'<div class="figures">{"".join(cells)}</div>'


def figure(name: str, title: str, said: str, drawn: Iterable[str], table: PlotTable) -> Iterator[str]:
    """A plot with its title, what it shows in a sentence, and its figures as a table."""
    yield f'<figure id="{name}"><h2>{text(title)}</h2><p>{text(said)}</p>'
    yield from drawn
    yield "<details><summary>As a table</summary>"
    yield from table_of(table, title)
    yield "</details></figure>"


def table_of(table: PlotTable, caption: str = "") -> Iterator[str]:
    yield f'<div class="table" tabindex="0"><table><caption>{text(caption)}</caption><thead><tr>'
    yield "".join(f'<th scope="col">{text(head)}</th>' for head in table.heads)
    yield "</tr></thead><tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>"
    yield "</tbody></table></div>"


def key(kinds: Mapping[str, str]) -> str:
    cells = (f'<span><i class="{kind}"></i>{text(name)}</span>' for kind, name in kinds.items())
    return f'<p class="key">{"".join(cells)}</p>'


def _svg(title: str, height: float) -> str:
    return f'<svg role="img" height="{height:g}" aria-label="{text(title)}"><title>{text(title)}</title>'


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def cut(words: str, longest: int = LONGEST_LABEL) -> str:
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


# --- rows -------------------------------------------------------------------------------------------


def rows(
    title: str, drawn: Sequence[tuple[str, str, Sequence[Piece]]], foot: Sequence[str] = ()
) -> Iterator[str]:
    """Bars that lie below their labels: label, figure, pieces. `foot` is spread below all of them."""
    yield _svg(title, len(drawn) * ROW + (20 if foot else 2))
    for at, (label, figure_, pieces) in enumerate(drawn):
        top = at * ROW
        yield f'<text x="0" y="{top + 13}">{text(cut(label))}<title>{text(label)}</title></text>'
        yield f'<text class="dim" x="100%" y="{top + 13}" text-anchor="end">{text(figure_)}</text>'
        yield f'<rect class="track" x="0" y="{top + 18}" width="100%" height="{BAR}" rx="3"/>'
        for piece in pieces:
            left = 100 * min(max(piece.start, 0.0), 1.0)
            width = max(100 * min(piece.end, 1.0) - left, 0.6)
            yield (
                f'<rect class="{piece.kind}" x="{min(left, 99.4):.2f}%" y="{top + 18}" width="{width:.2f}%" '
                f'height="{BAR}" rx="2"><title>{text(piece.said)}</title></rect>'
            )
    yield from _foot(foot, len(drawn) * ROW + 14)
    yield "</svg>"


def _foot(words: Sequence[str], y: float, left: float = 0.0, right: float = 100.0) -> Iterator[str]:
    last = len(words) - 1
    for at, word in enumerate(words):
        anchor = "start" if at == 0 else "end" if at == last else "middle"
        x = left + (right - left) * at / max(last, 1)
        yield f'<text class="dim" x="{x:.1f}%" y="{y}" text-anchor="{anchor}">{text(word)}</text>'


def lengths(counts: Sequence[tuple[str, int]], kind: str = "bar") -> list[tuple[str, str, list[Piece]]]:
    """Counts as rows, the largest as long as the plot is wide."""
    most = max((count for _, count in counts), default=0) or 1
    return [
        (name, str(count), [Piece(0.0, count / most, kind, f"{name}: {count}")] if count else [])
        for name, count in counts
    ]


# --- columns ----------------------------------------------------------------------------------------


def columns(
    title: str,
    stacks: Sequence[tuple[str, Mapping[str, float]]],
    foot: Sequence[str],
    written: Callable[[float], str] = "{:g}".format,
) -> Iterator[str]:
    """Stacked columns from left to right."""
    yield _svg(title, COLUMNS + 30)
    most = max((sum(parts.values()) for _, parts in stacks), default=0) or 1
    half = most // 2 if isinstance(most, int) else most / 2  # of counts the marks are whole, too
    for share in sorted({0.0, half / most, 1.0}):
        y = 8 + COLUMNS * (1 - share)
        yield f'<line class="grid" x1="{LEFT}%" x2="100%" y1="{y:g}" y2="{y:g}"/>'
        mark = text(written(most * share))
        yield f'<text class="dim" x="{LEFT - 2}%" y="{y + 4:g}" text-anchor="end">{mark}</text>'
    each = (100 - LEFT) / max(len(stacks), FEW)
    for at, (label, parts) in enumerate(stacks):
        bottom = 8.0 + COLUMNS
        for kind, count in parts.items():
            tall = COLUMNS * count / most
            bottom -= tall
            if count:
                yield (
                    f'<rect class="{kind}" x="{LEFT + (at + 0.1) * each:.2f}%" y="{bottom:.2f}" '
                    f'width="{0.8 * each:.2f}%" height="{tall:.2f}">'
                    f"<title>{text(f'{label}: {written(count)} {kind}')}</title></rect>"
                )
    yield from _foot(foot, COLUMNS + 26, LEFT, LEFT + each * len(stacks))
    yield "</svg>"

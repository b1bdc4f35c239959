"""CommonMark → headings, labelled fields and prose, by line; knows markdown, knows no sprints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

MAX_NESTING: Final = 100
LABEL_LEVEL: Final = 4  # `#### Tasks` says the same as `**Tasks**:`
LABEL_LINE: Final = re.compile(r"\*\*[^*\n]+(?:\*\*[ \t]*:|:[ \t]*\*\*)")
CHECKBOX: Final = re.compile(r"^\[[ xX]\](?:\s+|$)")


@dataclass(frozen=True)
class CodeText:
    """A code span inside a line, or a fenced block."""

    text: str
    line: int
    fenced: bool = False


@dataclass(frozen=True)
class ListItem:
    """A list item: its own text, and its sub-bullets folded in below it."""

    text: str
    line: int
    codes: tuple[CodeText, ...] = ()
    struck: bool = False
    opens_with_code: bool = False


@dataclass
class Field:
    """`**Label**: value` and the lists and fences that follow it."""

    label: str
    line: int
    text: str = ""
    codes: list[CodeText] = field(default_factory=list)
    items: list[ListItem] = field(default_factory=list)
    fences: list[CodeText] = field(default_factory=list)
    rest: list[ListItem] = field(default_factory=list)  # the next lines, where the value ends in a comma
    opens_with_code: bool = False

    @property
    def goes_on(self) -> bool:
        return (self.rest[-1].text if self.rest else self.text).endswith(",")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    line: int
    struck: bool = False


@dataclass(frozen=True)
class Prose:
    """Text that belongs to no label: a paragraph, or what stands in a list, a quotation or a fence."""

    text: str
    line: int
    paragraph: bool = False


@dataclass(frozen=True)
class Comment:
    text: str
    line: int


@dataclass(frozen=True)
class FrontMatter:
    text: str
    line: int


Block = FrontMatter | Heading | Field | Prose | Comment


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING})
    parser.enable("strikethrough")
    parser.disable("lheading")  # in a plan a `---` below a line of text is a rule, never a heading
    parser.block.ruler.before("paragraph", "label", _label_ends_item, {"alt": ["paragraph"]})
    parser.block.ruler.before("paragraph", "quoted_label", _label_ends_quote, {"alt": ["blockquote"]})
    return parser.use(front_matter_plugin)


def _label_ends_item(state: StateBlock, line: int, _end: int, silent: bool) -> bool:
    """`**Branch**: x` right below a bullet, not indented, is a line of the sprint's own.

    CommonMark would take it for the lazy continuation of the bullet's text.
    """
    return silent and state.sCount[line] < state.blkIndent and _is_label_line(state, line)


def _label_ends_quote(state: StateBlock, line: int, _end: int, silent: bool) -> bool:
    return silent and _is_label_line(state, line)


def _is_label_line(state: StateBlock, line: int) -> bool:
    start = state.bMarks[line] + state.tShift[line]
    return LABEL_LINE.match(state.src, start, state.eMarks[line]) is not None


def blocks(text: str) -> list[Block]:
    """The document's blocks in order; lists and fences belong to the field above them."""
    return list(_Reader(_parser().parse(text)).read())


@dataclass(frozen=True)
class _Line:
    """One source line of a paragraph."""

    tokens: list[Token]
    line: int

    @property
    def text(self) -> str:
        return plain(self.tokens).strip()


class _Reader:
    """Walks the top-level tokens once."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.field: Field | None = None

    def read(self) -> Iterator[Block]:
        for token, inside in _parts(self.tokens):
            yield from self._block(token, inside)

    def _block(self, token: Token, inside: list[Token]) -> Iterator[Block]:
        line = _line_of(token)
        if token.type == "front_matter":
            yield FrontMatter(token.content, line + 1)
        elif token.type == "heading_open":
            yield from self._heading(token, inside[0], line)
        elif token.type == "paragraph_open":
            yield from self._paragraph(inside[0], line)
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            yield from self._list(inside, line)
        elif token.type in ("fence", "code_block"):
            yield from self._fence(token, line)
        elif token.type == "html_block":
            yield Comment(token.content.strip(), line)
        else:  # a rule or a quotation: whatever follows belongs to no label
            self.field = None
            text = "\n".join(plain(inner.children or []) for inner in inside if inner.type == "inline")
            yield from [Prose(text, line)] if text else []

    def _heading(self, token: Token, inline: Token, line: int) -> Iterator[Block]:
        children = inline.children or []
        heading = Heading(int(token.tag[1:]), plain(children).strip(), line, _struck(children))
        yield heading
        self.field = None
        if heading.level >= LABEL_LEVEL:
            self.field = Field(heading.text.rstrip(":").strip(), line)
            yield self.field

    def _paragraph(self, inline: Token, line: int) -> Iterator[Block]:
        self.field = None  # prose between a label and a list ends the label's reach
        prose: list[_Line] = []
        for row in _lines(inline, line):
            label = _label(row)
            if label is not None:
                yield from _prose(prose)
                prose = []
                self.field = _field(label, row)
                yield self.field
            elif not prose and self.field is not None and self.field.goes_on:
                self.field.rest.append(ListItem(row.text, row.line, tuple(_codes(row.tokens, row.line))))
            else:
                prose.append(row)
        if prose:
            self.field = None
        yield from _prose(prose)

    def _list(self, inside: list[Token], line: int) -> Iterator[Block]:
        items = list(_items(inside))
        if self.field is not None:
            self.field.items.extend(items)
        else:
            yield Prose("\n".join(f"- {item.text}" for item in items if not item.struck), line)

    def _fence(self, token: Token, line: int) -> Iterator[Block]:
        first = line + 1 if token.type == "fence" else line
        if self.field is not None:
            self.field.fences.append(CodeText(token.content, first, fenced=True))
        else:
            yield Prose(token.content.rstrip("\n"), line)


def _parts(tokens: list[Token]) -> Iterator[tuple[Token, list[Token]]]:
    """The blocks side by side: the token that opens each, and what stands before the one that closes it."""
    start = depth = 0
    for at, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            yield tokens[start], tokens[start + 1 : at]
            start = at + 1


def _line_of(token: Token) -> int:
    return (token.map[0] if token.map else 0) + 1


def _lines(inline: Token, first: int) -> Iterator[_Line]:
    """An inline token's children, split where the source had line breaks."""
    row: list[Token] = []
    start = first
    for child, number in _numbered(inline, first):
        if child.type in ("softbreak", "hardbreak"):
            yield _Line(row, start)
            row, start = [], number + 1
        else:
            row.append(child)
    yield _Line(row, start)


def _numbered(inline: Token, line: int) -> Iterator[tuple[Token, int]]:
    """The children, each with the source line it begins on; code spans and tags may hold line breaks."""
    source, at = inline.content, 0
    for child in inline.children or []:
        yield child, line
        if child.type in ("softbreak", "hardbreak"):
            line, at = line + 1, source.find("\n", at) + 1
        elif child.type == "html_inline":
            line, at = line + child.content.count("\n"), source.find(child.content, at) + len(child.content)
        elif child.type == "code_inline" and "\n" in source:
            spelled = re.escape(child.content).replace("\\ ", r"[ \n]")
            found = re.compile(rf"{child.markup}\s?{spelled}\s?{child.markup}").search(source, at)
            if found is not None:
                line, at = line + found[0].count("\n"), found.end()


def _label(row: _Line) -> str | None:
    """The label of `**Label**:` or `**Label:**`, None where the line does not begin with one."""
    tokens = [token for token in row.tokens if token.content or token.type != "text"]
    close = next((at for at, token in enumerate(tokens) if token.type == "strong_close"), 0)
    if close < 2 or tokens[0].type != "strong_open":  # noqa: PLR2004 - open, text, close
        return None
    label = plain(tokens[1:close]).strip()
    behind = plain(tokens[close + 1 :]).lstrip()
    if label.endswith(":"):
        return label[:-1].strip()
    return label if behind.startswith(":") else None


def _field(label: str, row: _Line) -> Field:
    """The value behind the label: its text without the colon, and its code spans."""
    close = next(at for at, token in enumerate(row.tokens) if token.type == "strong_close")
    value = row.tokens[close + 1 :]
    text = plain(value).strip().removeprefix(":").strip()
    opens = _opens_with_code(value)
    return Field(label, row.line, text, list(_codes(value, row.line)), opens_with_code=opens)


def _opens_with_code(tokens: Iterable[Token]) -> bool:
    first = next((token for token in tokens if token.content.strip(" :") or token.type != "text"), None)
    return first is not None and first.type == "code_inline"


def _prose(rows: list[_Line]) -> Iterator[Prose]:
    text = "\n".join(row.text for row in rows).strip()
    if text:
        yield Prose(text, rows[0].line, paragraph=True)


def _items(inside: list[Token]) -> Iterator[ListItem]:
    """The items of a list; `inside` is what stands between its opening and its closing token."""
    return (_item(token, content) for token, content in _parts(inside))


def _item(token: Token, inside: list[Token]) -> ListItem:
    parts = [_item_part(inner, content) for inner, content in _parts(inside)]
    joined = CHECKBOX.sub("", "\n".join(text for text, _ in parts if text)).strip()
    codes = tuple(code for _, found in parts for code in found)
    own = (inside[1].children or []) if inside and inside[0].type == "paragraph_open" else []
    return ListItem(joined, _line_of(token), codes, _all_struck(own), _opens_with_code(own))


def _item_part(token: Token, inside: list[Token]) -> tuple[str, list[CodeText]]:
    """A paragraph, a nested list or a fence of an item, as text."""
    line = _line_of(token)
    if token.type in ("paragraph_open", "heading_open"):
        kept = _unstruck(_numbered(inside[0], line))
        hashes = token.markup + " " if token.markup.startswith("#") else ""  # `- # of rows` is a task too
        text = hashes + plain((child for child, _ in kept), between=" ", links=True)
        return text, [CodeText(child.content, at) for child, at in kept if child.type == "code_inline"]
    if token.type in ("bullet_list_open", "ordered_list_open"):
        return "\n".join(_indented(item) for item in _items(inside) if not item.struck), []
    if token.type == "blockquote_open":
        quoted = _item(token, inside)
        return quoted.text, list(quoted.codes)
    if token.type == "html_block" and not token.content.lstrip().startswith("<!--"):
        return token.content.strip(), []
    if token.type in ("fence", "code_block"):
        first = line + (token.type == "fence")
        return token.content.rstrip("\n"), [CodeText(token.content, first, fenced=True)]
    return "", []


def _indented(item: ListItem) -> str:
    first, *rest = item.text.split("\n")
    return "\n".join([f"- {first}", *(f"  {line}" for line in rest)])


def _codes(tokens: Iterable[Token], line: int) -> Iterator[CodeText]:
    return (CodeText(token.content, line) for token in tokens if token.type == "code_inline")


def _struck(children: list[Token]) -> bool:
    """A heading counts as struck out when its first words are."""
    visible = (token.type for token in children if token.type != "text" or token.content.strip())
    return next(visible, "") == "s_open"


def _all_struck(children: list[Token]) -> bool:
    """An item is struck out when nothing but its checkbox is left."""
    if not any(token.type == "s_open" for token in children):
        return False
    left = plain(token for token, _ in _unstruck((token, 0) for token in children))
    return not CHECKBOX.sub("", left.strip())


def _unstruck(children: Iterable[tuple[Token, int]]) -> list[tuple[Token, int]]:
    kept, depth = [], 0
    for token, line in children:
        depth += token.nesting if token.type in ("s_open", "s_close") else 0
        if depth == 0 and token.type != "s_close":
            kept.append((token, line))
    return kept


def plain(tokens: Iterable[Token], between: str = "\n", *, links: bool = False) -> str:
    """The text a reader sees: no back-ticks and no stars.

    Underscores stay, since `__init__.py` is a name far more often than it is emphasis; link targets
    stay where asked for, since an agent cannot click.
    """
    parts: list[str] = []
    targets: list[str] = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            parts.append(between)
        elif token.type in ("text", "code_inline", "image", "html_inline"):
            parts.append("" if token.content.startswith("<!--") else token.content)
        elif token.markup.startswith("_"):
            parts.append(token.markup)
        elif links and token.type == "link_open" and token.info != "auto":
            targets.append(str(token.attrs.get("href", "")))
        elif links and token.type == "link_close" and targets:
            parts.append(f" ({targets.pop()})")
    return "".join(parts)

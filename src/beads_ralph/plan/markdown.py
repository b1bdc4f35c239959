"""CommonMark → headings, labelled fields and prose, by line; knows markdown, knows no sprints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

from beads_ralph.plan.blocks import (
    Block,
    CodeText,
    Comment,
    Field,
    FrontMatter,
    Heading,
    ListItem,
    NearLabel,
    Prose,
    TooDeep,
)
from beads_ralph.plan.inline import (
    CHECKBOX,
    all_struck,
    begins_struck,
    numbered,
    opens_with_code,
    plain,
    unstruck,
    wording,
)

MAX_NESTING: Final = 100
LABEL_LEVEL: Final = 4  # `#### Tasks` says the same as `**Tasks**:`
REMARK: Final = r"(?:\([^()\n]*\)[ \t]*)?"  # as in `**Tasks** (3 days):`
LABEL_LINE: Final = re.compile(rf"\*\*[^*\n]+(?:\*\*[ \t]*{REMARK}:|:[ \t]*\*\*)")
BOLD_LINE: Final = re.compile(rf"\*\*([^*\n]+)\*\*[ \t]*{REMARK}$")
COLON: Final = re.compile(rf"{REMARK}:")
NO_COLON: Final = re.compile(rf"{REMARK}$")
WORDS_COLON: Final = re.compile(rf"([A-Z][A-Za-z ]*?)[ \t]*{REMARK}:[ \t]*(\S?)")

LabelKind = Literal["value", "list"]
Kinds = Callable[[str], LabelKind | None]
"""The kind of a label that the caller knows: one value, or bullets; None for a label of the author's own. A
known one is understood in looser forms, too."""


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
    start, end = state.bMarks[line] + state.tShift[line], state.eMarks[line]
    if LABEL_LINE.match(state.src, start, end):
        return True
    bold = BOLD_LINE.match(state.src, start, end)
    return bold is not None and state.env["kinds"](bold[1]) is not None


def read(text: str, kinds: Kinds = lambda _: None) -> list[Block]:
    """The document's blocks in order; lists and fences belong to the field above them."""
    return list(_Reader(_parser().parse(text, {"kinds": kinds}), kinds).read())


@dataclass(frozen=True)
class _Line:
    """One source line of a paragraph."""

    tokens: list[Token]
    line: int

    @property
    def text(self) -> str:
        return plain(self.tokens).strip()

    @property
    def wording(self) -> str:
        return wording(self.tokens).strip()


class _Reader:
    """Walks the top-level tokens once."""

    def __init__(self, tokens: list[Token], kinds: Kinds) -> None:
        self.tokens = tokens
        self.kinds = kinds
        self.field: Field | None = None
        self.awaited = False
        """True where the field's bullets are still to come."""
        self.group = ""
        """The heading inside the field, such as `##### Backend`."""

    def read(self) -> Iterator[Block]:
        deep = next((token for token in self.tokens if token.level >= MAX_NESTING - 1 and token.map), None)
        if deep is not None:
            yield TooDeep(_line_of(deep))
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
            self._open(None)
            text = "\n".join(wording(inner.children or []) for inner in inside if inner.type == "inline")
            yield from [Prose(text, line)] if text else []

    def _heading(self, token: Token, inline: Token, line: int) -> Iterator[Block]:
        children = inline.children or []
        heading = Heading(int(token.tag[1:]), plain(children).strip(), line, begins_struck(children))
        yield heading
        label = heading.text.rstrip(":").strip()
        if heading.level > LABEL_LEVEL and (self.awaited or self.group) and self.kinds(label) is None:
            self.group, self.awaited = label, True
            return
        self._open(None)
        if heading.level >= LABEL_LEVEL:
            self._open(Field(label, line))
            yield from [self.field] if self.field else []

    def _open(self, entry: Field | None) -> None:
        self.field, self.group = entry, ""
        self.awaited = entry is not None and not entry.text and self.kinds(entry.label) == "list"

    def _paragraph(self, inline: Token, line: int) -> Iterator[Block]:
        if not self.awaited:  # prose between a label's bullets and a list ends the label's reach
            self._open(None)
        prose: list[_Line] = []
        for row in _lines(inline, line):
            entry = _field(row, self.kinds)
            if entry is not None:
                yield from _prose(prose)
                prose = []
                self._open(entry)
                yield entry
            elif not prose and self.field is not None and self.field.goes_on:
                codes = tuple(_codes(row.tokens, row.line))
                self.field.rest.append(ListItem(row.text, row.line, row.wording, codes))
            else:
                yield from _near_label(row, self.kinds)
                prose.append(row)
        if prose and not self.awaited:
            self._open(None)
        yield from _prose(prose)

    def _list(self, inside: list[Token], line: int) -> Iterator[Block]:
        items = list(_items(inside))
        if self.field is not None:
            self.field.items.extend(replace(item, group=self.group) for item in items)
            self.awaited = False
        else:
            yield Prose("\n".join(f"- {item.wording}" for item in items if not item.struck), line)

    def _fence(self, token: Token, line: int) -> Iterator[Block]:
        first = line + 1 if token.type == "fence" else line
        if self.field is not None:
            self.field.fences.append(CodeText(token.content, first, fenced=True))
            self.awaited = False
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
    for child, number in numbered(inline, first):
        if child.type in ("softbreak", "hardbreak"):
            yield _Line(row, start)
            row, start = [], number + 1
        else:
            row.append(child)
    yield _Line(row, start)


def _field(row: _Line, kinds: Kinds) -> Field | None:
    """The label that the line begins with, and the value behind it."""
    tokens = [token for token in row.tokens if token.content or token.type != "text"]
    kind = tokens[0].type if tokens else ""
    close = next((at for at, token in enumerate(tokens) if token.type in ("strong_close", "em_close")), 0)
    if kind in ("strong_open", "em_open") and close > 1:
        return _marked(row, tokens[1:close], tokens[close + 1 :], kinds, strong=kind == "strong_open")
    words = WORDS_COLON.fullmatch(row.text)
    if words is None or words[2] or kinds(words[1]) != "list":
        return None
    return Field(words[1], row.line, loose=True)


def _marked(
    row: _Line, inside: Sequence[Token], value: Sequence[Token], kinds: Kinds, *, strong: bool
) -> Field | None:
    """`**Label**:` and `**Label:**`; of a known label also `*Label*:`, `**Label** (remark):`, `**Label**`."""
    label, behind = plain(inside).strip(), plain(value).strip()
    inner = label.endswith(":")
    label = label[:-1].strip() if inner else label
    colon = None if inner else COLON.match(behind)
    strict = strong and (inner or behind.startswith(":"))
    if not strict and not (kinds(label) and (inner or colon or (strong and NO_COLON.match(behind)))):
        return None
    text, said = (_after_colon(words, inner=inner) for words in (behind, wording(value).strip()))
    opens = opens_with_code(value)
    codes = list(_codes(value, row.line))
    return Field(label, row.line, text, codes, opens_with_code=opens, wording=said, loose=not strict)


def _after_colon(text: str, *, inner: bool) -> str:
    if inner:
        return text.removeprefix(":").strip()
    found = COLON.match(text) or NO_COLON.match(text)
    return text[found.end() :].strip() if found else text


def _near_label(row: _Line, kinds: Kinds) -> Iterator[NearLabel]:
    """`Branch: x` and `**Branch** x` are prose, but hardly meant to be."""
    bold = re.match(r"\*\*([^*]+)\*\*\s+\S", "".join(_bold_source(row.tokens)))
    words = WORDS_COLON.match(row.text)
    label = bold[1] if bold else words[1] if words and words[2] else ""
    if label and kinds(label):
        yield NearLabel(label, row.text, row.line)


def _bold_source(tokens: Iterable[Token]) -> Iterator[str]:
    return (token.markup if token.type.startswith("strong_") else token.content for token in tokens)


def _prose(rows: list[_Line]) -> Iterator[Prose]:
    text = "\n".join(row.wording for row in rows).strip()
    if text:
        yield Prose(text, rows[0].line, paragraph=True)


def _items(inside: list[Token]) -> Iterator[ListItem]:
    """The items of a list; `inside` is what stands between its opening and its closing token."""
    return (_item(token, content) for token, content in _parts(inside))


def _item(token: Token, inside: list[Token]) -> ListItem:
    parts = [_item_part(inner, content) for inner, content in _parts(inside)]
    text, said = (
        CHECKBOX.sub("", "\n".join(words for words in column if words)).strip()
        for column in ([part[0] for part in parts], [part[1] for part in parts])
    )
    codes = tuple(code for _, _, found in parts for code in found)
    own = (inside[1].children or []) if inside and inside[0].type == "paragraph_open" else []
    return ListItem(text, _line_of(token), said, codes, all_struck(own), opens_with_code(own))


def _item_part(token: Token, inside: list[Token]) -> tuple[str, str, list[CodeText]]:
    """A paragraph, a nested list or a fence of an item: its text, its wording, its code."""
    line = _line_of(token)
    if token.type in ("paragraph_open", "heading_open"):
        kept = unstruck(numbered(inside[0], line))
        hashes = token.markup + " " if token.markup.startswith("#") else ""  # `- # of rows` is a task too
        text, said = (hashes + form((child for child, _ in kept), " ") for form in (plain, wording))
        return text, said, [CodeText(child.content, at) for child, at in kept if child.type == "code_inline"]
    if token.type in ("bullet_list_open", "ordered_list_open"):
        items = [item for item in _items(inside) if not item.struck]
        text = "\n".join(_indented(item.text) for item in items)
        return text, "\n".join(_indented(item.wording) for item in items), []
    if token.type == "blockquote_open":
        quoted = _item(token, inside)
        return quoted.text, quoted.wording, list(quoted.codes)
    if token.type == "html_block" and not token.content.lstrip().startswith("<!--"):
        return token.content.strip(), token.content.strip(), []
    if token.type in ("fence", "code_block"):
        first = line + (token.type == "fence")
        text = token.content.rstrip("\n")
        return text, text, [CodeText(token.content, first, fenced=True)]
    return "", "", []


def _indented(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"- {first}", *(f"  {line}" for line in rest)])


def _codes(tokens: Iterable[Token], line: int) -> Iterator[CodeText]:
    return (CodeText(token.content, line) for token in tokens if token.type == "code_inline")

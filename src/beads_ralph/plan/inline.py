"""The text inside a paragraph: as a reader sees it, and as a prompt repeats it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from markdown_it.token import Token

CHECKBOX: Final = re.compile(r"^\[[ xX]\](?:\s+|$)")
BREAKS: Final = ("softbreak", "hardbreak")
OPENS: Final = ("em_open", "strong_open")
CLOSES: Final = ("em_close", "strong_close")
BEFORE_WORD: Final = re.compile(r"$|[\s(\[{\"'«\u2018\u201c:,;>|\u2013\u2014-]")
BEHIND_WORD: Final = re.compile(r"$|[\s)\]}\"'»\u2019\u201d:,;!?<|\u2013\u2014-]|\.(?:\s|$)")


def plain(tokens: Iterable[Token], between: str = "\n") -> str:
    """The text a reader sees: no back-ticks, and no stars around words.

    Underscores stay, since `__init__.py` is a name far more often than it is emphasis; so do stars
    inside a word, as in `2*3*4` and `src/*.py,tests/*.py`.
    """
    found = list(tokens)
    if len(found) == 1 and found[0].type == "text":
        return found[0].content
    return "".join(_parts(found, between, as_prompt=False))


def wording(tokens: Iterable[Token], between: str = "\n") -> str:
    """The same for an agent, who cannot click: links and images keep their targets, and code of several
    words its back-ticks, since nothing else says where it ends."""
    found = list(tokens)
    if len(found) == 1 and found[0].type == "text":
        return found[0].content
    return "".join(_parts(found, between, as_prompt=True))


def _parts(tokens: Sequence[Token], between: str, *, as_prompt: bool) -> Iterator[str]:
    literal = _stars_inside_words(tokens)
    targets: list[str] = []
    for at, token in enumerate(tokens):
        if token.type in BREAKS:
            yield between
        elif as_prompt and token.type == "code_inline" and re.search(r"\s", token.content):
            yield _code_span(token)
        elif as_prompt and token.type == "image":
            yield _with_target(token.content, str(token.attrs.get("src", "")))
        elif token.type in ("text", "code_inline", "image", "html_inline"):
            yield "" if token.content.startswith("<!--") else token.content
        elif token.markup.startswith("_") or at in literal:
            yield token.markup
        elif as_prompt and token.type == "link_open" and token.info != "auto":
            targets.append(str(token.attrs.get("href", "")))
        elif token.type == "link_close" and targets:
            yield f" ({targets.pop()})"


def _code_span(token: Token) -> str:
    pad = " " if token.content.startswith("`") or token.content.endswith("`") else ""
    return f"{token.markup}{pad}{token.content}{pad}{token.markup}"


def _with_target(text: str, target: str) -> str:
    return f"{text} ({target})" if text else target


def _stars_inside_words(tokens: Sequence[Token]) -> set[int]:
    """The stars that CommonMark takes for emphasis although they stand inside a word or a pattern."""
    found: set[int] = set()
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.type in OPENS:
            opened.append(at)
        elif token.type in CLOSES and opened:
            start = opened.pop()
            before = _neighbour(reversed(tokens[max(0, start - 8) : start]))[-1:]
            behind = _neighbour(tokens[at + 1 : at + 9])[:2]
            if not (BEFORE_WORD.match(before) and BEHIND_WORD.match(behind)):
                found |= {start, at}
    return found


def _neighbour(tokens: Iterable[Token]) -> str:
    """The text of the nearest token that has one; a line break is a blank."""
    for token in tokens:
        if token.type in BREAKS:
            return " "
        if token.content:
            return token.content
    return ""


def numbered(inline: Token, line: int) -> Iterator[tuple[Token, int]]:
    """The children, each with the source line it begins on; code spans and tags may hold line breaks."""
    source, at = inline.content, 0
    for child in inline.children or []:
        yield child, line
        if child.type in BREAKS:
            line, at = line + 1, source.find("\n", at) + 1
        elif child.type == "html_inline":
            line, at = line + child.content.count("\n"), source.find(child.content, at) + len(child.content)
        elif child.type == "code_inline" and "\n" in source:
            spelled = re.escape(child.content).replace("\\ ", r"[ \n]")
            found = re.compile(rf"{child.markup}\s?{spelled}\s?{child.markup}").search(source, at)
            if found is not None:
                line, at = line + found[0].count("\n"), found.end()


def opens_with_code(tokens: Iterable[Token]) -> bool:
    first = next((token for token in tokens if token.content.strip(" :") or token.type != "text"), None)
    return first is not None and first.type == "code_inline"


# --- struck out -------------------------------------------------------------------------------------


def begins_struck(children: Iterable[Token]) -> bool:
    """A heading counts as struck out when its first words are."""
    visible = (token.type for token in children if token.type != "text" or token.content.strip())
    return next(visible, "") == "s_open"


def all_struck(children: Sequence[Token]) -> bool:
    """An item is struck out when nothing but its checkbox is left."""
    if not any(token.type == "s_open" for token in children):
        return False
    left = plain(token for token, _ in unstruck((token, 0) for token in children))
    return not CHECKBOX.sub("", left.strip())


def unstruck(children: Iterable[tuple[Token, int]]) -> list[tuple[Token, int]]:
    kept, depth = [], 0
    for token, line in children:
        depth += token.nesting if token.type in ("s_open", "s_close") else 0
        if depth == 0 and token.type != "s_close":
            kept.append((token, line))
    return kept

"""Regular expressions as Go writes them, which are those of bd → a tree.

They are the regular ones: no look-around, no backreference. That is what makes it possible to match
every one of them in a time that grows with the text alone.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

MOST_REPEATS: Final = 1000
DEEPEST: Final = 100
LAST_CODE: Final = 0x10FFFF
Test = Callable[[str], bool]


class PatternError(ValueError):
    """A pattern that bd would not take either, in words for its author."""


@dataclass(frozen=True)
class One:
    """One character that passes a test."""

    test: Test


@dataclass(frozen=True)
class Edge:
    """A place between characters: `^` `$` `A` `z` `b` `B`, the first two of lines."""

    kind: str


@dataclass(frozen=True)
class Row:
    """One after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Choice:
    """One of several."""

    options: tuple[Tree, ...]


@dataclass(frozen=True)
class Repeat:
    """As often as that; `most` is None where there is no end."""

    part: Tree
    least: int
    most: int | None


Tree = One | Edge | Row | Choice | Repeat


@dataclass(frozen=True)
class Flags:
    """What `(?ims)` changes; greed makes no difference to whether something matches."""

    fold: bool = False
    lines: bool = False
    dot_all: bool = False


FLAG_NAMES: Final = {"i": "fold", "m": "lines", "s": "dot_all"}
CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
DIGIT: Final = "0123456789"
SPACE: Final = "\t\n\f\r "
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
WORD: Final = frozenset(LETTERS + LETTERS.upper() + DIGIT + "_")
PUNCTUATION: Final = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
PERL: Final = {"d": frozenset(DIGIT), "s": frozenset(SPACE), "w": WORD}
POSIX: Final = {
    "alnum": WORD - {"_"},
    "alpha": frozenset(LETTERS + LETTERS.upper()),
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": frozenset(DIGIT),
    "graph": WORD | frozenset(PUNCTUATION),
    "lower": frozenset(LETTERS),
    "print": WORD | frozenset(PUNCTUATION + " "),
    "punct": frozenset(PUNCTUATION),
    "space": frozenset(SPACE + "\v"),
    "upper": frozenset(LETTERS.upper()),
    "word": WORD,
    "xdigit": frozenset(DIGIT + "abcdefABCDEF"),
}
CATEGORIES: Final = frozenset(
    major + minor
    for major, minors in {
        "C": "cfos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
    }.items()
    for minor in ("", *minors)
) | {"Z", "Zl", "Zp", "Zs"}
"""Of Unicode: \\pL, \\p{Lu}."""


def is_word(char: str) -> bool:
    return char in WORD


def parse(pattern: str) -> Tree:
    """PatternError where it is none."""
    reading = _Reading(pattern)
    tree = reading.choice(Flags(), 0)
    if reading.more():
        raise PatternError("unexpected )")
    return tree


class _Reading:
    """Recursive descent over one pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.names: set[str] = set()

    # --- the text

    def more(self) -> bool:
        return self.at < len(self.text)

    def sees(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def takes(self, word: str) -> bool:
        found = self.sees(word)
        self.at += len(word) if found else 0
        return found

    def next(self, what: str) -> str:
        if not self.more():
            raise PatternError(f"ends in the middle of {what}")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, word: str, what: str) -> str:
        end = self.text.find(word, self.at)
        if end < 0:
            raise PatternError(f"{what} has no end")
        found, self.at = self.text[self.at : end], end + len(word)
        return found

    # --- the grammar

    def choice(self, flags: Flags, depth: int) -> Tree:
        if depth > DEEPEST:
            raise PatternError(f"is nested more than {DEEPEST} levels deep")
        options = []
        while True:
            row, flags = self.row(flags, depth)
            options.append(row)
            if not self.takes("|"):
                return options[0] if len(options) == 1 else Choice(tuple(options))

    def row(self, flags: Flags, depth: int) -> tuple[Tree, Flags]:
        """Up to the next `|` or `)`; flags that it sets hold on behind it."""
        parts: list[Tree] = []
        while self.more() and not (self.sees("|") or self.sees(")")):
            if self.takes("(?"):
                flags, part = self.special(flags, depth)
                found = [] if part is None else [part]
            else:
                found = self.quoted(flags) if self.takes("\\Q") else [self.atom(flags, depth)]
            if found:
                parts += [*found[:-1], self.repeated(found[-1])]
        return Row(tuple(parts)), flags

    def quoted(self, flags: Flags) -> list[Tree]:
        """`\\Q…\\E`: text, whatever it looks like."""
        end = self.text.find("\\E", self.at)
        text = self.text[self.at :] if end < 0 else self.text[self.at : end]
        self.at = len(self.text) if end < 0 else end + 2
        return [_literal(char, flags) for char in text]

    def special(self, flags: Flags, depth: int) -> tuple[Flags, Tree | None]:
        """Behind `(?`: `(?i)` changes what follows, `(?i:…)` is a group of its own, `(?P<name>…)` too."""
        if self.sees("P<") or (self.sees("<") and not self.sees("<=") and not self.sees("<!")):
            self.named()
            return flags, self.group(flags, depth)
        inner, on = flags, True
        while not (self.sees(":") or self.sees(")")):
            letter = self.next("a group")
            if letter == "-" and on:
                on = False
            elif letter in FLAG_NAMES:
                inner = replace(inner, **{FLAG_NAMES[letter]: on})
            elif letter != "U":
                raise PatternError(f"(?{letter} is not part of regular expressions in Go")
        if self.takes(")"):
            return inner, None
        self.at += 1
        return flags, self.group(inner, depth)

    def group(self, flags: Flags, depth: int) -> Tree:
        tree = self.choice(flags, depth + 1)
        if not self.takes(")"):
            raise PatternError("a ( is not closed")
        return tree

    def atom(self, flags: Flags, depth: int) -> Tree:
        if self.often() is not None:
            raise PatternError("there is nothing to repeat before a repetition")
        char = self.next("a pattern")
        if char == "(":
            return self.group(flags, depth)
        if char == "[":
            return One(self.char_class(flags))
        if char == "\\":
            return self.escape(flags)
        return _sign(char, flags) or _literal(char, flags)

    def named(self) -> None:
        if not self.takes("P<"):
            self.takes("<")
        name = self.until(">", "the name of a group")
        if not name.isascii() or not name.isidentifier() or name in self.names:
            raise PatternError(f"{name!r} is no name for a group")
        self.names.add(name)

    # --- repetitions

    def repeated(self, part: Tree) -> Tree:
        often = self.often()
        if often is None:
            return part
        self.takes("?")
        if self.often() is not None:
            raise PatternError("repeats a repetition; put it into parentheses")
        return Repeat(part, *often)

    def often(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.takes(sign):
                return bounds
        return self.counted() if self.sees("{") else None

    def counted(self) -> tuple[int, int | None] | None:
        """`{2}`, `{2,}`, `{2,5}`; anything else in braces is text."""
        end = self.text.find("}", self.at)
        inside = self.text[self.at + 1 : end] if end > 0 else ""
        least, comma, most = inside.partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            return None
        self.at = end + 1
        low = int(least)
        high = low if not comma else int(most) if most else None
        if max(low, high or 0) > MOST_REPEATS or (high is not None and high < low):
            raise PatternError(f"{{{inside}}} is no count up to {MOST_REPEATS}")
        return low, high

    # --- characters

    def escape(self, flags: Flags) -> Tree:
        for letter in "AzbB":
            if self.takes(letter):
                return Edge(letter)
        test = self.shorthand()
        return _one(test, flags) if test is not None else _literal(self.code(), flags)

    def shorthand(self) -> Test | None:
        """`\\d`, `\\W`, `\\pL`, `\\P{Lu}`: behind the backslash."""
        for letter, members in PERL.items():
            if self.takes(letter):
                return members.__contains__
            if self.takes(letter.upper()):
                return _negated(members.__contains__)
        for letter in "pP":
            if self.takes(letter):
                return self.category(negated=letter == "P")
        return None

    def category(self, *, negated: bool) -> Test:
        name = self.until("}", "\\p{") if self.takes("{") else self.next("\\p")
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name == "Any":
            return lambda _: not negated
        if name not in CATEGORIES:
            raise PatternError(f"\\p{{{name}}} is not known here; use a category such as \\p{{Lu}}")
        return lambda char: unicodedata.category(char).startswith(name) is not negated

    def code(self) -> str:
        """One escaped character."""
        char = self.next("an escape")
        if char in CONTROLS:
            return CONTROLS[char]
        if char == "x":
            return self.hexadecimal()
        if char in "01234567" and (char == "0" or self.text[self.at : self.at + 1].isdigit()):
            digits = char
            while self.more() and self.text[self.at] in "01234567" and len(digits) < 3:  # noqa: PLR2004
                digits += self.next("an escape")
            return chr(int(digits, 8))
        if char.isascii() and not char.isalnum():
            return char
        raise PatternError(f"\\{char} is not part of regular expressions in Go")

    def hexadecimal(self) -> str:
        digits = self.until("}", "\\x{") if self.takes("{") else self.next("\\x") + self.next("\\x")
        if not digits or len(digits) > 8 or not set(digits) <= POSIX["xdigit"] or int(digits, 16) > LAST_CODE:  # noqa: PLR2004
            raise PatternError(f"\\x{{{digits}}} is no character")
        return chr(int(digits, 16))

    # --- classes

    def char_class(self, flags: Flags) -> Test:
        negated = self.takes("^")
        tests: list[Test] = []
        first = True
        while first or not self.sees("]"):
            first = False
            tests.append(self.class_member())
        self.at += 1
        return _folded(lambda char: any(test(char) for test in tests), flags, negated=negated)

    def class_member(self) -> Test:
        if self.sees("[:") and ":]" in self.text[self.at :]:
            return self.posix()
        if self.takes("\\"):
            test = self.shorthand()
            if test is not None:
                return test
            low = self.code()
        else:
            low = self.next("[…]")
        if not self.sees("-") or self.sees("-]"):
            return low.__eq__
        self.at += 1
        high = self.code() if self.takes("\\") else self.next("[…]")
        if high < low:
            raise PatternError(f"{low}-{high} is no range of characters")
        return lambda char: low <= char <= high

    def posix(self) -> Test:
        self.at += 2
        name = self.until(":]", "[:")
        test = POSIX.get(name.removeprefix("^"))
        if test is None:
            raise PatternError(f"[:{name}:] is not known")
        return _negated(test.__contains__) if name.startswith("^") else test.__contains__


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 8  # noqa: PLR2004 - far beyond any count


def _sign(char: str, flags: Flags) -> Tree | None:
    """What stands for more than itself."""
    if char == ".":
        return One((lambda _: True) if flags.dot_all else (lambda found: found != "\n"))
    edges = {"^": "^" if flags.lines else "A", "$": "$" if flags.lines else "z"}
    return Edge(edges[char]) if char in edges else None


def _negated(test: Test) -> Test:
    return lambda char: not test(char)


def _one(test: Test, flags: Flags) -> One:
    return One(_folded(test, flags, negated=False))


def _literal(wanted: str, flags: Flags) -> One:
    return _one(wanted.__eq__, flags)


def _folded(test: Test, flags: Flags, *, negated: bool) -> Test:
    """Small and capital letters alike, where the flags say so."""
    if not flags.fold:
        return _negated(test) if negated else test
    return lambda char: any(map(test, {char, char.lower(), char.upper()})) is not negated

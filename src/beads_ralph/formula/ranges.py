"""Ranges of loops: `1..3`, `{start}..2^{n}`; whole numbers out of + - * / ^ and parentheses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

NAME: Final = re.compile(r"\{\{([A-Za-z0-9_]+)\}\}|\{([A-Za-z0-9_]+)\}")
TOKEN: Final = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([-+*/^()]))")
MAX_LENGTH: Final = 200
LARGEST: Final = 10**15


class RangeError(ValueError):
    """A range that says nothing, in words for the author."""


def names(text: str) -> list[str]:
    """The variables in a range."""
    return list(dict.fromkeys(found[1] or found[2] for found in NAME.finditer(text)))


def bounds(text: str, values: Mapping[str, str]) -> tuple[int, int]:
    """The first and the last number; RangeError where there is none."""
    if len(text) > MAX_LENGTH:
        raise RangeError(f"is longer than {MAX_LENGTH} characters")
    first, dots, last = text.strip().rpartition("..")
    if not (first.strip() and dots and last.strip()):
        raise RangeError("must be START..END, such as 1..3")
    start, end = (_number(part, values) for part in (first, last))
    if end < start:
        raise RangeError(f"ends ({end}) before it starts ({start})")
    return start, end


def _number(text: str, values: Mapping[str, str]) -> int:
    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in values:
            raise RangeError(f"names {name}, which is no variable")
        return f"({values[name]})"  # so that 2^{n} of a negative number stays what it looks like

    try:
        number = _Expression(NAME.sub(value, text)).value()
    except (OverflowError, ZeroDivisionError, RecursionError):
        raise RangeError("is too large, or divides by zero") from None
    if not math.isfinite(number) or abs(number) > LARGEST:
        raise RangeError("is too large")
    return int(number)


class _Expression:
    """Recursive descent: sums of products of powers, which bind to the right."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            found = TOKEN.match(text, at)
            if found is None:
                raise RangeError(f"cannot have {text[at:].strip()[:1]!r} in it")
            self.tokens.append(found[0].strip())
            at = found.end()

    def value(self) -> float:
        number = self.sum()
        if self.tokens:
            raise RangeError(f"has a {self.tokens[0]!r} too many")
        return number

    def taken(self, *wanted: str) -> str | None:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else None

    def sum(self) -> float:
        number = self.product()
        while sign := self.taken("+", "-"):
            other = self.product()
            number = number + other if sign == "+" else number - other
        return number

    def product(self) -> float:
        number = self.power()
        while sign := self.taken("*", "/"):
            other = self.power()
            number = number * other if sign == "*" else number / other
        return number

    def power(self) -> float:
        base = self.single()
        if not self.taken("^"):
            return base
        try:
            return math.pow(base, self.power())
        except ValueError:
            raise RangeError("has a power that is no number") from None

    def single(self) -> float:
        if self.taken("-"):
            return -self.single()
        if self.taken("("):
            number = self.sum()
            if not self.taken(")"):
                raise RangeError("has a parenthesis that is not closed")
            return number
        if not self.tokens or not self.tokens[0][0].isdigit():
            raise RangeError("lacks a number")
        return float(self.tokens.pop(0))

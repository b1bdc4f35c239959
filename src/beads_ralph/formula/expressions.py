"""The small languages inside a formula's fields: conditions, ranges of loops, derived variables, patterns."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from beads_ralph.bead.names import branch_slug, slug
from beads_ralph.formula import spellings

# --- conditions -------------------------------------------------------------------------------------


CONDITION: Final = re.compile(
    r"(?P<not>!)?\{\{(?P<name>[A-Za-z0-9_]+)\}\}|"
    r"\{\{(?P<left>[A-Za-z0-9_]+)\}\}\s*(?P<sign>==|!=)\s*(?P<right>.+)",
    re.DOTALL,
)
NO: Final = frozenset({"", "false", "0", "no", "off"})


@dataclass(frozen=True)
class Condition:
    """A test of one variable."""

    name: str
    expected: str | None
    """None: the variable must say yes."""
    negated: bool

    def holds(self, text: Callable[[str], str]) -> bool:
        """`text` gives a variable's text, empty where it has none."""
        value = text(self.name)
        truth = value.lower() not in NO if self.expected is None else value == self.expected
        return truth is not self.negated


def parse_condition(text: str) -> Condition | None:
    """None for what is not a condition."""
    found = CONDITION.fullmatch(text.strip())
    if found is None:
        return None
    if found["left"] is None:
        return Condition(found["name"], None, found["not"] is not None)
    right = found["right"].strip()
    quoted = len(right) > 1 and right[0] == right[-1] and right[0] in "\"'"
    return Condition(found["left"], right[1:-1] if quoted else right, found["sign"] == "!=")


# --- ranges -----------------------------------------------------------------------------------------


RANGE_NAME: Final = re.compile(r"\{\{([A-Za-z0-9_]+)\}\}|\{([A-Za-z0-9_]+)\}")
TOKEN: Final = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([-+*/^()]))")
MAX_LENGTH: Final = 200
LARGEST: Final = 10**15


class RangeError(ValueError):
    """A range that says nothing, in words for the author."""


def range_names(text: str) -> list[str]:
    """The variables in a range."""
    return list(dict.fromkeys(found[1] or found[2] for found in RANGE_NAME.finditer(text)))


def range_bounds(text: str, values: Mapping[str, str]) -> tuple[int, int]:
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
            raise RangeError(f"names {name}, which is not a variable")
        return f"({values[name]})"  # so that 2^{n} of a negative number stays what it looks like

    try:
        number = _Expression(RANGE_NAME.sub(value, text)).value()
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
            raise RangeError("has a power that is not a number") from None

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


# --- derived variables ------------------------------------------------------------------------------


Source = str | Sequence[str]


def _text(value: Source) -> str:
    return value if isinstance(value, str) else "\n".join(value)


def _entries(value: Source) -> Sequence[str]:
    return value.splitlines() if isinstance(value, str) else value


def _phase_number(value: Source) -> str:
    digits = re.match(r"\d+", _text(value), re.ASCII)
    return f"{int(digits[0]):02d}" if digits else ""


def _spelt(rule: Callable[[str], str], value: Source) -> str:
    return rule(_text(value))


DERIVATIONS: Final[Mapping[str, Callable[[Source], str]]] = {
    "dashed": lambda value: _text(value).replace(".", "-"),
    "phase": lambda value: _text(value).partition(".")[0],
    "phase_number": _phase_number,
    "slug": lambda value: slug(_text(value)),
    "branch_slug": lambda value: branch_slug(_text(value)),
    "quoted": lambda value: shlex.quote(_text(value)),
    "sentences": lambda value: ". ".join(entry.rstrip(". ") for entry in _entries(value)) + ".",
    "bullets": lambda value: "\n".join(f"- {entry}" for entry in _entries(value)),
    **{name: partial(_spelt, rule) for name, rule in spellings.RULES.items()},
}
"""The rules that `derive = "slug(title)"` can name."""
DERIVATION: Final = re.compile(r"\s*(\w+)\s*\(\s*(\w+)\s*\)\s*", re.ASCII)


@dataclass(frozen=True)
class Derivation:
    """A rule, and the variable that it reads."""

    rule: str
    source: str

    def value(self, given: Source) -> str:
        return DERIVATIONS[self.rule](given)

    def __str__(self) -> str:
        return f"{self.rule}({self.source})"


def parse_derivation(text: str) -> Derivation | None:
    """`slug(title)`; None where the text is not of that form, or names no rule."""
    match = DERIVATION.fullmatch(text)
    return Derivation(match[1], match[2]) if match and match[1] in DERIVATIONS else None


# --- patterns ---------------------------------------------------------------------------------------


LONGEST_PATTERN: Final = 2000
"""Characters of a pattern."""
SHOWN: Final = 60
ESCAPE: Final = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.", re.DOTALL)
MEANING: Final = {
    r"\d": "[0-9]",
    r"\D": "[^0-9]",
    r"\w": "[0-9A-Za-z_]",
    r"\W": "[^0-9A-Za-z_]",
    r"\s": r"[\t\n\f\r ]",
    r"\S": r"[^\t\n\f\r ]",
    r"\b": r"(?-u:\b)",
}
"""Escapes that mean ASCII alone in Go, and any script in the other matcher."""


def pattern_fault(pattern: str) -> str | None:
    """Why a text is no pattern that can be used, None where it is one."""
    if len(pattern) > LONGEST_PATTERN:
        return f"it has {len(pattern)} characters, and at most {LONGEST_PATTERN} are allowed"
    try:
        _matcher(pattern)
    except SchemaError as problem:
        return str(problem).rpartition("error: ")[2].rpartition("SchemaError: ")[2].strip()
    return None


def pattern_refusal(pattern: str, text: str) -> str | None:
    """Why a value is not one that the pattern allows: some part of it must match, as in Go."""
    broken = pattern_fault(pattern)
    if broken is not None:
        return f"has a pattern that cannot be used: {broken}"
    try:
        _matcher(pattern).validate_python(text)
    except ValidationError:
        return f"must match {pattern}, not be {text if len(text) <= SHOWN else text[:SHOWN] + '…'!r}"
    return None


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, Field(pattern=ESCAPE.sub(_translated, pattern))])


def _translated(escape: re.Match[str]) -> str:
    if escape["quoted"] is not None:
        return re.escape(escape["quoted"])
    return MEANING.get(escape[0], escape[0])

"""Variables that follow from others: a sprint's label from its number, a name from a title."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beads_ralph.bead.slugs import branch_slug, slug

Given = str | Sequence[str]


def _text(value: Given) -> str:
    return value if isinstance(value, str) else "\n".join(value)


def _entries(value: Given) -> Sequence[str]:
    return value.splitlines() if isinstance(value, str) else value


def _dashed(value: Given) -> str:
    return _text(value).replace(".", "-")


def _phase(value: Given) -> str:
    return _text(value).partition(".")[0]


def _phase_number(value: Given) -> str:
    digits = re.match(r"\d+", _text(value), re.ASCII)
    return f"{int(digits[0]):02d}" if digits else ""


def _slug(value: Given) -> str:
    return slug(_text(value))


def _branch_slug(value: Given) -> str:
    return branch_slug(_text(value))


def _sentences(value: Given) -> str:
    return ". ".join(entry.rstrip(". ") for entry in _entries(value)) + "."


def _bullets(value: Given) -> str:
    return "\n".join(f"- {entry}" for entry in _entries(value))


RULES: Final[Mapping[str, Callable[[Given], str]]] = {
    "dashed": _dashed,
    "phase": _phase,
    "phase_number": _phase_number,
    "slug": _slug,
    "branch_slug": _branch_slug,
    "sentences": _sentences,
    "bullets": _bullets,
}
"""What `derive = "slug(title)"` can name."""
CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*(\w+)\s*\)\s*", re.ASCII)


@dataclass(frozen=True)
class Derivation:
    """A rule, and the variable that it reads."""

    rule: str
    source: str

    def value(self, given: Given) -> str:
        return RULES[self.rule](given)

    def __str__(self) -> str:
        return f"{self.rule}({self.source})"


def parsed(text: str) -> Derivation | None:
    """`slug(title)`; None where the text is not of that form, or names no rule."""
    match = CALL.fullmatch(text)
    return Derivation(match[1], match[2]) if match and match[1] in RULES else None

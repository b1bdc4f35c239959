"""Conditions of steps: `{{v}}`, `!{{v}}`, `{{v}} == x`, `{{v}} != x`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FORM: Final = re.compile(
    r"(?P<not>!)?\{\{(?P<name>[A-Za-z0-9_]+)\}\}|"
    r"\{\{(?P<left>[A-Za-z0-9_]+)\}\}\s*(?P<sign>==|!=)\s*(?P<right>.+)",
    re.DOTALL,
)
NO: Final = frozenset({"", "false", "0", "no", "off"})


@dataclass(frozen=True)
class Condition:
    """What must hold of one variable."""

    name: str
    expected: str | None
    """None: the variable must say yes."""
    negated: bool

    def holds(self, text: Callable[[str], str]) -> bool:
        """`text` gives a variable's text, empty where it has none."""
        value = text(self.name)
        truth = value.lower() not in NO if self.expected is None else value == self.expected
        return truth is not self.negated


def parse(text: str) -> Condition | None:
    """None for what is no condition."""
    found = FORM.fullmatch(text.strip())
    if found is None:
        return None
    if found["left"] is None:
        return Condition(found["name"], None, found["not"] is not None)
    return Condition(found["left"], _unquoted(found["right"].strip()), found["sign"] == "!=")


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text

"""What a board asks a person before it does something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class YesQuestion:
    """Something that is done only after a yes."""

    text: str
    yes: Callable[[], None]


@dataclass(frozen=True)
class WordsOrder:
    """Something that is done with a person's words."""

    text: str
    name: str
    bead: str

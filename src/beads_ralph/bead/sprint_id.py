"""Sprint ids: `3a.2b` taken apart, and their order."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Final, Self

MAX_DIGITS: Final = 9  # larger numbers are slips of the keyboard, and Python refuses to parse huge ones


@total_ordering
@dataclass(frozen=True)
class SprintId:
    """`3a.2b`: phase number 3, track a, sprint number 2, parallel sprint b."""

    phase_number: int
    phase_suffix: str
    sprint_number: int
    sprint_suffix: str
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The id, or None where the text is not one."""
        match = re.fullmatch(r"(\d+)([a-z]*)\.(\d+)([a-z]*)", text, re.ASCII)
        if match is None or max(len(match[1]), len(match[3])) > MAX_DIGITS:
            return None
        return cls(int(match[1]), match[2], int(match[3]), match[4], text)

    @property
    def phase(self) -> str:
        return self.text.partition(".")[0]

    @property
    def sprint_part(self) -> str:
        return self.text.partition(".")[2]

    @property
    def sprint_base(self) -> str:
        return f"{self.phase}.{self.sprint_part.rstrip('abcdefghijklmnopqrstuvwxyz')}"

    @property
    def dashed(self) -> str:
        return self.text.replace(".", "-")

    @property
    def track(self) -> tuple[int, str]:
        """What orders phases: 1 < 2 < 3a < 3b < 4."""
        return (self.phase_number, self.phase_suffix)

    @property
    def key(self) -> tuple[int, str, int, str]:
        return (self.phase_number, self.phase_suffix, self.sprint_number, self.sprint_suffix)

    def __lt__(self, other: Self) -> bool:
        return self.key < other.key

    def __str__(self) -> str:
        return self.text

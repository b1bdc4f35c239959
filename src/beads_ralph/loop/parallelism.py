"""How many beads may be at work at once: fewer while a program is at a limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Width:
    """Halved at each new limit, and given back one by one when calls work again."""

    most: int
    now: int

    @classmethod
    def of(cls, most: int) -> Width:
        return cls(most, most)

    def lower(self) -> bool:
        """Whether that changed anything."""
        before, self.now = self.now, max(self.now // 2, 1)
        return self.now != before

    def widen(self) -> bool:
        before, self.now = self.now, min(self.now + 1, self.most)
        return self.now != before

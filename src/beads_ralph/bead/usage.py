"""Tokens and money: what calls used, and what they may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Usage:
    """What a call cost, where the agent says so; None means unknown, not nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Unknown plus unknown is unknown; unknown plus something is at least that."""
        return Usage(*(_sum(getattr(self, name), getattr(other, name)) for name in COUNTS))

    def __sub__(self, other: Usage) -> Usage:
        """What came on top of `other`, which was counted from the same beginning."""
        return Usage(*(_difference(getattr(self, name), getattr(other, name)) for name in COUNTS))

    def at_least(self, other: Usage) -> Usage:
        """The larger of two counts from the same beginning, each of them for itself."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in COUNTS)
        return Usage(*(max((one for one in pair if one is not None), default=None) for pair in pairs))


UNKNOWN: Final = Usage()
"""Nothing is known of what was used."""
COUNTS: Final = ("input_tokens", "output_tokens", "cache_tokens", "cost_usd")


@dataclass(frozen=True)
class ProgramUse:
    """What all calls of one program with one model used."""

    program: str
    model: str = ""
    """Empty where nobody named one."""
    calls: int = 0
    usage: Usage = UNKNOWN
    cost_computed: bool = False
    """True if some of the cost is of the price table."""


def _sum(one: Any, other: Any) -> Any:
    known = [value for value in (one, other) if value is not None]
    return sum(known) if known else None


def _difference(total: Any, before: Any) -> Any:
    """A count that went down was begun anew."""
    if total is None or before is None or before > total:
        return total
    return total - before


@dataclass(frozen=True)
class Budget:
    """What a run or a bead may cost; None means no limit."""

    minutes: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None

    def left(self, spent: Usage) -> Budget:
        """What of the cost and the tokens is left; its time is kept by other means."""
        tokens = None if self.tokens is None else max(self.tokens - _work(spent), 0)
        money = None if self.cost_usd is None else max(self.cost_usd - (spent.cost_usd or 0.0), 0.0)
        return Budget(cost_usd=money, tokens=tokens)

    def or_less(self, other: Budget) -> Budget:
        """What both allow."""
        return Budget(
            *(_least(getattr(self, name), getattr(other, name)) for name in ("minutes", "cost_usd", "tokens"))
        )

    def used_up(self, spent: Usage, seconds: float) -> str:
        """Which of them is, in words; empty where none is. What came from a cache is no work."""
        tokens = _work(spent)
        for name, most, used in (
            ("time budget (minutes)", self.minutes, seconds / 60),
            ("cost budget (USD)", self.cost_usd, spent.cost_usd or 0.0),
            ("token budget", self.tokens, tokens),
        ):
            if most is not None and used >= most:
                return f"{name} of {most:g} is used up"
        return ""


def _work(spent: Usage) -> int:
    return (spent.input_tokens or 0) + (spent.output_tokens or 0)


def _least(one: Any, other: Any) -> Any:
    return min((value for value in (one, other) if value is not None), default=None)
